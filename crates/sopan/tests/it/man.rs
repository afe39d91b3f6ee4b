//! What is made of the definition of the command line, as the programs take it that read it.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::{skipped, sopan};

/// Runs a program on a text, and answers with what it said on both its outputs; none where there is no such program.
fn piped(program: &str, args: &[&str], text: &[u8]) -> Option<(bool, String)> {
    let mut command = Command::new(program);
    command.args(args).env("LC_ALL", "C.UTF-8").env("MANWIDTH", "80");
    let run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut run) = run else {
        skipped(&format!("there is no {program}"));
        return None;
    };
    run.stdin.take().unwrap().write_all(text).unwrap();
    let done = run.wait_with_output().unwrap();
    let said = [done.stdout, done.stderr].concat();
    Some((done.status.success(), String::from_utf8(said).unwrap()))
}

#[test]
fn bash_takes_the_completions() {
    let script = sopan(&["completions", "bash"]);
    assert_eq!((script.code, &*script.err), (Some(0), ""));
    assert_eq!(piped("bash", &["-n"], &script.out), Some((true, String::new())));
    for (words, typed, before, expected) in [
        ("sopan serve --max-retr", "--max-retr", "serve", "--max-retries --max-retry-after\n"),
        ("sopan serve --observe ''", "", "--observe", "on off\n"),
        ("sopan serve --on-long-retry-after c", "c", "--on-long-retry-after", "cap\n"),
        ("sopan serve --wait-max u", "u", "--wait-max", "unlimited\n"),
    ] {
        let ask = format!(
            "\nCOMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n_sopan sopan '{typed}' {before}\n\
             echo \"${{COMPREPLY[@]}}\"\n"
        );
        let answer = piped("bash", &["--norc"], &[&script.out, ask.as_bytes()].concat());
        assert_eq!(answer, Some((true, expected.to_owned())), "{words}");
    }
}

#[test]
fn man_shows_every_page_that_is_written() {
    let dir = tempfile::tempdir().unwrap();
    // It is made where it is not there.
    let dir = dir.path().join("man/man1");
    let run = sopan(&["man", "--dir", dir.to_str().unwrap()]);
    assert_eq!((run.code, &*run.err, run.out.len()), (Some(0), "", 0));
    let mut names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort_unstable();
    let of_commands = [
        "check",
        "completions",
        "demo",
        "example",
        "explain",
        "fake-api",
        "fetch",
        "keys",
        "keys-new",
        "man",
        "plan",
        "schema",
        "serve",
        "status",
        "top",
    ];
    let mut expected: Vec<OsString> = of_commands.map(|name| format!("sopan-{name}.1").into()).into();
    expected.push("sopan.1".into());
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!(sopan(&["man"]).out, fs::read(dir.join("sopan.1")).unwrap());
    for name in names {
        let page = fs::read(dir.join(name)).unwrap();
        let Some((shown, said)) = piped("man", &["--warnings", "-P", "cat", "-l", "-"], &page) else { return };
        assert!(shown && said.contains("SYNOPSIS") && !said.contains(": warning"), "{said}");
    }
}

#[test]
fn a_place_that_cannot_be_written_to_is_told() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().join("man1");
    let run = sopan(&["man", "--dir", path.to_str().unwrap()]);
    let begin = format!("error: --dir: `{}` cannot be written to: ", path.display());
    assert!(run.code == Some(2) && run.err.starts_with(&begin), "{}", run.err);
}
