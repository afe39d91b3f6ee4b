//! Is a secret in there, in whatever form?

use std::fmt::Write as _;

use super::super::wire::base64;

/// So many bytes of a secret's beginning or end are as bad as all of it.
const PART: usize = 10;

/// A secret, and what it looks like when somebody writes it.
pub(super) struct Secret {
    name: &'static str,
    /// Of these bytes none may appear anywhere; with what form they are.
    forms: Vec<(&'static str, String)>,
}

impl Secret {
    pub(super) fn new(name: &'static str, secret: &str) -> Self {
        let bytes = secret.as_bytes();
        assert!(bytes.len() >= 2 * PART, "{secret}");
        let percent = |must: fn(u8) -> bool| {
            let mut text = String::new();
            for &byte in bytes {
                match must(byte) {
                    true => write!(text, "%{byte:02X}").unwrap(),
                    false => text.push(byte.into()),
                }
            }
            text
        };
        let (all, reserved) =
            (percent(|_| true), percent(|byte| !byte.is_ascii_alphanumeric() && !b"-._~".contains(&byte)));
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let list = format!("{bytes:?}");
        let texts = [
            ("percent-encoded", all.to_lowercase()),
            ("percent-encoded", all),
            ("percent-encoded", reserved.to_lowercase()),
            ("percent-encoded", reserved),
            ("hexadecimal", hex.to_uppercase()),
            ("hexadecimal", hex),
            ("a list of bytes", list.trim_matches(['[', ']']).to_owned()),
        ];
        let mut forms =
            vec![("its beginning", secret[..PART].to_owned()), ("its end", secret[secret.len() - PART..].to_owned())];
        forms.extend(texts);
        for before in 0..3 {
            let text = inner_base64(bytes, before);
            forms.push(("base64 for URLs", text.replace('+', "-").replace('/', "_")));
            forms.push(("base64", text));
        }
        Self { name, forms }
    }

    /// Nothing of it is in there.
    #[track_caller]
    pub(super) fn check_absent(&self, place: &str, text: &str) {
        for (form, looks) in &self.forms {
            if let Some((before, after)) = text.split_once(looks) {
                let (before, after): (Vec<_>, String) =
                    (before.chars().rev().take(150).collect(), after.chars().take(50).collect());
                let before: String = before.into_iter().rev().collect();
                panic!("{} ({form}) is in {place}: {before:?} {looks} {after:?}", self.name);
            }
        }
    }

    /// It is in there, as it is.
    pub(super) fn is_in(&self, text: &str) -> bool {
        text.contains(&self.forms[0].1)
    }
}

/// What all base64 of a text has in it in which these bytes come after so many others, give or take whole groups of three.
fn inner_base64(bytes: &[u8], before: usize) -> String {
    let text = base64(&[&vec![0; before], bytes].concat());
    // The first letters also hold what is before, and the last ones what follows.
    let (from, to) = ((before * 8).div_ceil(6), (before + bytes.len()) * 8 / 6);
    text[from..to].to_owned()
}

#[test]
fn a_secret_is_found_in_every_form() {
    let text = "vendor/K+y=Z&q-1_7~9#x";
    let secret = Secret::new("it", text);
    let percent: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let forms = [
        text.to_owned(),
        text[..12].to_owned(),
        percent,
        "key=vendor%2FK%2By%3DZ%26q-1_7~9%23x".to_owned(),
        hex,
        format!("{:?}", text.as_bytes()),
        base64(text.as_bytes()),
        base64(format!("me:{text}").as_bytes()),
        base64(format!("user:{text}&").as_bytes()),
        base64(format!("Bearer {text}").as_bytes()).replace('+', "-").replace('/', "_"),
    ];
    for form in forms {
        let found = std::panic::catch_unwind(|| secret.check_absent("there", &format!("before {form} after")));
        assert!(found.is_err(), "{form}");
    }
    secret.check_absent("there", "vendor/K and K+y=Z");
}
