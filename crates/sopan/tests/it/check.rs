//! What `sopan check` says: of every way of writing a settings file wrong (`tests/settings/wrong/NAME` and `NAME.txt`), and of
//! right ones.
//!
//! Whoever changes the words draws them anew with `SOPAN_WRITE=1`, and reads what has changed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::command;

const RIGHT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/settings/right");
const WRONG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/settings/wrong");

/// What `sopan check` says of a file, and how it ends.
fn checked(directory: &Path, name: &str, flags: &[&str]) -> (Option<i32>, String, String) {
    let mut command = command(&[&["check", name], flags].concat());
    command.current_dir(directory).env_remove("SOPAN_TEST_UNSET").env("SOPAN_TEST_SECRET", "hunter2");
    let done =
        command.env("SOPAN_TEST_API", "https://hunter2.test").env("SOPAN_TEST_NUMBER", "271828").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (done.status.code(), text(done.stdout), text(done.stderr))
}

/// How a text differs from what was drawn, unless it is to be drawn now.
fn differs(drawn: &Path, text: &str) -> Option<String> {
    if std::env::var_os("SOPAN_WRITE").is_some() {
        fs::write(drawn, text).unwrap();
    }
    let expected = fs::read_to_string(drawn).unwrap_or_default();
    (text != expected).then(|| format!("{} is\n{text}and not\n{expected}", drawn.display()))
}

#[test]
fn what_is_said_of_a_wrong_file_is_as_drawn() {
    let mut files: Vec<PathBuf> = fs::read_dir(WRONG).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending != "txt"));
    files.sort();
    assert!(files.len() >= 100, "{}", files.len());
    let mut changed = Vec::new();
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let (code, out, err) = checked(Path::new(WRONG), name, &[]);
        for secret in ["hunter2", "271828"] {
            assert!(!err.contains(secret) && !out.contains(secret), "{name}: {err}");
        }
        let is_control = |c: char| c.is_control() && c != '\n';
        assert!(!err.contains(is_control) && !err.contains(['\u{202e}', '\u{2066}']), "{name}: {err:?}");
        // Warnings are no reason not to start.
        let is_wrong = err.lines().any(|line| line.starts_with("error: "));
        assert_eq!((code, out.is_empty()), (Some(if is_wrong { 2 } else { 0 }), is_wrong), "{name}: {err}");
        changed.extend(differs(&Path::new(WRONG).join(format!("{name}.txt")), &err));
    }
    assert!(changed.is_empty(), "{}\nSOPAN_WRITE=1 draws what is told now", changed.join("\n"));
}

#[test]
fn what_is_in_force_is_as_drawn_and_the_same_in_every_form() {
    let (code, out, err) = checked(Path::new(RIGHT), "three.yaml", &[]);
    assert_eq!((code, err.contains("error"), out.contains("hunter2")), (Some(0), false, false), "{err}");
    assert_eq!(differs(&Path::new(RIGHT).join("three.txt"), &out), None);
    let values = |name: &str| {
        let (code, out, err) = checked(Path::new(RIGHT), name, &["--format", "json"]);
        let mut told: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &*err, &told["ok"], &told["file"]), (Some(0), "", &true.into(), &name.into()));
        // They stand in other lines.
        for part in ["/settings", "/upstreams/shop", "/upstreams/mail", "/upstreams/rest"] {
            let settings = told.pointer_mut(part).and_then(Value::as_object_mut).unwrap();
            settings.values_mut().for_each(|setting| setting["from"] = Value::Null);
        }
        (told["settings"].take(), told["upstreams"].take())
    };
    let yaml = values("three.yaml");
    assert_eq!(
        yaml.1["shop"]["limits"]["value"],
        Value::from(["5/s burst 5", "5000 per 1h"].map(Value::from).to_vec())
    );
    assert_eq!(values("three.toml"), yaml);
    assert_eq!(values("three.json"), yaml);
}

#[test]
fn what_each_instance_keeps_to_without_redis_is_told_and_the_way_to_it_without_its_password() {
    let (code, out, _) = checked(Path::new(RIGHT), "shared.yaml", &[]);
    assert_eq!(
        (code, out.contains("hunter2"), out.contains("rediss://10.0.0.5:6379/2")),
        (Some(0), false, true),
        "{out}"
    );
    let alone = "without Redis each of 4 instances keeps to\n  upstreams.shop  2.5/s burst 5, 1250 per 1h\n  \
                 upstreams.mail  unlimited\n";
    assert!(out.ends_with(alone), "{out}");
}

