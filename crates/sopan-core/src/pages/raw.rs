//! Where in a JSON text does a value stand?
//!
//! A text is looked through once, from its beginning, and values are found as they are written there ([`pick`]): no number is
//! read, so none loses a digit, and what is not asked for is passed over. Of a name that an object has twice the last one counts,
//! as with most readers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Where in a JSON document a value stands (RFC 6901): `/data/items`, or nothing for all of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Pointer(Vec<String>);

/// Why that is no pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    /// It does not begin with a slash.
    #[error("`{0}` is no JSON pointer: it begins with a slash, such as `/data/items`")]
    NoSlash(String),
    /// A `~` that means nothing.
    #[error("`{0}` is no JSON pointer: `~` is written `~0` in it, and a slash in a name `~1`")]
    Tilde(String),
}

impl Pointer {
    /// The pointer to this name of what this one points to.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        Self(self.0.iter().map(String::as_str).chain([name]).map(str::to_owned).collect())
    }

    /// The names on the way there.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// Whether it points to the whole document.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<String> for Pointer {
    fn from_iter<T: IntoIterator<Item = String>>(names: T) -> Self {
        Self(names.into_iter().collect())
    }
}

impl FromStr for Pointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Self, PointerError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let Some(rest) = text.strip_prefix('/') else { return Err(PointerError::NoSlash(text.to_owned())) };
        let name = |name: &str| {
            let is_escaped = name.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
            is_escaped.then(|| name.replace("~1", "/").replace("~0", "~"))
        };
        let names: Option<_> = rest.split('/').map(name).collect();
        names.map(Self).ok_or_else(|| PointerError::Tilde(text.to_owned()))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|name| write!(f, "/{}", name.replace('~', "~0").replace('/', "~1")))
    }
}

/// The values that these point to, in their order, each as it is written in `text`; none where there is none.
///
/// # Errors
/// A text that is not JSON.
pub fn pick<'a, const N: usize>(
    text: &'a [u8],
    pointers: [&Pointer; N],
) -> Result<[Option<&'a RawValue>; N], serde_json::Error> {
    let mut found = [None; N];
    pick_all(text, &pointers, &mut found)?;
    Ok(found)
}

/// The same for any number of them; `found` is as long as `pointers`.
pub(super) fn pick_all<'a>(
    text: &'a [u8],
    pointers: &[&Pointer],
    found: &mut [Option<&'a RawValue>],
) -> Result<(), serde_json::Error> {
    let mut tree = Wanted::default();
    for (number, pointer) in pointers.iter().enumerate() {
        tree.add(pointer, number);
    }
    let mut reader = serde_json::Deserializer::from_slice(text);
    Look { wanted: &tree, found }.deserialize(&mut reader)?;
    reader.end()
}

/// The elements of an array, each as it is written; none if it is no array.
pub fn elements(value: &RawValue) -> Option<Vec<&RawValue>> {
    value.get().starts_with('[').then(|| serde_json::from_str(value.get()).ok()).flatten()
}

/// What is written there, if it is a string.
pub fn string(value: &RawValue) -> Option<String> {
    value.get().starts_with('"').then(|| serde_json::from_str(value.get()).ok()).flatten()
}

