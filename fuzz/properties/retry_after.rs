//! What must hold of every `Retry-After` (RFC 9110 §10.2.3), by both readers.
//!
//! The first line may be the time of reception, as seconds since the Unix epoch. Each further line is a value, or with
//! `Date: ` or `Age: ` in front that field of the same answer.

use std::time::Duration;

use http::header::{AGE, DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use sopan_core::hints::retry_after::{Reading, read_value};
use sopan_core::hints::{self, Reader, parse_retry_after};

use crate::reception::{at, received};

pub(crate) fn check(input: &[u8]) {
    let (received, lines) = received(input);
    let mut headers = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let (name, value) = match line {
            [b'D', b'a', b't', b'e', b':', b' ', value @ ..] => (DATE, value),
            [b'A', b'g', b'e', b':', b' ', value @ ..] => (AGE, value),
            value => {
                check_value(value, received);
                (RETRY_AFTER, value)
            }
        };
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(name, value);
        }
    }
    check_all(&headers, received);
}

fn check_value(value: &[u8], received: i64) {
    // Half past the second: what is rounded must be rounded up.
    let now = at(received) + Duration::from_millis(500);
    let (strict, lenient) = (read_value(value, now, Reader::Strict), read_value(value, now, Reader::Lenient));
    assert!(strict.is_none() || strict == lenient, "who is lenient reads differently: {strict:?}, {lenient:?}");
    if let Ok(text) = std::str::from_utf8(value) {
        assert_eq!(parse_retry_after(text, now), strict.map(|reading| reading.wait(now)));
    }
    let text = String::from_utf8_lossy(value).trim_matches([' ', '\t']).to_owned();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    assert_eq!(is_number, matches!(strict, Some(Reading::Delta(_))), "digits are seconds, and nothing else is");
    match lenient {
        Some(Reading::Delta(wait)) => check_number(&text, wait),
        Some(Reading::Date(date)) => {
            let wait = Reading::Date(date).wait(now);
            assert_eq!(wait.subsec_nanos(), 0, "a date's remaining time is whole seconds");
            // Never early, never a second late, and a date that has passed is now.
            let expected = u64::try_from(date.saturating_sub(received)).unwrap_or(0);
            assert_eq!(wait.as_secs(), expected);
            let is_other_zone = [" utc", " +0000"].iter().any(|zone| text.to_ascii_lowercase().ends_with(zone));
            assert_eq!(strict.is_none(), is_other_zone);
        }
        None => {}
    }
}

/// Seconds, with a fraction for the lenient reader; too many are the longest wait there is.
fn check_number(text: &str, wait: Duration) {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    assert!(fraction.bytes().all(|byte| byte.is_ascii_digit()) && !fraction.is_empty());
    let seconds = whole.parse().unwrap_or(u64::MAX);
    let nanos = format!("{fraction:0<9}");
    let (kept, finer) = nanos.split_at(9);
    let more = u64::from(finer.bytes().any(|digit| digit != b'0'));
    let fraction = Duration::from_nanos(kept.parse::<u64>().expect("nine digits") + more);
    assert_eq!(wait, Duration::from_secs(seconds).saturating_add(fraction));
}

/// Of several lines the longest counts; the sender's clock can only come in for the lenient reader.
fn check_all(headers: &HeaderMap, received: i64) {
    let now = at(received);
    let waits = |reader| {
        let readings =
            headers.get_all(RETRY_AFTER).iter().filter_map(move |line| read_value(line.as_bytes(), now, reader));
        readings.map(|reading| reading.wait(now)).max()
    };
    let read = |reader| hints::read(headers, now, reader).retry_after;
    assert_eq!(read(Reader::Strict), waits(Reader::Strict));
    assert_eq!(read(Reader::Lenient).is_some(), waits(Reader::Lenient).is_some());
    if !headers.contains_key(DATE) || headers.contains_key(AGE) {
        assert_eq!(read(Reader::Lenient), waits(Reader::Lenient));
    }
}
