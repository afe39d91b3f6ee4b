//! Settings on their way hold passwords and keys as they were written, and what variables and files hold; none is shown.

use super::super::file::File;
use super::super::problem::Source;
use super::super::serve::loaded;
use super::super::tree::{self, Form};
use super::*;

#[track_caller]
fn check(what: &impl std::fmt::Debug) {
    for shown in [format!("{what:?}"), format!("{what:#?}")] {
        assert!(!shown.contains("s3cret") && shown.len() > 10, "{shown}");
    }
}

#[test]
fn nothing_on_the_way_to_settings_shows_a_secret() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    file("url", "https://me:s3cret@api.test/v2?key=s3cret");
    file("key", "s3cret\n");
    let text = "upstreams:\n  \
        a: { url: 'https://me:s3cret@a.test', route: /a }\n  \
        b: { url: '${file:url}', route: /b, limits: '${file:key}' }\n  \
        c: { url: 'https://c.test', route: /c, credential: { file: key } }\n  \
        e: { url: 'https://e.test', route: /e, credential: { env: sk_s3cret } }\n  \
        d: { url: 'https://d.test', route: x, password: s3cret }\n";
    let path = directory.path().join("sopan.yaml").to_str().unwrap().to_owned();
    let source = Source { path, text: text.to_owned() };
    check(&source);
    check(&tree::read(&source, Form::Yaml).unwrap());
    let file = File::of(source);
    check(&file);
    let flags = ["--upstream", "http://me:s3cret@u/?key=s3cret", "--rate", "10/s", "--credential-query", "key"];
    let cli::Command::Serve(typed) = read("serve", &[], &flags) else { unreachable!() };
    check(&typed.settings);
    let loaded = loaded(Some(file), &typed.settings);
    assert!(loaded.serve.is_none() && loaded.wrong.problems.len() > 4, "{:?}", loaded.wrong);
    check(&loaded);
    let told = loaded.wrong.to_string();
    assert!(!told.contains("s3cret") && told.contains("env: *********"), "{told}");

    let flags = ["--header", "X-Key: s3cret", "--header", "Cookie: s3cret"];
    check(&try_fetch("http://u/orders?key=s3cret&s3cret#s3cret", &flags).unwrap());
    let flags =
        ["--path", "/orders?key=s3cret", "--request-header", "Authorization: s3cret", "--header", "Set-Cookie: s3cret"];
    check(&try_explain(&flags).unwrap());
}
