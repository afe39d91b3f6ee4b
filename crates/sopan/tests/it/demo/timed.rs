//! The whole of it, for a pipe and for a terminal; both at the same time, since each takes ten seconds.

use std::process::{Command, Stdio};

use crate::support::{command, skipped};

const COLUMNS: usize = 80;

#[test]
fn what_is_shown_is_what_happened() {
    let lines = command(&["demo"]).spawn().unwrap();
    // A terminal whose size is known, since whoever runs this has perhaps none.
    let on_terminal = format!("stty cols {COLUMNS} rows 24; exec {} demo", env!("CARGO_BIN_EXE_sopan"));
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &on_terminal, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
    terminal.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let terminal = terminal.spawn();

    let lines = lines.wait_with_output().unwrap();
    let shown = String::from_utf8(lines.stdout).unwrap();
    assert_eq!((lines.status.code(), &*lines.stderr), (Some(0), &b""[..]), "{shown}");
    assert!(!shown.contains('\x1b'), "{shown:?}");
    for line in
        ["INFO the upstream asks for a pause: nothing is sent for 1.00 s", "WARN attempt 1 failed (HTTP 503); waiting"]
    {
        assert_eq!(shown.matches(line).count(), 1, "{line}\n{shown}");
    }
    assert!(shown.lines().filter(|line| line.contains("| through ")).count() >= 10, "{shown}");
    check_table(&shown);

    let Ok(terminal) = terminal else { return skipped("no script(1), so no terminal") };
    let terminal = terminal.wait_with_output().unwrap();
    let shown = String::from_utf8(terminal.stdout).unwrap();
    assert_eq!(terminal.status.code(), Some(0), "{shown}");
    assert!(!shown.contains("\x1b[?"), "no mode of the terminal is changed: {shown:?}");
    let up = "\x1b[21F";
    assert!(shown.matches(up).count() >= 50 && shown.contains("\x1b[32mo"), "{shown:?}");
    let last_picture = shown.rsplit(up).next().unwrap_or_default();
    let last_picture = visible(last_picture);
    assert!(last_picture.contains("all have their answers"), "{last_picture}");
    check_table(&last_picture);
    check_fits(&visible(&shown));
}

/// sopan lets everything through, at no 429; without it there are some.
#[track_caller]
fn check_table(shown: &str) {
    let row = |what: &str| {
        let line =
            shown.lines().find(|line| line.starts_with(what)).unwrap_or_else(|| panic!("no {what:?} in {shown}"));
        let numbers: Vec<u32> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        <[u32; 2]>::try_from(&numbers[numbers.len() - 2..]).unwrap()
    };
    let ([asked, asked_too], [got, got_through]) = (row("requests of"), row("  got 200"));
    assert!(asked == asked_too && got_through == asked && got < asked, "{shown}");
    let ([refused, no_more], [refused_429, avoidable]) = (row("  got 429"), row("  refused with 429"));
    assert!(refused > 0 && refused_429 == refused && no_more == 0 && avoidable == 0, "{shown}");
    let ([arrived, arrived_through], [closed, closed_through]) = (row("arrivals"), row("  refused with 503"));
    assert!(arrived == asked && closed > closed_through && closed_through > 0, "{shown}");
    assert_eq!(arrived_through, got_through + closed_through, "{shown}");
    assert!(shown.ends_with("instead of https://YOUR-API.\n"), "{shown}");
}

#[track_caller]
fn check_fits(shown: &str) {
    let long: Vec<_> = shown.lines().filter(|line| line.chars().count() > COLUMNS).collect();
    assert!(long.is_empty(), "{long:#?}");
}

/// What a terminal shows of it, one line below the other.
fn visible(written: &str) -> String {
    let mut pieces = written.split("\x1b[");
    let first = pieces.next().unwrap_or_default().to_owned();
    let shown = pieces.fold(first, |shown, piece| {
        let end = piece.find(|c: char| c.is_ascii_alphabetic()).unwrap();
        shown + &piece[end + 1..]
    });
    shown.replace("\r\n", "\n")
}