/// The same value without blanks between its parts, and so without line breaks.
pub fn write_compact(value: &str, out: &mut Vec<u8>) {
    let (mut is_string, mut is_escaped, mut from) = (false, false, 0);
    for (at, byte) in value.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b' ' | b'\t' | b'\n' | b'\r' if !is_string => {
                out.extend_from_slice(&value.as_bytes()[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    out.extend_from_slice(&value.as_bytes()[from..]);
}

/// What of a document is looked for.
#[derive(Debug, Default)]
struct Wanted {
    numbers: Vec<usize>,
    within: BTreeMap<String, Self>,
}

impl Wanted {
    fn add(&mut self, pointer: &Pointer, number: usize) {
        let mut at = self;
        for name in &pointer.0 {
            at = at.within.entry(name.clone()).or_default();
        }
        at.numbers.push(number);
    }

    fn child(&self, name: &str) -> Option<&Self> {
        self.within.get(name)
    }

    fn forget(&self, found: &mut [Option<&RawValue>]) {
        self.numbers.iter().for_each(|number| found[*number] = None);
        self.within.values().for_each(|child| child.forget(found));
    }
}

struct Look<'w, 'a> {
    wanted: &'w Wanted,
    found: &'w mut [Option<&'a RawValue>],
}

impl<'a> DeserializeSeed<'a> for Look<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<(), D::Error> {
        if self.wanted.numbers.is_empty() {
            return reader.deserialize_any(self);
        }
        let value = <&RawValue as serde::Deserialize>::deserialize(reader)?;
        self.wanted.numbers.iter().for_each(|number| self.found[*number] = Some(value));
        if self.wanted.within.is_empty() {
            return Ok(());
        }
        let inner = Look { wanted: self.wanted, found: self.found };
        serde_json::Deserializer::from_str(value.get()).deserialize_any(inner).map_err(D::Error::custom)
    }
}

impl<'a> Visitor<'a> for Look<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Cow<'a, str>>()? {
            match self.wanted.child(&name) {
                Some(wanted) => {
                    wanted.forget(self.found);
                    map.next_value_seed(Look { wanted, found: self.found })?;
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<(), A::Error> {
        for at in 0usize.. {
            let more = match self.wanted.child(&at.to_string()) {
                Some(wanted) => list.next_element_seed(Look { wanted, found: self.found })?,
                None => list.next_element::<IgnoredAny>()?.map(drop),
            };
            if more.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_read_and_written_as_rfc_6901_has_them() {
        for (text, names) in [
            ("", &[][..]),
            ("/", &[""]),
            ("/data/items", &["data", "items"]),
            ("/a~1b/m~0n/0", &["a/b", "m~n", "0"]),
            ("/~01", &["~1"]),
            ("/@odata.nextLink", &["@odata.nextLink"]),
        ] {
            let pointer: Pointer = text.parse().unwrap();
            assert_eq!(
                (pointer.names(), pointer.to_string()),
                (&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()[..], text.to_owned())
            );
        }
        assert_eq!("data".parse::<Pointer>(), Err(PointerError::NoSlash("data".to_owned())));
        for text in ["/~", "/a~2", "/~/x"] {
            assert_eq!(text.parse::<Pointer>(), Err(PointerError::Tilde(text.to_owned())));
        }
    }

    #[test]
    fn values_are_found_as_they_are_written() {
        let text = r#" {"id": 12345678901234567890.10, "data": {"items": [ {"n": 1.0}, {"n":2e5} ], "next" : null}, "data2": [], "a\u0062": "x"} "#;
        for (pointer, expected) in [
            ("", Some(text.trim())),
            ("/id", Some("12345678901234567890.10")),
            ("/data/items", Some(r#"[ {"n": 1.0}, {"n":2e5} ]"#)),
            ("/data/items/1/n", Some("2e5")),
            ("/data/items/2", None),
            ("/data/next", Some("null")),
            ("/data/next/deeper", None),
            ("/id/deeper", None),
            ("/ab", Some("\"x\"")),
            ("/none", None),
        ] {
            let [found] = pick(text.as_bytes(), [&pointer.parse().unwrap()]).unwrap();
            assert_eq!(found.map(RawValue::get), expected, "{pointer}");
        }
        let pointers = ["/data", "/data/items/0/n", "/data/next", ""].map(|pointer| pointer.parse().unwrap());
        let found = pick(text.as_bytes(), [&pointers[0], &pointers[1], &pointers[2], &pointers[3]]).unwrap();
        assert_eq!(found.map(|found| found.is_some()), [true; 4]);
        assert_eq!(found[1].unwrap().get(), "1.0");
    }

    #[test]
    fn of_a_name_that_is_there_twice_the_last_counts_with_all_that_is_in_it() {
        let text = br#"{"a": {"b": 1}, "a": {"c": 2}}"#;
        let [b, c] = ["/a/b", "/a/c"].map(|pointer| pointer.parse().unwrap());
        let [b, c] = pick(text, [&b, &c]).unwrap();
        assert_eq!((b.map(RawValue::get), c.map(RawValue::get)), (None, Some("2")));
    }

    #[test]
    fn what_is_no_json_is_said_wherever_it_stands() {
        for text in ["", "{", "{\"a\":1} x", "<html>", "[1,]", "{\"a\":}"] {
            assert!(pick(text.as_bytes(), [&"/a".parse().unwrap()]).is_err(), "{text}");
        }
        let deep = "[".repeat(200_000);
        assert!(pick(deep.as_bytes(), [&"/a".parse().unwrap()]).is_err());
    }

    #[test]
    fn a_compact_value_keeps_its_strings_and_digits() {
        for (value, expected) in [
            ("{ \"a b\" : [ 1.50 , 2 ] ,\n \"c\\\"  \" : \" \\\\\" }", "{\"a b\":[1.50,2],\"c\\\"  \":\" \\\\\"}"),
            ("12345678901234567890", "12345678901234567890"),
        ] {
            let mut out = Vec::new();
            write_compact(value, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
