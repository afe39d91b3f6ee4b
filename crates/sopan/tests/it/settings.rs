//! What is told of flags, by the whole program.

use crate::support::sopan;

#[test]
fn a_wrong_flag_is_one_clear_line_and_exit_code_2() {
    for (args, expected) in [
        (
            &["serve", "--upstream", "http://127.0.0.1:1", "--rate", "0/s"][..],
            "error: --rate: `0/s` is not a limit: a rate of zero would let nothing through, ever; the lowest rate is 1/d\n",
        ),
        (
            &["serve", "--upstream", "http://127.0.0.1:1", "--burst", "-1"],
            "error: --burst: `-1` is not allowed; write a whole number from 1 to 1000000000\n",
        ),
        (
            &["serve", "--upstream", "http://127.0.0.1:1", "--cache-path", "/live off"],
            "error: --cache-path: `/live off` is not a rule for a path: `off` is none of bypass, default-ttl DURATION and \
             revalidate stale|always; write for example /v2/live bypass, /v2/catalog default-ttl 1d, or /v2/feed revalidate \
             always\n",
        ),
        (
            &["serve", "--upstream", "http://localhost:8000"],
            "error: --upstream: `http://localhost:8000` is the address of --listen, so sopan would ask itself; \
             write the address of the API, or change --listen\n",
        ),
        (
            &["serve", "--upstream", "http://127.0.0.1:1", "--listen", "[::]:8000"],
            "error: --listen: `[::]:8000` can be reached from other machines, and whoever reaches it uses the API as you do; \
             add --open if that is meant, or listen on 127.0.0.1:8000\n",
        ),
        (
            &["fetch", "http://127.0.0.1:1/?key=SECRET", "--jitter", "NaN"],
            "error: --jitter: NaN is not allowed; allowed is 0 to 1\n",
        ),
        (
            &["fetch", "ftp://127.0.0.1/?key=SECRET"],
            "error: URL: `ftp://127.0.0.1/?key=…` cannot be fetched: its scheme is neither http nor https; \
             write for example https://api.example.com/orders?page=1\n",
        ),
    ] {
        let run = sopan(args);
        assert_eq!((run.code, &*run.err, run.out.len()), (Some(2), expected, 0));
    }
}

#[test]
fn serve_alone_is_told_both_ways_to_name_an_api() {
    let run = sopan(&["serve"]);
    assert!(run.err.contains("--upstream <URL>") && run.err.contains("--config <FILE>"), "{}", run.err);
}

#[test]
fn unknown_and_missing_flags_end_with_2_too() {
    for args in [
        &["serve"][..],
        &["fetch"],
        &["fetch", "http://u", "--bogus"],
        &["bogus"],
        &["serve", "--rate", "--burst", "5"],
        &["explain"],
        &["completions", "tcsh"],
    ] {
        let run = sopan(args);
        assert!(run.code == Some(2) && run.err.starts_with("error: ") && run.out.is_empty(), "{args:?}: {run:?}");
    }
}

#[test]
fn help_and_version_are_no_failures() {
    for (args, says) in [
        (&["--help"][..], "sopan fetch"),
        (&["-h"], "sopan fetch"),
        (&["help"], "sopan fetch"),
        (&["serve", "--help"], "--replay-bytes-max"),
        (&["help", "serve"], "--replay-bytes-max"),
        (&["serve", "-h"], "--rate"),
        (&["fetch", "-h"], "--rate"),
        (&["fake-api", "--help"], "--limit"),
        (&["--version"], "\nTLS: rustls"),
        (&["-V"], concat!("sopan ", env!("CARGO_PKG_VERSION"))),
        (&["explain", "-h"], "--status"),
        (&["completions", "--help"], "zsh"),
        (&["man", "--help"], "--dir"),
    ] {
        let run = sopan(args);
        let out = String::from_utf8(run.out).unwrap();
        assert!(run.code == Some(0) && run.err.is_empty() && out.contains(says), "{args:?}: {out} {}", run.err);
    }
}
