//! The manifests: what stands in different places of them agrees, and the container starts and answers its probes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::Value as Json;

use super::{Place, checked, drain, read, status};
use crate::serve::door::Serve;
use crate::support::command;

/// The only manifest of this kind.
#[track_caller]
fn kind<'m>(manifests: &'m [Json], kind: &str) -> &'m Json {
    let [manifest] = manifests.iter().filter(|manifest| manifest["kind"] == kind).collect::<Vec<_>>()[..] else {
        panic!("there is not one {kind}")
    };
    manifest
}

/// The member of a list that is called so.
#[track_caller]
fn named<'l>(list: &'l Json, name: &Json) -> &'l Json {
    let mut members = list.as_array().unwrap().iter();
    members.find(|member| member["name"] == *name).unwrap_or_else(|| panic!("no {name} in {list:#}"))
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

#[test]
fn the_manifests_agree_and_the_container_answers_its_probes() {
    let file = read("deploy/kubernetes/sopan.yaml");
    let parsed = file.split("\n---\n").map(|part| serde_saphyr::from_str::<Json>(part).unwrap());
    let manifests: Vec<_> = parsed.collect();
    let (map, deployment) = (kind(&manifests, "ConfigMap"), kind(&manifests, "Deployment"));
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let settings = text(&map["data"]["sopan.yaml"]);

    // Two at a time would each use the whole of what the API allows.
    assert_eq!(
        (&deployment["spec"]["replicas"], &deployment["spec"]["strategy"]["type"]),
        (&1.into(), &"Recreate".into())
    );
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    let service = kind(&manifests, "Service");
    assert_eq!((&deployment["spec"]["selector"]["matchLabels"], &service["spec"]["selector"]), (labels, labels));

    // Each volume is what the manifests or the comment at their top make.
    let volume = |mount: &Json| named(&pod["volumes"], &mount["name"]);
    let mount_of = |path: &str| {
        let mounts = container["volumeMounts"].as_array().unwrap();
        let mount = mounts.iter().find(|mount| path.starts_with(&format!("{}/", text(&mount["mountPath"]))));
        mount.unwrap_or_else(|| panic!("nothing is mounted at {path}"))
    };
    assert_eq!(volume(mount_of("/etc/sopan/sopan.yaml"))["configMap"]["name"], map["metadata"]["name"]);
    assert_eq!(
        volume(mount_of("/var/lib/sopan/state"))["persistentVolumeClaim"]["claimName"],
        kind(&manifests, "PersistentVolumeClaim")["metadata"]["name"]
    );
    let secret = &volume(mount_of("/run/secrets/sopan/api-key"))["secret"];
    let variable = &container["env"][0];
    let from = &variable["valueFrom"]["secretKeyRef"];
    assert_eq!(secret["secretName"], from["name"]);
    let create = file.lines().find(|line| line.contains("kubectl create secret")).unwrap();
    for part in [
        format!("generic {} ", text(&from["name"])),
        "--from-file=api-key".to_owned(),
        format!("{}=", text(&from["key"])),
    ] {
        assert!(create.contains(&part), "{part}");
    }

    // The same elsewhere. A volume of Kubernetes is one to which every user may write.
    let place = Place::new();
    fs::create_dir(place.path("volume")).unwrap();
    fs::set_permissions(place.path("volume"), fs::Permissions::from_mode(0o2777)).unwrap();
    place.write("secrets/api-key", "s3cret\n");
    let mut moved = settings.to_owned();
    for (there, here) in [
        ("/run/secrets/sopan/", place.path("secrets/")),
        ("/var/lib/sopan/", place.path("state/")),
        ("/var/cache/sopan/", place.path("volume/")),
        ("0.0.0.0:8000", "0.0.0.0:0".to_owned()),
        ("0.0.0.0:8001", "0.0.0.0:0".to_owned()),
    ] {
        assert_eq!(moved.matches(there).count(), 1, "{there} is not in the settings once");
        moved = moved.replace(there, &here);
    }
    let moved = place.write("sopan.yaml", &moved);
    let token = [(text(&variable["name"]), "0123456789abcdef".to_owned())];
    let in_force = checked(&moved, &token);
    assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() > drain(&in_force).as_secs());

    let args = container["args"].as_array().unwrap().iter().map(text);
    let args: Vec<_> = args.map(|arg| if arg == "/etc/sopan/sopan.yaml" { &moved } else { arg }).collect();
    let proxy = Serve::begin(command(&args).envs(token).stdout(Stdio::null()));
    place.is_used("volume/answers");
    for (probe, expected) in [("startupProbe", "/readyz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")]
    {
        let get = &container[probe]["httpGet"];
        assert_eq!(
            (text(&get["path"]), &named(&container["ports"], &get["port"])["containerPort"]),
            (expected, &8001.into())
        );
        // By the address of the pod, and without the secret.
        assert_eq!(status(proxy.admin, "10.244.0.7:8001", text(&get["path"])), 200, "{probe}");
    }
    assert_eq!(status(proxy.admin, "10.244.0.7:8001", "/state"), 401);
    let port = &service["spec"]["ports"][0];
    assert_eq!(named(&container["ports"], &port["targetPort"])["containerPort"], 8000);
    assert_eq!(status(proxy.address, "sopan:8000", "/"), 504);
}
