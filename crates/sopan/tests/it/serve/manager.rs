//! Run by a service manager: what that is told, and sockets that it has opened already.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::process::{Command, Stdio};
use std::time::Duration;

use sopan_fake::script::Answer;

use super::door::{Scripted, Serve};
use super::wire::{Client, request};
use crate::support::{self, PATIENCE, Run, command, nobody, until};

/// `sopan serve`, with these flags, in front of this.
fn serve(upstream: &str, flags: &[&str]) -> Command {
    let usual = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--upstream", upstream];
    command(&[&usual, flags].concat())
}

/// The manager's end.
pub(super) fn manager(address: &UnixAddr) -> UnixDatagram {
    let socket = UnixDatagram::bind_addr(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

#[track_caller]
pub(super) fn told(manager: &UnixDatagram) -> String {
    let mut message = [0; 4096];
    let length = manager.recv(&mut message).expect("it is told nothing");
    String::from_utf8(message[..length].to_vec()).unwrap()
}

#[test]
fn its_manager_is_told_when_it_serves_and_when_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let name = format!("sopan-test-{}", std::process::id());
    for (address, variable) in [
        (UnixAddr::from_pathname(&path).unwrap(), path.to_str().unwrap().to_owned()),
        (UnixAddr::from_abstract_name(&name).unwrap(), format!("@{name}")),
    ] {
        let manager = manager(&address);
        let upstream = Scripted::start(|_| Answer::events().event("1").hang());
        let mut proxy = Serve::begin(
            serve(&upstream.url(), &["--drain", "500ms"]).env("NOTIFY_SOCKET", variable).stdout(Stdio::null()),
        );
        assert_eq!(told(&manager), format!("READY=1\nSTATUS=listening on http://{}", proxy.address));
        let mut client = proxy.connect();
        client.send(request("GET", "/", ""));
        client.sees("data: 1\n\n\r\n");
        // Of what has begun, while it has not ended.
        proxy.program.signal("TERM");
        let last = told(&manager);
        assert!(
            last.starts_with("STOPPING=1\nSTATUS=draining") && last.ends_with("\nEXTEND_TIMEOUT_USEC=15500000"),
            "{last}"
        );
        assert_eq!((proxy.wait().0.code(), &proxy.logged("WARN")[1..]), (Some(0), &[][..] as &[String]));
    }
}

#[test]
fn signs_of_life_come_until_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = manager(&UnixAddr::from_pathname(&path).unwrap());
    let upstream = Scripted::start(|_| Answer::events().event("1").hang());
    let mut command = serve(&upstream.url(), &["--drain", "30s", "--workers", "3"]);
    let command = command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000").stdout(Stdio::null());
    let proxy = Serve::begin(command);
    assert!(told(&manager).starts_with("READY=1\n"));
    let mut client = proxy.connect();
    client.send(request("GET", "/", ""));
    client.sees("data: 1\n\n\r\n");
    assert_eq!([told(&manager), told(&manager)], ["WATCHDOG=1"; 2]);
    proxy.program.signal("TERM");
    until(|| told(&manager).starts_with("STOPPING=1\n").then_some(()));
    assert_eq!([told(&manager), told(&manager)], ["WATCHDOG=1"; 2]);
    drop(proxy);
    // Signs that were asked of another process are not ours to give.
    let proxy = Serve::begin(command.env("WATCHDOG_PID", "1"));
    until(|| told(&manager).starts_with("READY=1\n").then_some(()));
    manager.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(manager.recv(&mut [0; 64]).is_err());
    assert_eq!(support::get(proxy.admin, "/healthz").status(), 200);
}

#[test]
fn without_its_manager_it_serves_all_the_same() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    for (variable, why) in [("/nowhere/notify", "No such file"), ("notify", "begins neither with / nor with @")] {
        let mut command = serve(&upstream.url(), &[]);
        let command = command.env("NOTIFY_SOCKET", variable).env("WATCHDOG_USEC", "20000");
        let mut proxy = Serve::begin(command.stdout(Stdio::null()));
        assert_eq!(proxy.get("/").status(), 200);
        std::thread::sleep(Duration::from_millis(100));
        proxy.program.signal("TERM");
        assert_eq!(proxy.wait().0.code(), Some(0));
        let lines = proxy.logged("WARN").into_iter().filter(|line| line.contains("service manager"));
        // Of signs of life once, not every 10 ms.
        let told: Vec<_> = lines.map(|line| line.split("told ").nth(1).unwrap().to_owned()).collect();
        let expected = ["READY=1: ", "WATCHDOG=1: ", "STOPPING=1: "];
        assert_eq!(told.len(), 3, "{told:?}");
        let is_told = |(told, expected): (&String, &str)| told.starts_with(expected) && told.contains(why);
        assert!(told.iter().zip(expected).all(is_told), "{told:?}");
    }
}