#[test]
fn problems_are_there_for_programs_too() {
    let (code, out, err) = checked(Path::new(WRONG), "same-route.yaml", &["--format", "json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    let expected = serde_json::json!({
        "severity": "error", "key": "upstreams.store.route", "line": 7, "column": 12,
        "message": "`shop` has the same route", "help": "give each upstream a route of its own",
    });
    assert_eq!((code, &*err, &told["ok"], &told["problems"][0]), (Some(2), "", &false.into(), &expected));
    assert_eq!(told.as_object().unwrap().keys().collect::<Vec<_>>(), ["file", "ok", "problems"]);
}

#[test]
fn a_file_that_cannot_be_read_is_one_line() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("directory.yaml")).unwrap();
    fs::write(directory.path().join("large.yaml"), "# \n".repeat(400_000)).unwrap();
    for (name, said) in [
        ("missing.yaml", "it cannot be read: No such file or directory (os error 2)"),
        ("directory.yaml", "it cannot be read: Is a directory (os error 21)"),
        ("large.yaml", "it is longer than 1048576 bytes, which is the most that is read"),
        ("/dev/zero", "it is a pipe or a device, which may never end; save what it holds in a file"),
    ] {
        let (code, out, err) = checked(directory.path(), name, &[]);
        assert_eq!((code, &*out, err), (Some(2), "", format!("error: {name}: {said}\n")));
    }
}

#[test]
fn what_stands_for_something_is_bounded_and_not_shown_where_it_does_not_fit() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("wait", "98765s"),
        ("total", "77s"),
        ("limit", "10/s burst 4321"),
        ("place", "hunter2"),
        ("long", &*"x".repeat(65_536)),
    ] {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let shop = "upstreams:\n  shop:\n    url: https://api.example.com\n";
    let many = |item: &str, count: usize| vec![item; count].join(", ");
    for (rest, said) in [
        (
            "    queue: { wait_max: '${file:wait}' }\n    total_timeout: ${file:total}\n".to_owned(),
            "what `${file:wait}` stands for is longer than total_timeout (${file:total})",
        ),
        (
            "    limits: ['${file:limit}', 5 per 1h]\n".to_owned(),
            "its burst can never leave under the quota, which is `5 per 1h`",
        ),
        ("    ca_file: /none/${file:place}\n".to_owned(), "the certificate file /none/${file:place} cannot be used"),
        (format!("hosts: [{}]\n", many("'${file:long}'", 20)), "longer than 1048576 bytes in all"),
        (format!("hosts: ['{}']\n", "${file:long}".repeat(9_000)), "stands for is longer than 65536 bytes"),
        (
            format!("    limits: [{}]\n", many("1 per day at 00:00 Amerca/Los_Angelss", 15_000)),
            "there are 15000 of them",
        ),
    ] {
        fs::write(directory.path().join("sopan.yaml"), format!("{shop}{rest}")).unwrap();
        for form in ["text", "json"] {
            let (code, out, err) = checked(directory.path(), "sopan.yaml", &["--format", form]);
            let told = out + &err;
            assert!(code == Some(2) && told.contains(said), "{told}");
            assert!(!["98765", "27h", "4321", "hunter2"].iter().any(|secret| told.contains(secret)), "{told}");
        }
    }
}

/// The same mistake more often than anybody reads, in files as large as they may be.
#[test]
fn a_file_full_of_mistakes_is_told_in_part_and_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let keys = |form: fn(usize) -> String| (0..20_000).map(form).collect::<String>();
    for (name, text) in [
        ("many.yaml", keys(|n| format!("colour_of_the_{n}: 1\n"))),
        ("many.toml", keys(|n| format!("colour_of_the_{n} = 1\n"))),
        ("many.json", format!("{{{} \"x\": 1}}", keys(|n| format!("\"c_{n}\": 1,\n")))),
    ] {
        fs::write(directory.path().join(name), text).unwrap();
        let (code, out, err) = checked(directory.path(), name, &[]);
        let told = err.lines().filter(|line| line.starts_with("error: ")).count();
        assert_eq!((code, out.len(), told), (Some(2), 0, 100), "{name}");
        assert!(
            err.ends_with(": more than 100 mistakes, of which these are the first\n"),
            "{name}: {}",
            err.lines().last().unwrap()
        );
    }
}
