//! A section of fields, a head's or a trailer's: where it ends, and how its lines are kept.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The most fields of a section.
pub(super) const FIELDS_MAX: usize = 100;

/// The length of the section at the start of `bytes`, with its empty line, if it is complete. Nothing ends within the first
/// `scanned` bytes.
pub(super) fn find_end(bytes: &[u8], scanned: usize) -> Option<usize> {
    // An end can lie across the border of what was looked at before.
    let from = scanned.saturating_sub(3);
    let mut lines = memchr::memchr_iter(b'\n', &bytes[from..]).map(|at| from + at + 1);
    lines.find(|end| bytes[..*end].ends_with(b"\r\n\r\n"))
}

/// The fields that were found in `bytes`, which are shared, not copied. None if one is not allowed by RFC 9110 §5.
pub(super) fn keep(bytes: &Bytes, fields: &[httparse::Header<'_>]) -> Option<HeaderMap> {
    // One more, for the field that sopan adds.
    let mut headers = HeaderMap::with_capacity(fields.len() + 1);
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(field.value)).ok()?;
        headers.append(name, value);
    }
    Some(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_head_is_found_wherever_the_reads_cut_it() {
        let bytes = b"HTTP/1.1 200 OK\r\nA: 1\r\n\r\nbody";
        for cut in 0..bytes.len() {
            let first = find_end(&bytes[..cut], 0);
            assert_eq!(first, (cut >= 25).then_some(25));
            if first.is_none() {
                assert_eq!(find_end(bytes, cut), Some(25), "cut at {cut}");
            }
        }
    }
}
