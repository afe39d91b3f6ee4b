//! The units: started as systemd starts them.

use std::os::unix::net::SocketAddr as UnixAddr;

use super::{Place, checked, drain, read, root, seconds};
use crate::serve::door::Serve;
use crate::serve::manager::{handed, listener, manager, told};
use crate::support::command;

/// The values of a key of a unit, in their order.
fn values<'u>(unit: &'u str, key: &str) -> Vec<&'u str> {
    let of_key = |line: &'u str| line.strip_prefix(key)?.strip_prefix('=');
    unit.lines().filter_map(of_key).collect()
}

#[track_caller]
fn value<'u>(unit: &'u str, key: &str) -> &'u str {
    let [value] = values(unit, key)[..] else { panic!("{key} is not there once") };
    value
}

#[test]
fn the_units_start_the_program_with_the_settings_beside_them() {
    let (service, socket) = (read("deploy/systemd/sopan.service"), read("deploy/systemd/sopan.socket"));
    let [program, args @ ..] = &value(&service, "ExecStart").split(' ').collect::<Vec<_>>()[..] else { panic!() };
    // Where the Debian package puts it.
    assert_eq!(*program, "/usr/bin/sopan");

    let place = Place::new();
    let (key, file) = value(&service, "LoadCredential").split_once(':').unwrap();
    assert!(file.starts_with("/etc/sopan/"), "{file}");
    place.write(&format!("secrets/{key}"), "s3cret\n");
    let settings = root().join("deploy/sopan.yaml");
    let place_of = |arg: &&str| match *arg {
        "/etc/sopan/sopan.yaml" => settings.to_str().unwrap().to_owned(),
        arg => arg.to_owned(),
    };
    let args: Vec<_> = args.iter().map(place_of).chain(["--admin", "127.0.0.1:0"].map(str::to_owned)).collect();
    let notify = place.path("notify");
    let manager = manager(&UnixAddr::from_pathname(&notify).unwrap());
    let (listening, address) = listener();
    let serve = command(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let mut command = handed(serve, listening.into(), None, value(&socket, "FileDescriptorName"), None);
    let mut proxy = Serve::begin(command.envs(place.variables()).env("NOTIFY_SOCKET", &notify));
    assert_eq!((value(&service, "Type"), proxy.address), ("notify", address));
    assert!(told(&manager).starts_with("READY=1\n"));
    place.is_used("cache");
    proxy.program.signal("TERM");
    assert_eq!(proxy.wait().0.code(), Some(0));

    let in_force = checked(settings.to_str().unwrap(), &place.variables());
    assert!(seconds(value(&service, "TimeoutStopSec")) > drain(&in_force));
    assert_eq!(in_force["settings"]["listen"]["value"], value(&socket, "ListenStream"));
}
