//! The image: what is built from is there, and what it runs is understood.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Place, read, root, status};
use crate::serve::door::Serve;
use crate::support::command;

/// The instructions of a Dockerfile, whole lines each.
fn instructions() -> Vec<(String, String)> {
    let text = read("Dockerfile");
    let lines = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let split = |line: &str| line.split_once(' ').map(|(name, rest)| (name.to_owned(), rest.trim().to_owned()));
    lines.lines().filter_map(split).collect()
}

fn all<'i>(instructions: &'i [(String, String)], name: &'i str) -> impl Iterator<Item = &'i str> {
    instructions.iter().filter(move |(known, _)| known == name).map(|(_, rest)| rest.as_str())
}

/// The words of an instruction in the form of JSON.
fn words(instructions: &[(String, String)], name: &str) -> Vec<String> {
    serde_json::from_str(all(instructions, name).next().unwrap()).unwrap()
}

#[test]
fn what_the_image_is_built_from_is_a_whole_workspace() {
    let instructions = instructions();
    let ignored = read(".dockerignore");
    let place = Place::new();
    for copied in all(&instructions, "COPY").filter(|copied| !copied.starts_with("--from")) {
        let [names @ .., _] = &copied.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{copied}") };
        for name in names {
            assert!(ignored.lines().any(|line| line.strip_prefix('!') == Some(name)), "{name} is ignored");
            let from = root().join(name);
            assert!(Command::new("cp").arg("-r").arg(from).arg(place.path(name)).status().unwrap().success());
        }
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let read_by_cargo = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--locked"])
        .current_dir(place.0.path())
        .output()
        .unwrap();
    assert!(read_by_cargo.status.success(), "{}", String::from_utf8_lossy(&read_by_cargo.stderr));
    assert!(Path::new(&place.path("Cargo.lock")).exists());
    let version = read("Cargo.toml").lines().find_map(|line| Some(line.strip_prefix("rust-version = \"")?.to_owned()));
    let begins = format!("rust:{}-", version.unwrap().trim_end_matches('"'));
    assert!(all(&instructions, "FROM").next().unwrap().starts_with(&begins), "another Rust than {begins}");
}

#[test]
fn the_image_runs_what_it_says_and_knows_how_it_is() {
    let instructions = instructions();
    let args = [words(&instructions, "ENTRYPOINT"), words(&instructions, "CMD")].concat();
    let [program, args @ ..] = &args[..] else { panic!("{args:?}") };
    assert_eq!(program, "sopan");
    let port = all(&instructions, "EXPOSE").next().unwrap();
    assert!(args.contains(&format!("0.0.0.0:{port}")), "{args:?}");
    // Nobody changes into root where the image is not to be trusted.
    assert!(all(&instructions, "USER").all(|user| user.split(':').all(|id| id.parse::<u32>().unwrap() > 0)));

    let place = Place::new();
    place.write("secrets/api-key", "s3cret\n");
    let settings = root().join("deploy/sopan.yaml").to_str().unwrap().to_owned();
    // Where the settings look without systemd.
    let text = read("deploy/sopan.yaml");
    for directory in ["/var/lib/sopan", "/var/cache/sopan"] {
        assert!(text.contains(&format!(":-{directory}}}")), "{directory}");
        assert!(all(&instructions, "RUN").any(|run| run.contains(directory)), "{directory}");
    }
    let here = |arg: &String| match arg.as_str() {
        "/etc/sopan/sopan.yaml" => settings.clone(),
        arg => arg.replace(&format!(":{port}"), ":0"),
    };
    let args: Vec<_> = args.iter().map(here).chain(["--admin", "127.0.0.1:0"].map(str::to_owned)).collect();
    let mut command = command(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let mut proxy = Serve::begin(command.envs(place.variables()).stdout(Stdio::null()));
    place.is_used("cache");
    // By whatever name it is asked.
    assert_eq!(status(proxy.address, "sopan:8000", "/"), 504);

    let check = all(&instructions, "HEALTHCHECK").next().unwrap().split_once("CMD ").unwrap().1;
    let asked = format!("'{}' status --admin {}", env!("CARGO_BIN_EXE_sopan"), proxy.admin);
    let check = check.replacen("sopan status", &asked, 1);
    let health = || Command::new("sh").args(["-c", &check]).output().unwrap().status.code();
    assert_eq!(health(), Some(0), "{check}");
    proxy.program.signal(all(&instructions, "STOPSIGNAL").next().unwrap().strip_prefix("SIG").unwrap());
    assert_eq!((proxy.wait().0.code(), health()), (Some(0), Some(1)));
}
