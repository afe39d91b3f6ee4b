//! What is told of flags, by the whole program.

use crate::support::sopan;

#[test]
fn a_wrong_flag_is_one_clear_line_and_exit_code_2() {
    for (args, expected) in [
        (
            &["fake-api", "--limit", "0/s"][..],
            "error: --limit: `0/s` is not a limit: a rate of zero would let nothing through, ever; the lowest rate is 1/d\n",
        ),
        (
            &["fake-api", "--fail-first", "-1"],
            "error: --fail-first: `-1` is not allowed; write a whole number from 0 to 18446744073709551615\n",
        ),
    ] {
        let run = sopan(args);
        assert_eq!((run.code, &*run.err, run.out.len()), (Some(2), expected, 0));
    }
}

#[test]
fn unknown_and_missing_flags_end_with_2_too() {
    for args in [&["fake-api", "--bogus"][..], &["fake-api", "--limit", "--cut", "reset"], &["bogus"], &[]] {
        let run = sopan(args);
        assert!(run.code == Some(2) && !run.err.is_empty() && run.out.is_empty(), "{args:?}: {run:?}");
    }
}

#[test]
fn help_and_version_are_no_failures() {
    for args in [&["--help"][..], &["fake-api", "-h"], &["fake-api", "--help"], &["--version"]] {
        let run = sopan(args);
        assert!(run.code == Some(0) && run.err.is_empty() && !run.out.is_empty(), "{args:?}: {run:?}");
    }
}
