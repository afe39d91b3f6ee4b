//! What does a key look like, and by what is it known?
//!
//! `sopan_` and 32 bytes of the system's chance in base64 for URLs, 43 letters that every field, URL and shell takes as they
//! are. It is known by its SHA-256 alone, which stands in the settings. Whose key is in a request is for `serve` to say.

use std::fmt::Write as _;

use anyhow::Context as _;
use rand::TryRng as _;
use rand::rngs::SysRng;
use sha2::{Digest as _, Sha256};
use sopan_core::access::KeyDigest;

use crate::config::{Format, KEY_BEGINS, NewKey};

/// So many bytes nobody guesses.
const BYTES: usize = 32;

/// By what a key is known.
pub(crate) fn digest(key: &[u8]) -> KeyDigest {
    KeyDigest::new(Sha256::digest(key).into())
}

/// Makes a key, and tells it with the line for the settings.
///
/// # Errors
/// The system has no chance to give.
pub(crate) fn new(settings: &NewKey) -> anyhow::Result<String> {
    let mut bytes = [0; BYTES];
    SysRng.try_fill_bytes(&mut bytes).context("the system gives no random bytes, of which a key is made")?;
    let key = key(&bytes);
    let digest = Sha256::digest(&key).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    Ok(told(settings, &key, &digest))
}

fn told(NewKey { name, format }: &NewKey, key: &str, digest: &str) -> String {
    match format {
        Format::Json => {
            let object = serde_json::json!({"name": name, "key": key, "key_sha256": digest});
            format!("{object}\n")
        }
        Format::Text => format!(
            "The key, for {name} alone. It is kept nowhere, and not shown again:\n\n  {key}\n\n\
             The lines for the settings file:\n\nclients:\n  {name}: {{ key_sha256: {digest} }}\n"
        ),
    }
}

/// A key of these bytes.
fn key(bytes: &[u8; BYTES]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut key = KEY_BEGINS.to_owned();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        // Six bits a letter; two bytes are three letters.
        key.extend((0..=three.len()).map(|n| LETTERS[(bits >> (18 - 6 * n)) as usize % 64] as char));
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_base64_of_its_bytes() {
        assert_eq!(key(&[0; BYTES]), format!("sopan_{}", "A".repeat(43)));
        assert_eq!(key(&[255; BYTES]), format!("sopan_{}8", "_".repeat(42)));
        let bytes = std::array::from_fn(|n| n as u8 * 8);
        assert_eq!(key(&bytes), "sopan_AAgQGCAoMDhASFBYYGhweICIkJigqLC4wMjQ2ODo8Pg");
    }

    #[test]
    fn a_key_is_known_by_what_is_printed_beside_it() {
        let settings = NewKey { name: "etl".to_owned(), format: Format::Json };
        let printed: serde_json::Value = serde_json::from_str(&new(&settings).unwrap()).unwrap();
        let of = |name: &str| printed[name].as_str().unwrap().to_owned();
        assert_eq!((&*of("name"), of("key").len()), ("etl", 49));
        assert_eq!(KeyDigest::read(&of("key_sha256")), Some(digest(of("key").as_bytes())));
        assert_ne!(of("key"), serde_json::from_str::<serde_json::Value>(&new(&settings).unwrap()).unwrap()["key"]);
        let told = told(&NewKey { format: Format::Text, ..settings }, "sopan_X", "00ff");
        assert!(
            told.contains("\n  sopan_X\n") && told.ends_with("\nclients:\n  etl: { key_sha256: 00ff }\n"),
            "{told}"
        );
    }
}
