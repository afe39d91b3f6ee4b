//! What is in a record, as far as columns are concerned?
//!
//! A record is read once, its values as they are written: a number becomes one only where it keeps all its digits.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The name of the column for what is in no object.
pub(super) const VALUE: &str = "value";

/// Hands over each field of a record, in its order. What is no object counts as one with the field `value`.
pub(super) fn fields<'a>(
    line: &'a str,
    act: &mut dyn FnMut(Cow<'a, str>, &'a RawValue),
) -> Result<(), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(line);
    if line.trim_start().starts_with('{') {
        reader.deserialize_map(Fields(act))?;
    } else {
        act(Cow::Borrowed(VALUE), serde::Deserialize::deserialize(&mut reader)?);
    }
    reader.end()
}

struct Fields<'f, 'a>(&'f mut dyn FnMut(Cow<'a, str>, &'a RawValue));

impl<'a> Visitor<'a> for Fields<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = map.next_key()? {
            (self.0)(name, map.next_value()?);
        }
        Ok(())
    }
}

/// A name that is copied only where something in it is escaped.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// A value that stands in a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Null,
    Boolean(bool),
    /// A whole number of 64 bits, and whether a double keeps it too.
    Integer(i64, bool),
    /// A number that a double keeps.
    Double(f64),
    /// A number that only its digits keep.
    Digits,
    String,
    /// An object or a list, or a string that is no text (half a surrogate pair).
    Nested,
}

pub(super) fn kind(value: &RawValue) -> Kind {
    let text = value.get();
    match text.as_bytes().first() {
        None | Some(b'n') => Kind::Null,
        Some(b't') => Kind::Boolean(true),
        Some(b'f') => Kind::Boolean(false),
        Some(b'"') if !text.contains("\\u") || string(value).is_some() => Kind::String,
        Some(b'"' | b'{' | b'[') => Kind::Nested,
        Some(_) => number(text),
    }
}

/// The text of a string.
pub(super) fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Name<'_>>(value.get()).ok().map(|Name(text)| text)
}

fn number(text: &str) -> Kind {
    // So many digits every double keeps.
    const DIGITS: usize = f64::DIGITS as usize;
    let is_short = text.len() <= DIGITS && !text.contains(['e', 'E']);
    let double = text.parse::<f64>().ok().filter(|double| is_short || keeps(*double, text));
    match text.parse::<i64>() {
        // A double has a negative zero, and no whole number does.
        Ok(0) if text.starts_with('-') => double.map_or(Kind::Digits, Kind::Double),
        Ok(integer) => Kind::Integer(integer, double.is_some()),
        Err(_) => double.map_or(Kind::Digits, Kind::Double),
    }
}

/// Whether a double that is written as short as it can be is this number.
fn keeps(double: f64, text: &str) -> bool {
    double.is_finite() && decimal(&format!("{double:e}")) == decimal(text)
}

/// A number as its digits without zeros at both ends, and what power of ten they begin with; nothing of the sign.
fn decimal(text: &str) -> Option<(String, i64)> {
    let text = text.trim_start_matches('-');
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let exponent = exponent.strip_prefix('+').unwrap_or(exponent).parse::<i64>().ok()?;
    let all = format!("{whole}{fraction}");
    let begin = all.trim_start_matches('0');
    let digits = begin.trim_end_matches('0');
    if digits.is_empty() {
        return Some((String::new(), 0));
    }
    let zeros = i64::try_from(all.len() - begin.len()).ok()?;
    let power = exponent.checked_add(i64::try_from(whole.len()).ok()?)?.checked_sub(zeros)?;
    Some((digits.to_owned(), power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, is: Kind) {
        let value: &RawValue = serde_json::from_str(text).unwrap();
        assert_eq!(kind(value), is, "{text}");
    }

    #[test]
    fn a_number_becomes_what_keeps_its_digits() {
        check("0", Kind::Integer(0, true));
        check("-7", Kind::Integer(-7, true));
        check("9007199254740992", Kind::Integer(9_007_199_254_740_992, true));
        check("9007199254740993", Kind::Integer(9_007_199_254_740_993, false));
        check("9223372036854775807", Kind::Integer(i64::MAX, false));
        check("9223372036854775808", Kind::Digits);
        check("100000000000000000000", Kind::Double(1e20));
        check("0.1", Kind::Double(0.1));
        check("12.50", Kind::Double(12.5));
        check("1.0", Kind::Double(1.0));
        check("0.00", Kind::Double(0.0));
        check("1E+2", Kind::Double(100.0));
        check("0.1000000000000000055511151231257827", Kind::Digits);
        check("123456789.123456789123", Kind::Digits);
        check("1e400", Kind::Digits);
        check("1e-400", Kind::Digits);
        check("1e99999999999999999999", Kind::Digits);
        check("0e99999999999999999999", Kind::Digits);
        check("-0", Kind::Double(-0.0));
    }

    #[test]
    fn other_values_are_what_they_begin_with() {
        check("null", Kind::Null);
        check("true", Kind::Boolean(true));
        check("false", Kind::Boolean(false));
        check(r#""12""#, Kind::String);
        check(r#""\u00e9""#, Kind::String);
        check(r#""\ud800""#, Kind::Nested);
        check("[1]", Kind::Nested);
        check("{}", Kind::Nested);
    }

    #[test]
    fn fields_come_as_they_stand() {
        let fields_of = |line: &str| {
            let mut found = Vec::new();
            fields(line, &mut |name, value| found.push(format!("{name}={}", value.get()))).unwrap();
            found.join(" ")
        };
        assert_eq!(fields_of(r#"{"a":1.10,"b\n":[1, 2],"a":2}"#), "a=1.10 b\n=[1, 2] a=2");
        assert_eq!(fields_of("[1]"), "value=[1]");
        assert_eq!(fields_of(r#""x""#), r#"value="x""#);
        assert!(fields("{", &mut |_, _| ()).is_err());
    }
}
