//! What must hold of everything that is read as an answer in store.
//!
//! The input is a record, a record without the version and length before it, and the fields of an answer.

use sopan_core::cache::Stored;
use sopan_core::cache::directives::Scope;
use sopan_core::policy::CachePolicy;

use crate::answer;

pub(crate) fn check(input: &[u8]) {
    let policy = CachePolicy { store_set_cookie: true, ..CachePolicy::default() };
    check_record(input, &policy);
    let length = u32::try_from(input.len()).unwrap_or(u32::MAX).to_le_bytes();
    check_record(&[&[2], &length[..], input].concat(), &policy);
    check_answer(input, &policy);
}

/// What is read is written so that the same is read again.
fn check_record(record: &[u8], policy: &CachePolicy) {
    let Some(stored) = Stored::decode(record, policy, None) else { return };
    assert!(!stored.directives.no_store || stored.directives.must_understand);
    assert_eq!(Stored::decode(&stored.encode(), policy, None).as_ref(), Some(&stored));
    let strict = Stored::decode(record, &CachePolicy::default(), None);
    assert_eq!(strict.is_some(), !stored.headers.contains_key("set-cookie"));
}

/// What is written is read, if all of it is there and it may be stored.
fn check_answer(input: &[u8], policy: &CachePolicy) {
    let stored = answer::stored(answer::fields(input), policy);
    let record = stored.encode();
    let may_store = !stored.directives.no_store || stored.directives.must_understand;
    match Stored::decode(&record, policy, None) {
        Some(read) => assert_eq!(read, stored),
        None => assert!(!may_store || has_more_than_is_stored(&stored)),
    }
    let cut = input.first().map_or(0, |byte| usize::from(*byte) % record.len());
    assert_eq!(Stored::decode(&record[..cut], policy, None), None);
    assert_eq!(Stored::decode(&[&record[..], input, b"x"].concat(), policy, None), None);
    // Bytes that are other ones may make another answer.
    let mut other = record;
    for two in input.chunks_exact(2).take(8) {
        let at = usize::from(two[0]) % other.len();
        other[at] ^= two[1];
    }
    check_record(&other, policy);
}

/// Whether it has fields that are taken off what is stored.
fn has_more_than_is_stored(stored: &Stored) -> bool {
    let names = if let Scope::Fields(names) = &stored.directives.no_cache { &names[..] } else { &[] };
    stored.headers.contains_key("age") || names.iter().any(|name| stored.headers.contains_key(name))
}
