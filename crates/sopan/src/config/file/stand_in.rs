//! What stands for something else: `${NAME}` for a variable of the environment, `${file:PATH}` for what is in a file.
//!
//! So that a secret need not stand in the settings, and one file serves several machines. `${NAME:-text}` takes `text` where
//! there is no such variable, or nothing in it; `$$` is a dollar sign. No mistake and no `check` shows what comes of it.

use std::path::Path;

use super::super::read::is_variable;

/// The longest text that one may stand for, and a whole value with several.
const BYTES_MAX: u64 = 64 * 1024;

/// What a text stands for; none where that is itself.
pub(super) fn resolve(text: &str, directory: &Path) -> Result<Option<String>, String> {
    if !text.contains('$') {
        return Ok(None);
    }
    let (mut resolved, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        resolved.push_str(before);
        rest = match after.strip_prefix('$') {
            Some(after) => {
                resolved.push('$');
                after
            }
            None => {
                let inner = after.strip_prefix('{').and_then(|after| after.split_once('}'));
                let Some((name, after)) = inner else {
                    return Err(format!(
                        "`{text}` has a $ that stands for nothing; write ${{NAME}} for a variable, ${{file:PATH}} for a \
                         file, or $$ for a dollar sign"
                    ));
                };
                resolved.push_str(&one(name, directory)?);
                if resolved.len() as u64 > BYTES_MAX {
                    return Err(format!("what `{text}` stands for is longer than {BYTES_MAX} bytes; shorten it"));
                }
                after
            }
        };
    }
    resolved.push_str(rest);
    Ok(Some(resolved))
}

fn one(name: &str, directory: &Path) -> Result<String, String> {
    if let Some(path) = name.strip_prefix("file:") {
        return file(&directory.join(path)).map_err(|why| format!("`${{{name}}}`: the file {why}"));
    }
    let (name, otherwise) = match name.split_once(":-") {
        Some((name, otherwise)) => (name, Some(otherwise)),
        None => (name, None),
    };
    if !is_variable(name) {
        return Err(format!(
            "`${{{name}}}` does not name a variable; write letters, digits and _, as in ${{API_HOST}}"
        ));
    }
    match (std::env::var_os(name).filter(|value| !value.is_empty()), otherwise) {
        (Some(value), _) => {
            value.into_string().map_err(|_| format!("the variable {name} holds what is no UTF-8 text; set it anew"))
        }
        (None, Some(otherwise)) => Ok(otherwise.to_owned()),
        (None, None) => Err(format!(
            "the variable {name} is not set, or empty; set it, or write ${{{name}:-text}} for what counts without it"
        )),
    }
}

fn file(path: &Path) -> Result<String, String> {
    let text = String::from_utf8(super::read_up_to(path, BYTES_MAX)?).map_err(|_| "is no UTF-8 text".to_owned())?;
    // Editors and `echo` end a file with a line break, which is no part of a secret.
    Ok(text.strip_suffix('\n').map_or(&*text, |text| text.strip_suffix('\r').unwrap_or(text)).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_files_are_put_in_their_place() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("secret"), "s3cret\n").unwrap();
        std::fs::write(directory.path().join("long"), "x".repeat(65_536)).unwrap();
        let manifest = env!("CARGO_MANIFEST_DIR");
        for (text, expected) in [
            ("plain", Ok(None)),
            ("a $$ b", Ok(Some("a $ b".to_owned()))),
            ("${CARGO_MANIFEST_DIR}/x", Ok(Some(format!("{manifest}/x")))),
            ("${SOPAN_NO_SUCH:-8000}", Ok(Some("8000".to_owned()))),
            ("${SOPAN_NO_SUCH:-}", Ok(Some(String::new()))),
            ("<${file:secret}>", Ok(Some("<s3cret>".to_owned()))),
            ("${SOPAN_NO_SUCH}", Err("the variable SOPAN_NO_SUCH is not set")),
            ("${file:nothing}", Err("`${file:nothing}`: the file cannot be read")),
            ("$HOME", Err("has a $ that stands for nothing")),
            ("${HOME", Err("has a $ that stands for nothing")),
            ("${1A}", Err("does not name a variable")),
            ("${}", Err("does not name a variable")),
            ("${file:/dev/zero}", Err("is a pipe or a device")),
            ("${file:long}", Ok(Some("x".repeat(65_536)))),
            ("${file:long}${file:secret}", Err("stands for is longer than 65536 bytes")),
        ] {
            match (resolve(text, directory.path()), expected) {
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{text}: {why}"),
                (resolved, expected) => assert_eq!(resolved, expected.map_err(str::to_owned), "{text}"),
            }
        }
    }
}
