//! Does a record follow the schema that it is to follow?
//!
//! The only place that knows the library for it. What a record says is never repeated here, since it may be nobody's business:
//! where it is wrong, and by which rule, is enough to find it. Schemas that stand elsewhere are not got.

use std::fmt;
use std::path::Path;

use jsonschema::Validator;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A schema.
pub(super) struct Schema {
    validator: Validator,
    /// By which another one is told from it.
    pub(super) digest: String,
}

/// What is wrong with a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// Where in it, as a pointer.
    pub(super) at: String,
    /// The keyword of the rule.
    pub(super) rule: String,
    /// Where in the schema that stands.
    pub(super) rule_at: String,
    /// What it says, without what the record does.
    pub(super) why: String,
}

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    /// What is wrong with it, for whoever wrote it.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let told = |why: String| format!("the schema {} {why}", path.display());
        let text = std::fs::read(path).map_err(|error| told(format!("cannot be read: {error}")))?;
        let value: Value = serde_json::from_slice(&text).map_err(|error| told(format!("is not JSON: {error}")))?;
        let validator = jsonschema::options().offline().build(&value);
        let validator = validator.map_err(|error| told(format!("is no JSON Schema that can be used: {error}")))?;
        let digest = Sha256::digest(&text).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { validator, digest })
    }

    /// What is wrong with a record, if anything is: the first that is found.
    pub(super) fn mismatch(&self, record: &[u8]) -> Option<Mismatch> {
        const CHARS_MAX: usize = 300;
        let value: Value = match serde_json::from_slice(record) {
            Ok(value) => value,
            Err(error) => {
                let (at, rule, rule_at) = (String::new(), "JSON".to_owned(), String::new());
                return Some(Mismatch { at, rule, rule_at, why: format!("it cannot be read: {error}") });
            }
        };
        let error = self.validator.validate(&value).err()?;
        Some(Mismatch {
            at: error.instance_path().to_string(),
            rule: error.kind().keyword().to_owned(),
            rule_at: error.schema_path().to_string(),
            why: error.masked().to_string().chars().take(CHARS_MAX).collect(),
        })
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema({})", self.digest)
    }
}

/// `at /id: value is not of type "integer" (/properties/id/type)`
impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.at.is_empty() { "the record itself" } else { &self.at };
        write!(f, "at {at}: {} ({})", self.why, self.rule_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(text: &str) -> Result<Schema, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, text).unwrap();
        Schema::read(file.path())
    }

    /// Pages 3 to 5 of pg-5 of the cases.
    #[test]
    fn a_mismatch_says_where_and_by_which_rule_and_nothing_of_the_record() {
        let schema = schema(
            r#"{"type":"object","required":["id","name"],"properties":{
                "id":{"type":"integer"},"name":{"type":["string","null"]},"tags":{"type":"array","items":{"type":"string"}}}}"#,
        )
        .unwrap();
        for (record, expected) in [
            (r#"{"id":1,"name":null,"tags":["a"]}"#, None),
            (r#"{"id":12345678901234567890123,"name":"a","new":1}"#, None),
            (r#"{"id":"12a","name":"SECRET"}"#, Some("at /id: value is not of type \"integer\" (/properties/id/type)")),
            (r#"{"id":1}"#, Some("at the record itself: \"name\" is a required property (/required)")),
            (
                r#"{"id":1,"name":"a","tags":["x",7]}"#,
                Some("at /tags/1: value is not of type \"string\" (/properties/tags/items/type)"),
            ),
            ("7", Some("at the record itself: value is not of type \"object\" (/type)")),
        ] {
            assert_eq!(schema.mismatch(record.as_bytes()).map(|m| m.to_string()).as_deref(), expected, "{record}");
        }
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_told_and_nothing_is_got_from_elsewhere() {
        for (text, why) in [
            ("{", "is not JSON: "),
            (r#"{"type":"intger"}"#, "is no JSON Schema that can be used: "),
            (r#"{"$ref":"https://example.com/other.json"}"#, "is no JSON Schema that can be used: "),
        ] {
            let error = schema(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(Schema::read(Path::new("/no/such")).unwrap_err().starts_with("the schema /no/such cannot be read: "));
    }
}
