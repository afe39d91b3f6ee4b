//! Whose is a request, and of whom was it asked?
//!
//! What an upstream answers to a request with a credential may be for its owner alone. So answers are kept apart by a digest
//! of all fields that are a credential by their name; the secrets themselves are kept nowhere. Who may get what, then, is for
//! `sopan_core::cache` to say.

use std::borrow::Cow;

use http::HeaderMap;
use sha2::{Digest as _, Sha256};
use sopan_core::cache::{Marks, Owner};
use sopan_core::headers::is_credential;

/// Whose a request is that has fields of these kinds; none if it has no credential.
pub(super) fn owner(headers: &HeaderMap, marks: Marks) -> Option<Owner> {
    if !marks.has(Marks::CREDENTIAL) {
        return None;
    }
    let mut names: Vec<_> = headers.keys().filter(|name| is_credential(name)).collect();
    // Two clients may send the same fields in another order.
    names.sort_unstable_by_key(|name| name.as_str());
    let mut digest = Sha256::new();
    for name in names {
        for value in headers.get_all(name) {
            // Lengths, lest one field's end be another's beginning.
            for part in [name.as_str().as_bytes(), value.as_bytes()] {
                digest.update((part.len() as u64).to_be_bytes());
                digest.update(part);
            }
        }
    }
    let digest = digest.finalize();
    let mut owner = [0; 16];
    owner.copy_from_slice(&digest[..16]);
    Some(Owner(owner))
}

/// A host in lower case.
pub(super) fn in_lower_case(host: &[u8]) -> Cow<'_, [u8]> {
    if host.iter().any(u8::is_ascii_uppercase) { Cow::Owned(host.to_ascii_lowercase()) } else { Cow::Borrowed(host) }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn of(lines: &[(&'static str, &'static str)]) -> Option<Owner> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        owner(&headers, Marks::of(&headers))
    }

    #[test]
    fn who_has_other_secrets_is_somebody_else() {
        let alice = of(&[("authorization", "Bearer a"), ("accept", "*/*")]);
        assert!(alice.is_some());
        assert_eq!(alice, of(&[("accept", "text/html"), ("authorization", "Bearer a")]));
        for other in [
            of(&[("authorization", "Bearer b")]),
            of(&[("x-api-key", "Bearer a")]),
            of(&[("authorization", "Bearer a"), ("cookie", "s=1")]),
            of(&[("authorization", "Bearer"), ("authorization", "a")]),
            of(&[("accept", "*/*"), ("idempotency-key", "k1")]),
        ] {
            assert_ne!(alice, other);
        }
        let both = [("cookie", "s=1"), ("x-api-key", "k")];
        assert_eq!(of(&both), of(&[both[1], both[0]]));
        assert_eq!(of(&[("accept", "*/*"), ("idempotency-key", "k1")]), None);
    }

    #[test]
    fn a_digest_is_not_shown() {
        assert_eq!(format!("{:?}", of(&[("cookie", "s=1")])), "Some(Owner(…))");
    }

    #[test]
    fn a_host_is_the_same_in_any_case() {
        for (host, expected) in [("Api.Test:80", "api.test:80"), ("api.test", "api.test"), ("[::A]", "[::a]")] {
            assert_eq!(&*in_lower_case(host.as_bytes()), expected.as_bytes());
        }
    }
}
