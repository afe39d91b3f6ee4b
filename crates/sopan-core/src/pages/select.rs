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
    /// Where the list stands that it begins to choose from.
    chooses_from: Pointer,
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
                if places.is_empty() && path.is_missing(&value, text) {
                    return Err(SelectError::Missing(self.to_string(), instead(text)));
                }
                let mut found = vec![None; places.len()];
                raw::pick_all(text, &places.iter().collect::<Vec<_>>(), &mut found).map_err(not_json)?;
                Ok(found.into_iter().flatten().collect())
            }
        }
    }

    /// How many of what the API counts are on a page that has so many records. A path may choose some of a list, or several
    /// records of each of its elements: the API counts the elements.
    pub fn count(&self, text: &[u8], records: usize) -> u64 {
        let elements = match self {
            Self::List(_) => None,
            Self::Path(path) => path.elements(text),
        };
        elements.unwrap_or(records) as u64
    }
}

impl Path {
    /// How many elements the list has that it begins to choose from; none if there is no list.
    fn elements(&self, text: &[u8]) -> Option<usize> {
        let [list] = raw::pick(text, [&self.chooses_from]).ok()?;
        list.and_then(raw::elements).map(|elements| elements.len())
    }

    /// Whether it finds nothing since the page is of another shape, and not since its list is empty or holds none to choose.
    fn is_missing(&self, value: &Value, text: &[u8]) -> bool {
        let is_filter = self.text.contains('?');
        let is_there = match self.elements(text) {
            Some(elements) => elements == 0 || is_filter,
            None => false,
        };
        !is_there && self.list.as_ref().is_none_or(|list| list.query(value).is_empty())
    }

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

/// Where a path leads before it begins to choose: its names, as long as there is nothing but names.
fn leading(path: &str) -> Pointer {
    let mut names = Vec::new();
    let mut rest = path.trim_start_matches('$');
    loop {
        let is_name = |char: char| char.is_alphanumeric() || char == '_' || !char.is_ascii();
        let (name, after) = if let Some(after) = rest.strip_prefix('.') {
            after.split_at(after.find(|char| !is_name(char)).unwrap_or(after.len()))
        } else if let Some((name, after)) = quoted_name(rest) {
            (name, after)
        } else {
            break;
        };
        if name.is_empty() {
            break;
        }
        names.push(name.to_owned());
        rest = after;
    }
    names.into_iter().collect()
}

/// A name in brackets and quotes without anything that is escaped, and what follows it.
fn quoted_name(text: &str) -> Option<(&str, &str)> {
    ['\'', '"'].into_iter().find_map(|quote| {
        let (name, after) = text.strip_prefix('[')?.strip_prefix(quote)?.split_once(quote)?;
        Some((name, after.strip_prefix(']')?)).filter(|(name, _)| !name.contains('\\'))
    })
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
        let chooses_from = leading(text);
        Ok(Self::Path(Path { path, text: text.to_owned(), list, chooses_from }.into()))
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

    #[test]
    fn what_an_api_counts_are_the_elements_of_its_list() {
        for (select, page, records, count) in [
            ("/data", r#"{"data":[1,2]}"#, 2, 2),
            ("$.data[*]", r#"{"data":[1,2]}"#, 2, 2),
            ("$.data[?@.ok]", r#"{"data":[{"ok":1},{"no":1},{"no":2}]}"#, 1, 3),
            ("$.data[?@.ok]", r#"{"data":[{"no":1}]}"#, 0, 1),
            ("$['a b'][\"c\"][*].lines[*]", r#"{"a b":{"c":[{"lines":[1,2,3]},{"lines":[4]}]}}"#, 4, 2),
            ("$[*].order", r#"[{"order":1},{"none":1}]"#, 1, 2),
            ("$[*].order", "[]", 0, 0),
            ("$.groups[*].members[*]", r#"{"groups":[]}"#, 0, 0),
            // There is no list to begin with.
            ("$..id", r#"{"a":{"id":1},"b":{"id":2}}"#, 2, 2),
        ] {
            let read: Select = select.parse().unwrap();
            let found = read.records(page.as_bytes()).unwrap().len();
            assert_eq!((found, read.count(page.as_bytes(), found)), (records, count), "{select} of {page}");
        }
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
            "$.items[*].order",
            r#"{"items":[{"odrer":1}]}"#,
            Err("there is nothing at `$.items[*].order`, where the records are to be; it has `items`"),
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
