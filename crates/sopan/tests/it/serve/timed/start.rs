//! How soon it is there.

use std::net::TcpStream;
use std::process::Stdio;
use std::time::Instant;

use sopan_fake::script::Answer;

use super::ms;
use crate::serve::door::{Port, Scripted};
use crate::serve::wire::Client;
use crate::support::{Running, command, until};

#[test]
fn the_first_answer_comes_soon_after_the_start() {
    let upstream = Scripted::start(|_| Answer::json(200, "{}"));
    let url = upstream.url();
    let mut took: Vec<_> = (0..5)
        .map(|_| {
            let address = Port::closed().address;
            let listen = address.to_string();
            let begun = Instant::now();
            let mut command = command(&["serve", "--upstream", &url, "--listen", &listen, "--admin", "off"]);
            let _running = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
            until(|| TcpStream::connect(address).ok().map(drop));
            assert_eq!(Client::connect(address).get("/x").status(), 200);
            begun.elapsed()
        })
        .collect();
    took.sort();
    assert!(took[2] < ms(500), "{took:?}");
}
