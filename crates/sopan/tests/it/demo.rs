//! `sopan demo`.

mod timed;

use std::io::{BufRead, BufReader};

use crate::support::{Running, command};

#[test]
fn an_interrupted_demo_ends_with_130() {
    let mut child = command(&["demo"]).spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert!(line.starts_with("An API allows 10 requests a second"), "{line}");
    let mut program = Running(child);
    program.signal("INT");
    assert_eq!(program.wait().code(), Some(130));
}

#[test]
fn a_reader_that_had_enough_ends_it() {
    let mut child = command(&["demo"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(Running(child).wait().code(), Some(0));
}
