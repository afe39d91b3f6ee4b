//! The connection against what stands at the other end: nobody, somebody who says nothing or something else, and a real
//! redis-server, which is stopped, started anew, and wants to know who asks.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

fn settings(url: &str, timeout: Duration) -> RedisSettings {
    RedisSettings { timeout, ..RedisSettings::new(url.parse().unwrap()) }
}

fn redis(settings: RedisSettings) -> Redis {
    Redis::new(settings, NUMBERS_MAX, Clock::system()).unwrap()
}

fn ping() -> Cmd {
    let mut ping = Cmd::new();
    ping.arg("PING");
    ping
}

/// Asks until it is answered.
#[allow(clippy::disallowed_methods, reason = "a real server takes real time")]
async fn answered(redis: &Redis) -> Vec<Fault> {
    let begun = Instant::now();
    let mut faults = Vec::new();
    loop {
        match redis.send(&ping()).await {
            Ok(_) => return faults,
            Err(fault) => faults.push(fault),
        }
        assert!(begun.elapsed() < PATIENCE, "{faults:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "sockets take real time")]
async fn whoever_stands_there_nobody_waits_longer_than_told_and_it_is_said_what_it_is() {
    let timeout = Duration::from_millis(300);
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let other_at = other.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in other.incoming() {
            // It goes when it likes.
            let _ = socket.and_then(|mut socket| socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        }
    });
    for (at, kinds) in [
        (refusing, &["unreachable"][..]),
        (silent.local_addr().unwrap(), &["timeout"]),
        (other_at, &["nonsense", "unreachable"]),
    ] {
        for way in ["redis://", "redis-sentinel://", "redis-cluster://"] {
            let master = if way == "redis-sentinel://" { "/main" } else { "" };
            let redis = redis(settings(&format!("{way}:s3cret@{at}{master}"), timeout));
            let begun = Instant::now();
            let fault = redis.send(&ping()).await.unwrap_err();
            assert!(begun.elapsed() < timeout * 3, "{way} {fault}: {:?}", begun.elapsed());
            assert!(kinds.contains(&fault.kind()) || fault.kind() == "timeout", "{way}: {fault:?}");
            assert!(!format!("{fault} {fault:?} {redis:?}").contains("s3cret"), "{fault:?}");
        }
    }
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "sockets take real time")]
async fn of_a_reply_that_is_too_long_no_more_is_read_than_it_takes_to_see_that() {
    const SENT_MAX: u64 = 128 << 20;
    let digits = "1".repeat(1 << 16);
    let text = format!("${}\r\n{digits}\r\n", digits.len());
    let endless = [
        ("$2000000000\r\n", &digits),
        ("*2000000000\r\n:1\r\n", &digits),
        ("*60000\r\n", &text),
        ("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", &digits),
        ("+", &digits),
    ];
    let ways = ["redis", "redis-sentinel", "redis-cluster"];
    for ((beginning, more), way) in endless.into_iter().flat_map(|endless| ways.map(|way| (endless, way))) {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = server.local_addr().unwrap();
        let (tell, sent) = std::sync::mpsc::channel();
        let more = more.clone();
        std::thread::spawn(move || {
            for socket in server.incoming() {
                let mut socket = socket.unwrap();
                let mut sent = 0;
                let mut asked = [0; 4096];
                _ = socket.read(&mut asked);
                _ = socket.write_all(beginning.as_bytes());
                // As long as somebody reads.
                while sent < SENT_MAX && socket.write_all(more.as_bytes()).is_ok() {
                    sent += more.len() as u64;
                }
                _ = tell.send(sent);
            }
        });
        let master = if way == "redis-sentinel" { "/main" } else { "" };
        let timeout = Duration::from_secs(5);
        let redis = redis(settings(&format!("{way}://{at}{master}"), timeout));
        let fault = redis.send(&ping()).await.unwrap_err();
        let shown = beginning.trim_end();
        if way == "redis" {
            assert!(matches!(&fault, Fault::Nonsense(why) if why.contains("a reply of ")), "{shown} {way}: {fault:?}");
        }
        // To what is read, at most 34 MiB, comes what the system holds of it.
        let sent = tokio::task::spawn_blocking(move || sent.recv_timeout(PATIENCE)).await.unwrap().unwrap();
        assert!(sent < SENT_MAX / 2, "{shown} {way}: {sent} bytes were taken");
    }
}

#[tokio::test]
async fn a_server_that_is_another_one_than_the_url_says_is_called_what_it_is() {
    let script = Script::new("return 1");
    // A real question is longer than what a server reads of somebody whom it does not know.
    let args = vec![b"x".to_vec(); 40];
    let of = async |way: &str, server: &Server, path: &str| {
        let redis = redis(settings(&format!("{way}{}{path}", server.at), Duration::from_millis(500)));
        let short = redis.send(&ping()).await;
        let long = redis.run(&script, &["key".to_owned()], &args).await;
        [short.err(), long.err()].map(|fault| fault.map(|fault| fault.to_string()).unwrap_or_default())
    };
    let Some(closed) = Server::start(None, &["--requirepass", "p"]).await else { return };
    for said in of("redis://", &closed, "").await {
        assert_eq!(said, "refuses: it wants a password, and its URL has none");
    }
    let Some(plain) = Server::start(None, &[]).await else { return };
    for said in of("redis-cluster://", &plain, "").await {
        assert_eq!(said, "refuses: it is no Cluster; write redis://HOST as its URL");
    }
    for said in of("redis-sentinel://", &plain, "/main").await {
        assert!(said.starts_with("refuses: it is no Sentinel; write redis://HOST as its URL"), "{said}");
    }
    let folder = tempfile::tempdir().unwrap();
    let node = ["--cluster-enabled", "yes", "--dir", folder.path().to_str().unwrap()];
    let Some(node) = Server::start(None, &node).await else { return };
    let [_, said] = of("redis://", &node, "").await;
    assert_eq!(said, "refuses: it is a node of a Cluster; write redis-cluster://HOST as its URL");
}

/// A redis-server, ended when it is dropped.
struct Server {
    process: Child,
    at: SocketAddr,
}

impl Server {
    /// None where there is no redis-server; a test ends then, unless nothing may be skipped.
    #[allow(clippy::disallowed_methods, reason = "whether anything may be skipped")]
    async fn start(at: Option<SocketAddr>, more: &[&str]) -> Option<Self> {
        let at = at.unwrap_or_else(|| TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
        let tls = more.contains(&"--tls-cert-file");
        let (port, other) = if tls { ("--tls-port", "--port") } else { ("--port", "--tls-port") };
        let mut command = Command::new("redis-server");
        command.args([port, &at.port().to_string(), other, "0", "--save", "", "--dir", "/tmp"]).args(more);
        let Ok(process) = command.stdout(Stdio::null()).spawn() else {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "SKIPPED: redis-server is missing");
            return None;
        };
        let server = Self { process, at };
        for _ in 0..1000 {
            if TcpStream::connect(at).is_ok() {
                return Some(server);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("redis-server does not come up at {at}");
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(process, signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

#[tokio::test]
async fn a_server_that_forgets_stands_still_or_is_started_anew_is_found_again() {
    let timeout = Duration::from_millis(100);
    let Some(server) = Server::start(None, &[]).await else { return };
    let redis = redis(settings(&format!("redis://{}", server.at), timeout));
    let script = Script::new("return {KEYS[1], ARGV[1]}");
    let run = || async { redis.run(&script, &["key".to_owned()], &["arg".to_owned()]).await };
    answered(&redis).await;
    let first = run().await.unwrap();
    let mut flush = Cmd::new();
    flush.arg("SCRIPT").arg("FLUSH");
    redis.send(&flush).await.unwrap();
    assert_eq!(run().await, Ok(first.clone()));

    server.signal(rustix::process::Signal::STOP);
    assert_eq!(run().await, Err(Fault::Slow(timeout)));
    server.signal(rustix::process::Signal::CONT);
    answered(&redis).await;
    assert_eq!(run().await, Ok(first.clone()));

    let at = server.at;
    drop(server);
    let fault = run().await.unwrap_err();
    assert!(["unreachable", "timeout"].contains(&fault.kind()), "{fault:?}");
    let Some(_server) = Server::start(Some(at), &[]).await else { return };
    answered(&redis).await;
    assert_eq!(run().await, Ok(first));
}

#[tokio::test]
async fn who_asks_is_told_to_the_server_over_tls_that_our_authority_vouches_for() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (cert, key) = (file("cert.pem", &cert.pem()), file("key.pem", &signing_key.serialize_pem()));
    let tls = ["--tls-cert-file", &text(&cert), "--tls-key-file", &text(&key), "--tls-auth-clients", "no"];
    let more = [&tls[..], &["--requirepass", "p@ss"]].concat();
    let Some(server) = Server::start(None, &more).await else { return };
    let to = |userinfo: &str, ca_file: Option<&Path>| {
        let url = format!("rediss://{userinfo}{}/3", server.at);
        let settings = settings(&url, Duration::from_millis(500));
        redis(RedisSettings { ca_file: ca_file.map(Path::to_owned), ..settings })
    };
    let mut which = Cmd::new();
    which.arg("CLIENT").arg("INFO");
    let known = to(":p%40ss@", Some(&cert));
    answered(&known).await;
    let Ok(Value::BulkString(info)) = known.send(&which).await else { panic!("no CLIENT INFO") };
    let info = String::from_utf8(info).unwrap();
    assert!(info.contains(" db=3 ") && !info.contains("p@ss"), "{info}");

    let said = |fault: Fault| fault.to_string();
    let wrong = said(to(":wrong@", Some(&cert)).send(&ping()).await.unwrap_err());
    assert_eq!(wrong, "refuses: it does not accept the user or the password");
    let nobody = said(to("", Some(&cert)).send(&ping()).await.unwrap_err());
    assert!(nobody.starts_with("refuses: ") && nobody.to_ascii_lowercase().contains("auth"), "{nobody}");
    let stranger = said(to(":p%40ss@", None).send(&ping()).await.unwrap_err());
    assert!(stranger.starts_with("cannot be reached: ") && stranger.contains("certificate"), "{stranger}");
}