/// `sopan serve` that finds what it is handed from descriptor 3 on, called so, and for whom if not for itself.
pub(super) fn handed(
    mut serve: Command,
    first: OwnedFd,
    second: Option<OwnedFd>,
    names: &str,
    process: Option<&str>,
) -> Command {
    let count = 1 + usize::from(second.is_some());
    let exec = r#"LISTEN_PID=${PROCESS:-$$} exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", exec]).arg(serve.get_program()).args(serve.get_args());
    shell.env("LISTEN_FDS", count.to_string()).env("LISTEN_FDNAMES", names);
    shell.envs(process.map(|process| ("PROCESS", process)));
    shell.stdin(first).stdout(second.map_or_else(Stdio::null, Stdio::from)).stderr(Stdio::piped());
    serve.stdin(Stdio::null());
    shell
}

pub(super) fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn sockets_that_are_handed_over_are_used_and_the_settings_say_so() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let ((for_clients, listen), (for_admin, admin)) = (listener(), listener());
    let command = serve(&upstream.url(), &[]);
    let proxy = Serve::begin(&mut handed(command, for_admin.into(), Some(for_clients.into()), "admin:proxy", None));
    assert_eq!((proxy.address, proxy.admin), (listen, admin));
    assert_eq!(proxy.get("/").status(), 200);
    let told: serde_json::Value = serde_json::from_str(&support::get(admin, "/settings").body).unwrap();
    for (key, value, name) in [("listen", listen, "proxy"), ("admin", admin, "admin")] {
        let from = format!("the socket `{name}` of the service manager");
        assert_eq!(told["settings"][key], serde_json::json!({"value": value.to_string(), "from": from}));
    }
}

#[test]
fn who_comes_while_it_restarts_is_served_by_the_next_one() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let (socket, listen) = listener();
    let next = || {
        let command = serve(&upstream.url(), &[]);
        Serve::begin(&mut handed(command, socket.try_clone().unwrap().into(), None, "sopan.socket", None))
    };
    let mut first = next();
    assert_eq!((first.address, first.get("/").status()), (listen, 200));
    first.program.signal("TERM");
    assert_eq!(first.wait().0.code(), Some(0));
    let mut waiting = Client::connect(listen);
    waiting.send(request("GET", "/meanwhile", ""));
    assert_eq!(upstream.deliveries("/meanwhile"), 0);
    let second = next();
    assert_eq!((second.address, waiting.reply().status()), (listen, 200));
}

#[test]
fn sockets_for_another_process_are_left_alone() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let (socket, listen) = listener();
    let command = serve(&upstream.url(), &[]);
    let proxy = Serve::begin(&mut handed(command, socket.try_clone().unwrap().into(), None, "proxy", Some("1")));
    assert!(proxy.address != listen && proxy.get("/").status() == 200);
}

#[test]
fn what_cannot_be_listened_on_is_told_before_anything_is_started() {
    let upstream = format!("http://{}", nobody());
    let check = |first: OwnedFd, second: Option<OwnedFd>, names: &str, expected: &str| {
        let done = handed(serve(&upstream, &[]), first, second, names, None).output().unwrap();
        let run = Run {
            code: done.status.code(),
            out: done.stdout,
            err: String::from_utf8(done.stderr).unwrap(),
            took: Duration::ZERO,
        };
        assert_eq!(run.code, Some(2), "{names}: {}", run.err);
        assert!(run.complained().iter().any(|line| line.contains(expected)), "{names}: {}", run.err);
    };
    let tcp = || OwnedFd::from(listener().0);
    let (one, two) = ("the socket `proxy` of the service manager: ", "the socket `admin` of the service manager: ");
    check(tcp(), Some(tcp()), "proxy:proxy", "two sockets are called `proxy`");
    check(std::fs::File::open("/dev/null").unwrap().into(), None, "proxy", &format!("{one}fd 3 is not a socket; name"));
    check(
        UdpSocket::bind("127.0.0.1:0").unwrap().into(),
        None,
        "admin",
        &format!("{two}fd 3 is not a valid tcp socket"),
    );
    check(UnixDatagram::unbound().unwrap().into(), None, "proxy", &format!("{one}fd 3 is not a valid tcp socket"));
    let (peer, address) = listener();
    let connected = TcpStream::connect(address).unwrap();
    check(connected.into(), None, "connection", &format!("{one}nobody listens on it; name"));
    drop(peer);
    // What others reach is not safer for having been opened by somebody else.
    let open = || OwnedFd::from(TcpListener::bind("0.0.0.0:0").unwrap());
    check(open(), None, "proxy", "whoever reaches it uses the API as you do; add --open");
    check(open(), None, "admin", "whoever reaches it sees and changes what goes on; add --admin-token-file");
}
