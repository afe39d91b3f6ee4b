//! A settings file as a tree whose every value knows where it stands.
//!
//! YAML, TOML and JSON become the same tree, in which a scalar is the text that was written: what it means is for whoever
//! knows the setting. So `no` is a word and not a boolean, `1.50` is no other number than on the command line, and every
//! mistake can be pointed at.

mod toml;
mod words;
mod yaml;

use std::fmt;
use std::ops::Range;

use super::problem::Source;

/// A value, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Range<usize>,
}

/// What stands there.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// Nothing, `~` or `null`.
    Nothing,
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// Not the texts, which may be secrets.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("Nothing"),
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::List(items) => f.debug_list().entries(items).finish(),
            Self::Map(entries) => f.debug_map().entries(entries.iter().map(|(key, node)| (&key.text, node))).finish(),
        }
    }
}

/// A key, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) span: Range<usize>,
}

/// What cannot be read at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) what: String,
    pub(crate) span: Range<usize>,
}

/// The forms that settings files come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Yaml,
    Toml,
    Json,
}

impl Form {
    /// By the ending of a file's name.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let ending = path.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
        match ending.as_deref() {
            Some("yaml" | "yml") => Some(Self::Yaml),
            Some("toml") => Some(Self::Toml),
            Some("json") => Some(Self::Json),
            _ => None,
        }
    }
}

/// Reads a file.
pub(crate) fn read(source: &Source, form: Form) -> Result<Node, Vec<Fault>> {
    if source.text.trim().is_empty() {
        return Ok(Node { value: Value::Nothing, span: 0..0 });
    }
    match form {
        Form::Yaml => yaml::read(source).map_err(|fault| vec![fault]),
        Form::Toml => toml::read(source),
        // Whatever is JSON is YAML too, and only there it is known where things stand; but not the other way round.
        Form::Json => match serde_json::from_str::<serde::de::IgnoredAny>(&source.text) {
            Ok(_) => yaml::read(source).map_err(|fault| vec![fault]),
            Err(error) => {
                // Its columns count bytes.
                let mut at = (source.offset(error.line(), 1) + error.column().max(1) - 1).min(source.text.len());
                while !source.text.is_char_boundary(at) {
                    at -= 1;
                }
                let told = error.to_string();
                let told = told.split(" at line ").next().unwrap_or(&told);
                if told.contains("control character") {
                    // It is told where the character before it is.
                    at += source.text[at..].chars().next().map_or(0, char::len_utf8);
                }
                Err(vec![Fault { what: words::json(told, source.text[at..].chars().next()), span: at..at }])
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree on one line, every scalar in the brackets of its form.
    fn shown(node: &Node) -> String {
        match &node.value {
            Value::Nothing => "-".to_owned(),
            Value::Text(text) => format!("<{text}>"),
            Value::List(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" ")),
            Value::Map(entries) => {
                let entries: Vec<_> =
                    entries.iter().map(|(key, node)| format!("{}={}", key.text, shown(node))).collect();
                format!("{{{}}}", entries.join(" "))
            }
        }
    }

    fn source(text: &str) -> Source {
        Source { path: "s".to_owned(), text: text.to_owned() }
    }

    #[track_caller]
    fn check(form: Form, text: &str, expected: &str) {
        let tree = read(&source(text), form).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
        assert_eq!(shown(&tree), expected, "{text}");
    }

    #[test]
    fn scalars_are_the_text_that_was_written() {
        let yaml = "a: 127.0.0.1:8000\nb: [10/s burst 20, 1.50]\non: no\nc: \"x\\ty\"\nd:\ne: ~\nf: 0x10\ng: {h: true}\ni: 'it''s'\n";
        let tree =
            "{a=<127.0.0.1:8000> b=[<10/s burst 20> <1.50>] on=<no> c=<x\ty> d=- e=- f=<0x10> g={h=<true>} i=<it's>}";
        check(Form::Yaml, yaml, tree);
        check(
            Form::Json,
            "{\n\t\"a\": \"\\u00e9\\/\",\n\t\"b\": [1.50, true, null], \"c\": {}}\n",
            "{a=<é/> b=[<1.50> <true> -] c={}}",
        );
        check(
            Form::Toml,
            "a = 1_0\nb = \"x\\ty\"\n[c]\nd = [1.50, true]\ne = {f = 'g'}\n[c.h]\n",
            "{a=<1_0> b=<x\ty> c={d=[<1.50> <true>] e={f=<g>} h={}}}",
        );
        check(
            Form::Yaml,
            "x: &a {b: 1, c: 2}\nd: {<<: *a, c: 3}\ne: *a\n",
            "{x={b=<1> c=<2>} d={c=<3> b=<1>} e={b=<1> c=<2>}}",
        );
        check(Form::Yaml, "", "-");
    }

    #[test]
    fn every_value_knows_where_it_stands() {
        for (form, text) in [
            (Form::Yaml, "ä: 1\nup:\n  é:\n    wait: 5x # why\n"),
            (Form::Toml, "\"ä\" = 1\n[up.\"é\"]\nwait = 5x\n"),
            (Form::Json, "{\"ä\": 1,\n \"up\": {\"é\": {\"wait\": \"5x\"}}}"),
        ] {
            let text = if form == Form::Toml { text.replace("5x", "\"5x\"") } else { text.to_owned() };
            let source = source(&text);
            let mut node = read(&source, form).unwrap();
            for key in ["up", "é", "wait"] {
                let Value::Map(entries) = node.value else { panic!("{key}") };
                let (found, value) = entries.into_iter().find(|(k, _)| k.text == key).unwrap();
                assert_eq!(text[found.span].trim_matches('"'), key);
                node = value;
            }
            assert_eq!(text[node.span].trim_matches('"'), "5x");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_place() {
        // What is said of each is drawn in the wrong files of the third ring.
        for (form, text, line) in [
            (Form::Yaml, "a: 1\na: 2\n", 2),
            (Form::Yaml, "a: 1\n b: 2\n", 2),
            (Form::Yaml, "a: [1, 2\nb: 3\n", 2),
            (Form::Yaml, "a: 1\n---\nb: 2\n", 3),
            (Form::Yaml, "? [1]\n: 2\n", 1),
            (Form::Toml, "a = 1\na = 2\n", 2),
            (Form::Toml, "a = \n", 1),
            (Form::Json, "{\"a\": 1,\n \"é\": 1, b: 2}\n", 2),
            (Form::Json, "{\"a\": 1, \"a\": 2}\n", 1),
            (Form::Json, "a: 1\n", 1),
        ] {
            let source = source(text);
            let faults = read(&source, form).expect_err(text);
            assert_eq!((source.position(faults[0].span.start).0, faults.len()), (line, 1), "{text}: {faults:?}");
        }
    }

    #[test]
    fn a_small_file_cannot_become_a_large_tree() {
        let line = |name: &str, of: &str| format!("{name}: &{name} [{}]\n", [of; 9].join(","));
        let bomb: String = [("a", "x"), ("b", "*a"), ("c", "*b"), ("d", "*c"), ("e", "*d"), ("f", "*e"), ("g", "*f")]
            .iter()
            .map(|(name, of)| line(name, of))
            .collect();
        assert_eq!(read(&source(&bomb), Form::Yaml).expect_err("a bomb").len(), 1);
        let deep = "[".repeat(100_000);
        assert_eq!(read(&source(&deep), Form::Yaml).expect_err("too deep").len(), 1);
        assert!(!read(&source(&format!("a = {deep}")), Form::Toml).expect_err("too deep").is_empty());
    }
}
