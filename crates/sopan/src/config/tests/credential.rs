//! The API's key: where it is, where it goes, and what is said of it, which is never the key.

use super::super::file::File;
use super::super::problem::Source;
use super::super::serve::loaded;
use super::*;

pub(super) const FLAGS: [&str; 5] =
    ["--credential-env", "--credential-file", "--credential-header", "--credential-scheme", "--credential-query"];

/// A variable that every test has.
const VARIABLE: &str = "CARGO_PKG_NAME";

#[test]
fn it_goes_where_flags_say_for_serve_and_for_fetch() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "s3cret\n").unwrap();
    let path = file.path().to_str().unwrap();
    for (flags, place) in [
        (&["--credential-env", VARIABLE][..], "authorization"),
        (&["--credential-file", path], "authorization"),
        (&["--credential-env", VARIABLE, "--credential-header", "X-Api-Key"], "x-api-key"),
        (&["--credential-file", path, "--credential-scheme", "none"], "authorization"),
        (&["--credential-file", path, "--credential-query", "api key"], "?api key"),
    ] {
        let (serve, fetch) = (try_serve(flags).unwrap(), try_fetch("http://u/x", flags).unwrap());
        for settings in [&serve.upstreams[0].settings, &fetch.upstream] {
            let shown = format!("{settings:?}");
            assert_eq!(settings.credential.as_ref().unwrap().place().to_string(), place);
            assert!(shown.contains(&format!("Credential({place})")) && !shown.contains("s3cret"), "{shown}");
        }
    }
    assert!(try_serve(&[]).unwrap().upstreams[0].settings.credential.is_none());
}

#[test]
fn what_is_wrong_with_it_is_told_without_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (empty, lines) = (file("empty", "\n"), file("lines", "s3cret\ns3cret\n"));
    let write = "write the API's key into it, and nothing else";
    for (flags, said) in [
        (&["--credential-env", "sk-s3cret"][..], "--credential-env: it is not the name of a variable; write letters, digits and _, as in API_KEY, and not what it holds".to_owned()),
        (&["--credential-env", "SOPAN_NO_SUCH"], "--credential-env: the variable SOPAN_NO_SUCH is not set, or empty; set it to the API's key".to_owned()),
        (&["--credential-env", "sk_s3cret"], "--credential-env: there is no such variable, or it is empty; set it to the API's key, and write its name here, not what it holds".to_owned()),
        (&["--credential-file", "/no/such"], format!("--credential-file: /no/such cannot be read: No such file or directory (os error 2); {write}")),
        (&["--credential-file", "/dev/zero"], format!("--credential-file: /dev/zero cannot be read: it is no plain file, so it cannot be read again; {write}")),
        (&["--credential-file", &empty], format!("--credential-file: {empty}: it is empty; {write}")),
        (&["--credential-file", &lines], format!("--credential-file: {lines}: it holds a line break or another control character, which no key does; {write}")),
        (&["--credential-env", VARIABLE, "--credential-file", &empty], "--credential-env: it stands beside --credential-file; keep one of them".to_owned()),
        (&["--credential-env", VARIABLE, "--credential-header", "a", "--credential-query", "b"], "--credential-header: it stands beside --credential-query; keep one of them".to_owned()),
        (&["--credential-env", VARIABLE, "--credential-header", "X Key"], "--credential-header: `X Key` is not the name of a field; write for example X-Api-Key".to_owned()),
        (&["--credential-env", VARIABLE, "--credential-header", "Host"], "--credential-header: `host` cannot hold a credential, since it tells how a request is sent; write for example X-Api-Key".to_owned()),
        (&["--credential-env", VARIABLE, "--credential-scheme", "Bearer s3cret"], "--credential-scheme: it is no scheme; write one word, such as Bearer or Basic, and not what follows it".to_owned()),
        (&["--credential-env", VARIABLE, "--credential-query", ""], "--credential-query: `` is not the name of a parameter; write for example key".to_owned()),
        (&["--credential-scheme", "Bearer"], "--credential-scheme: there is no credential to put there; add --credential-env NAME, or --credential-file FILE".to_owned()),
    ] {
        assert_eq!(try_serve(flags).unwrap_err().to_string(), format!("error: {said}"));
        let told = try_fetch("http://u", flags).unwrap_err().to_string();
        assert_eq!(told, format!("error: {said}"));
    }
}

#[test]
fn flags_give_the_key_of_one_api_to_one_only() {
    let flags = ["--credential-env", VARIABLE];
    let cli::Command::Serve(typed) = read("serve", &["--config", "s.yaml"], &flags) else { unreachable!() };
    for (upstreams, said) in [
        ("{ a: { url: https://a.test } }", None),
        (
            "{ a: { url: https://a.test, route: /a }, b: { url: https://b.test } }",
            Some(
                "error: --credential-env: it would give the key of one API to all 2 of the settings file; write it there",
            ),
        ),
    ] {
        let source = Source { path: "s.yaml".to_owned(), text: format!("upstreams: {upstreams}\n") };
        let loaded = loaded(Some(File::of(source)), &typed.settings);
        match said {
            None => assert!(loaded.serve.unwrap().upstreams[0].settings.credential.is_some()),
            Some(said) => assert!(loaded.wrong.to_string().starts_with(said), "{}", loaded.wrong),
        }
    }
}
