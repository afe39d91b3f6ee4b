//! Which values of a page are the records?
//!
//! A pointer leads to the array that holds them, a JSONPath (RFC 9535) to the records themselves. A page where that leads
//! nowhere is no empty page: a list that was renamed, or an error told with 200, must not pass for an end.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;
use serde_json::value::RawValue;
use serde_json_path::{JsonPath, PathElement};

use super::raw::{self, Pointer};

/// Where the records of a page are.
#[derive(Debug, Clone)]
pub enum Select {
    /// In this array.
    List(Pointer),
    /// Whatever this path finds.
    Path(Box<Path>),
}

/// A JSONPath as it was written, and what must be there where it finds nothing.
#[derive(Debug, Clone)]
pub struct Path {
    path: JsonPath,
    text: String,
    list: Option<JsonPath>,
}

/// Why a page has no records that could be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// It is something else than JSON.
    #[error("it is not JSON: {0}")]
    NotJson(String),
    /// There is nothing at that place.
    #[error("there is nothing at `{0}`, where the records are to be{1}")]
    Missing(String, String),
    /// There is something else than a list.
    #[error("at `{0}`, where the records are to be, stands {1}, not a list")]
    NotList(String, &'static str),
}

impl Select {
    /// The records of a page, each as it is written there.
    ///
    /// # Errors
    /// A page that is not JSON, or has something else where the records are to be.
    pub fn records<'a>(&self, text: &'a [u8]) -> Result<Vec<&'a RawValue>, SelectError> {
        let not_json = |e: serde_json::Error| SelectError::NotJson(e.to_string());
        match self {
            Self::List(pointer) => {
                let [list] = raw::pick(text, [pointer]).map_err(not_json)?;
                let Some(list) = list else { return Err(SelectError::Missing(self.to_string(), instead(text))) };
                raw::elements(list).ok_or_else(|| SelectError::NotList(self.to_string(), kind(list)))
            }
            Self::Path(path) => {
                let value: Value = serde_json::from_slice(text).map_err(not_json)?;
                let places: Vec<Pointer> = path.find(&value);
                if places.is_empty() && path.list.as_ref().is_none_or(|list| list.query(&value).is_empty()) {
                    return Err(SelectError::Missing(self.to_string(), instead(text)));
                }
                let mut found = vec![None; places.len()];
                raw::pick_all(text, &places.iter().collect::<Vec<_>>(), &mut found).map_err(not_json)?;
                Ok(found.into_iter().flatten().collect())
            }
        }
    }
}

impl Path {
    fn find(&self, value: &Value) -> Vec<Pointer> {
        let located = self.path.query_located(value);
        let name = |element: &PathElement<'_>| match element {
            PathElement::Name(name) => (*name).to_owned(),
            PathElement::Index(at) => at.to_string(),
        };
        located.locations().map(|place| place.iter().map(name).collect()).collect()
    }
}

/// What a page has instead, for a message.
fn instead(text: &[u8]) -> String {
    match serde_json::from_slice(text) {
        Ok(Value::Object(fields)) if fields.is_empty() => "; it is an empty object".to_owned(),
        Ok(Value::Object(fields)) => {
            const NAMES_MAX: usize = 8;
            let mut names: Vec<_> =
                fields.keys().take(NAMES_MAX).map(|name| format!("`{}`", name.escape_debug())).collect();
            if fields.len() > NAMES_MAX {
                names.push("…".to_owned());
            }
            format!("; it has {}", names.join(", "))
        }
        Ok(Value::Array(_)) => "; it is a list".to_owned(),
        _ => String::new(),
    }
}

/// What kind of value that is, in words.
pub(super) fn kind(value: &RawValue) -> &'static str {
    match value.get().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a truth value",
        Some(b'n') => "null",
        _ => "a number",
    }
}

impl FromStr for Select {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.starts_with('$') {
            return text
                .parse()
                .map(Self::List)
                .map_err(|e: raw::PointerError| format!("{e}; or a JSONPath, such as `$.data[*]`"));
        }
        let read = |text: &str| JsonPath::parse(text);
        let path = read(text).map_err(|e| format!("`{text}` is no JSONPath: {e}; write for example `$.data[*]`"))?;
        let list = text.strip_suffix("[*]").or_else(|| text.strip_suffix(".*")).and_then(|list| read(list).ok());
        Ok(Self::Path(Path { path, text: text.to_owned(), list }.into()))
    }
}

impl fmt::Display for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(pointer) if pointer.is_root() => f.write_str("the top"),
            Self::List(pointer) => pointer.fmt(f),
            Self::Path(path) => f.write_str(&path.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(select: &str, page: &str, expected: Result<&[&str], &str>) {
        let found = select.parse::<Select>().unwrap().records(page.as_bytes());
        let found = found.map(|found| found.into_iter().map(RawValue::get).collect::<Vec<_>>());
        match expected {
            Ok(expected) => assert_eq!(found.as_deref(), Ok(expected), "{select} of {page}"),
            Err(expected) => assert_eq!(found.unwrap_err().to_string(), expected, "{select} of {page}"),
        }
    }

    #[test]
    fn records_are_found_by_pointer_and_by_path_with_every_digit() {
        check("/data", r#"{"data":[{"id":1.10},2]}"#, Ok(&[r#"{"id":1.10}"#, "2"]));
        check("", "[1e2,{}]", Ok(&["1e2", "{}"]));
        check("/data", r#"{"data":[]}"#, Ok(&[]));
        check("$.data[*]", r#"{"data":[{"id":1.10},2]}"#, Ok(&[r#"{"id":1.10}"#, "2"]));
        check(
            "$[*].order",
            r#"[{"order":{"n":12345678901234567890}},{"no":1}]"#,
            Ok(&[r#"{"n":12345678901234567890}"#]),
        );
        check("$.data[?@.ok]", r#"{"data":[{"ok":1},{"no":1}]}"#, Ok(&[r#"{"ok":1}"#]));
        check("$['a/b']['m~n'][*]", r#"{"a/b":{"m~n":[0]}}"#, Ok(&["0"]));
        check("$.data[*]", r#"{"data":[]}"#, Ok(&[]));
    }

    /// Pages 6 to 9 of pg-5 of the cases.
    #[test]
    fn a_page_of_another_shape_is_no_empty_page() {
        let missing = "there is nothing at `/items`, where the records are to be; it has `itemz`";
        check("/items", r#"{"itemz":[1]}"#, Err(missing));
        check(
            "$.items[*]",
            r#"{"itemz":[1]}"#,
            Err("there is nothing at `$.items[*]`, where the records are to be; it has `itemz`"),
        );
        check(
            "/items",
            r#"{"items":{"id":1}}"#,
            Err("at `/items`, where the records are to be, stands an object, not a list"),
        );
        check("", r#"{"error":"x"}"#, Err("at `the top`, where the records are to be, stands an object, not a list"));
        let error = "/items".parse::<Select>().unwrap().records(b"<html>").unwrap_err();
        assert!(matches!(&error, SelectError::NotJson(why) if why.contains("line 1")), "{error}");
        check(
            "/items",
            r#"{"error":{"code":7}}"#,
            Err("there is nothing at `/items`, where the records are to be; it has `error`"),
        );
    }

    #[test]
    fn what_is_neither_pointer_nor_path_is_told() {
        assert!("data".parse::<Select>().unwrap_err().contains("begins with a slash"));
        assert!("$.data[".parse::<Select>().unwrap_err().starts_with("`$.data[` is no JSONPath: "));
    }
}
