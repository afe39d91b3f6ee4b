//! JSON as the fake API writes it: one line, with a space after each comma and colon.
//!
//! The bodies that are promised byte for byte have these spaces, so all others have them too.

use std::io;

use bytes::Bytes;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// The value as one line of JSON.
pub(crate) fn line<T: Serialize>(value: &T) -> Bytes {
    let mut out = Vec::new();
    let written = value.serialize(&mut Serializer::with_formatter(&mut out, Spaced));
    written.expect("our values have string keys, and a vector takes every byte");
    out.into()
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_space_follows_each_comma_and_colon() {
        let value = json!([{"a": [1, 2], "b": {}}, [], null]);
        assert_eq!(line(&value), r#"[{"a": [1, 2], "b": {}}, [], null]"#);
    }
}
