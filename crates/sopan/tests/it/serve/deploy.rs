//! What is deployed works: units of systemd, the container's image and the manifests of Kubernetes start the program that is
//! built here, with the settings that they bring, and agree with it about ports, directories and times.
//!
//! None of them runs as it would there, since that takes a machine that boots, or a cluster: paths and ports are others, and
//! what those around the program promise (users, mounts, probes) is done by the test.

mod container;
mod kubernetes;
mod systemd;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{PATIENCE, command};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A place for what the program keeps, and for its secrets.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["state", "cache", "secrets"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        Self(directory)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// As systemd says where they are.
    fn variables(&self) -> [(&'static str, String); 3] {
        let names = [("STATE_DIRECTORY", "state"), ("CACHE_DIRECTORY", "cache"), ("CREDENTIALS_DIRECTORY", "secrets")];
        names.map(|(variable, name)| (variable, self.path(name)))
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.0.path().join(name), text).unwrap();
        self.path(name)
    }

    /// Whether the state is on file, and the cache on disk.
    #[track_caller]
    fn is_used(&self, cache: &str) {
        let has = |name: &str| self.0.path().join(name).exists();
        assert!(has("state/state"), "no state");
        assert!(has(&format!("{cache}/sopan-cache.index")), "no cache");
    }
}

/// What `sopan check` says is in force.
#[track_caller]
fn checked(file: &str, variables: &[(&str, String)]) -> serde_json::Value {
    let done = command(&["check", "--format", "json", file]).envs(variables.iter().cloned()).output().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(told["ok"], true, "{told:#}");
    told
}

/// How long draining may take.
fn drain(told: &serde_json::Value) -> Duration {
    seconds(told["settings"]["drain"]["value"].as_str().unwrap())
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs(text.strip_suffix('s').unwrap().parse().unwrap())
}

/// What somebody is answered who knows the program by this name, and no secret. The API is not asked: without an answer in
/// store, 504 says that it would have been.
fn status(address: SocketAddr, host: &str, path: &str) -> u16 {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {host}\r\nCache-Control: only-if-cached\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer[9..12].parse().unwrap()
}
