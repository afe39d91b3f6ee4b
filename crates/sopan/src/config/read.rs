//! Reading single values, and gathering all that is wrong with them.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST};
use http::{HeaderName, HeaderValue, Method};
use sopan_core::access::{KEY_BYTES_MIN, KeyDigest, KeyFields, is_unclear};
use sopan_core::calendar::read_end;
use sopan_core::headers::is_hop_by_hop;
use sopan_core::safety::HostName;
use sopan_engine::CredentialPlace;

use super::KEY_BEGINS;
use super::draft::Scheme;
use super::problem::{Place, Problem, Wrong};
use super::serve::ClientBy;
use super::setting::KEY_FIELDS;

/// Reads one value after the other and goes on when one is wrong, so that whoever typed them mends them all at once.
#[derive(Debug, Default)]
pub(super) struct Check {
    wrong: Wrong,
}

impl Check {
    /// Sets `place` to what was typed for `flag`; leaves it as it is when that is wrong.
    pub(super) fn set<T, E: Display>(
        &mut self,
        place: &mut T,
        flag: &str,
        typed: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) {
        if let Some(value) = self.read(flag, typed, read) {
            *place = value;
        }
    }

    /// What was typed for `flag`; none when that is wrong.
    pub(super) fn read<T, E: Display>(
        &mut self,
        flag: &str,
        typed: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        self.take(flag, read(typed.trim()))
    }

    /// The value that came of `flag`; none when that is wrong.
    pub(super) fn take<T, E: Display>(&mut self, flag: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.wrong.problems.push(Problem::error(Place::Flag(flag.to_owned()), "", error))).ok()
    }

    /// What was found to be wrong elsewhere.
    pub(super) fn extend(&mut self, problems: Vec<Problem>) {
        self.wrong.problems.extend(problems);
    }

    /// What was found to be wrong with a settings file.
    pub(super) fn found(&mut self, wrong: Wrong) {
        self.wrong.source = wrong.source;
        self.wrong.problems.extend(wrong.problems);
    }

    /// The value, if nothing was wrong with any of it.
    pub(super) fn finish<T>(self, value: Option<T>) -> Result<T, Wrong> {
        value.filter(|_| !self.wrong.has_errors()).ok_or(self.wrong)
    }
}

/// A whole number within a range.
pub(in crate::config) fn whole(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> {
    move |text| {
        // Digits only: unlike `str::parse`, no plus sign.
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|n| digits && range.contains(n)).ok_or_else(|| {
            format!("`{text}` is not allowed; write a whole number from {} to {}", range.start(), range.end())
        })
    }
}

/// A whole number that fits into 32 bits; closer bounds are the policy's.
pub(in crate::config) fn count(text: &str) -> Result<u32, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("`{text}` is not a count; write digits and nothing else"));
    }
    text.parse().map_err(|_| format!("`{text}` is too large; write a whole number up to {}", u32::MAX))
}

/// A number with decimals; its bounds, and that it is a number at all, are the policy's.
pub(in crate::config) fn decimal(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number; write for example 0.25"))
}

/// A duration that is more than zero.
pub(in crate::config) fn positive(text: &str) -> Result<std::time::Duration, String> {
    match sopan_core::policy::parse_duration(text) {
        Ok(span) if span.is_zero() => Err(format!("`{text}` is zero; allowed is more than zero")),
        read => read.map_err(|e| e.to_string()),
    }
}

/// A value, or a word that stands for none.
pub(in crate::config) fn or_word<T, E: Display>(
    word: &'static str,
    read: impl Fn(&str) -> Result<T, E>,
) -> impl Fn(&str) -> Result<Option<T>, String> {
    move |text| {
        if text == word {
            return Ok(None);
        }
        read(text).map(Some).map_err(|error| format!("{error}, or {word}"))
    }
}

/// One of a few names.
pub(in crate::config) fn one_of<T: Copy, const N: usize>(
    names: [(&'static str, T); N],
) -> impl Fn(&str) -> Result<T, String> {
    move |text| {
        let found = names.iter().find(|(name, _)| *name == text);
        let allowed = || names.map(|(name, _)| name).join(", ");
        found.map(|(_, value)| *value).ok_or_else(|| format!("`{text}` is not allowed; write one of {}", allowed()))
    }
}

/// `on` or `off`.
pub(in crate::config) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("`{text}` is not allowed; write on or off")),
    }
}

/// An address to listen on.
pub(in crate::config) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not an address with a port; write for example 127.0.0.1:8000 or [::1]:8000"))
}

/// A host by which sopan may be asked.
pub(in crate::config) fn host_name(text: &str) -> Result<HostName, String> {
    HostName::parse(text).ok_or_else(|| {
        format!("`{text}` is not a host; write a name or an address without a port or a wildcard, for example proxy.example.com")
    })
}

/// A file that need not be there.
pub(in crate::config) fn file(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err(format!("`{text}` is not a file; write its name")) } else { Ok(text.into()) }
}

/// A directory that need not be there.
pub(in crate::config) fn directory(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err(format!("`{text}` is not a directory; write its path")) } else { Ok(text.into()) }
}

/// By what clients are told apart.
pub(in crate::config) fn client_by(text: &str) -> Result<ClientBy, String> {
    match (text, text.strip_prefix("header:")) {
        ("ip", _) => Ok(ClientBy::Ip),
        ("connection", _) => Ok(ClientBy::Connection),
        (_, Some(name)) => match name.parse() {
            Ok(name) => Ok(ClientBy::Header(name)),
            Err(_) => Err(format!("`{name}` is not the name of a field; write for example header:X-Team")),
        },
        _ => Err(format!("`{text}` is not allowed; write ip, connection, or header:NAME")),
    }
}

/// The name of a field.
pub(in crate::config) fn field_name(text: &str) -> Result<HeaderName, String> {
    text.parse().map_err(|_| format!("`{text}` is not the name of a field; write for example cdn-cache-control"))
}

/// The name of a field that may hold a credential.
pub(in crate::config) fn credential_field(text: &str) -> Result<HeaderName, String> {
    let name: HeaderName =
        text.parse().map_err(|_| format!("`{text}` is not the name of a field; write for example X-Api-Key"))?;
    match CredentialPlace::field(name.clone(), None) {
        Ok(_) => Ok(name),
        Err(error) => Err(format!("{error}; write for example X-Api-Key")),
    }
}

/// What stands before a credential.
pub(in crate::config) fn scheme(text: &str) -> Result<Scheme, String> {
    match CredentialPlace::field(AUTHORIZATION, Some(text)) {
        _ if text == "none" => Ok(Scheme::Nothing),
        Ok(_) => Ok(Scheme::Named(text.to_owned())),
        // Not shown, since it may be followed by what is a secret.
        Err(_) => Err("it is no scheme; write one word, such as Bearer or Basic, and not what follows it".to_owned()),
    }
}

/// The name of a parameter of a query.
pub(in crate::config) fn parameter(text: &str) -> Result<String, String> {
    match text {
        "" => Err(format!("`{text}` is not the name of a parameter; write for example key")),
        name => Ok(name.to_owned()),
    }
}

/// The name of a variable. What is none may be what the variable should hold, and is not shown.
pub(in crate::config) fn variable(text: &str) -> Result<String, String> {
    if is_variable(text) {
        return Ok(text.to_owned());
    }
    Err("it is not the name of a variable; write letters, digits and _, as in API_KEY, and not what it holds"
        .to_owned())
}

/// Whether it could be the name of a variable.
pub(in crate::config) fn is_variable(text: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().all(is_name) && text.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

/// What a key is known by.
pub(in crate::config) fn digest(text: &str) -> Result<KeyDigest, String> {
    // It may be the key itself, so it is not told again.
    KeyDigest::read(text).ok_or_else(|| {
        "it is no SHA-256, which has 64 hexadecimal digits; write what `sopan keys new` prints for the file, and never the key"
            .to_owned()
    })
}

/// A field in which keys are looked for.
pub(in crate::config) fn key_field(text: &str, fields: &mut KeyFields) -> Result<(), String> {
    let field = match text.to_ascii_lowercase().as_str() {
        "authorization" => &mut fields.authorization,
        "proxy-authorization" => &mut fields.proxy_authorization,
        "x-api-key" => &mut fields.x_api_key,
        _ => return Err(format!("`{text}` is not allowed; write one of {}", KEY_FIELDS.join(", "))),
    };
    *field = true;
    Ok(())
}

/// The name of somebody, whom logs and metrics call so.
pub(in crate::config) fn name_of(whom: &str, text: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if text.is_empty() || text.len() > 64 || !text.bytes().all(is_name) {
        return Err(format!(
            "`{text}` cannot be the name of {whom}, which logs and metrics show; write 1 to 64 of the letters a to z, digits, \
             - and _"
        ));
    }
    Ok(text.to_owned())
}

/// The name of an upstream, there or not.
pub(in crate::config) fn upstream_name(text: &str) -> Result<String, String> {
    if text == "none" {
        let why = "no upstream can be called `none`, which means in metrics that there is none; write another name";
        return Err(why.to_owned());
    }
    name_of("an upstream", text)
}

/// The name of a client.
pub(in crate::config) fn client_name(text: &str) -> Result<String, String> {
    if text.starts_with(KEY_BEGINS) && text.len() >= KEY_BYTES_MIN {
        return Err("that is a key, and names are written into logs and metrics; write a name of yours".to_owned());
    }
    let meaning = match text {
        "none" => "that there is none",
        "other" => "those for whom there is no room",
        _ => return name_of("a client", text),
    };
    Err(format!("no client can be called `{text}`, which means in logs and metrics {meaning}; write another name"))
}

/// The name of a job.
pub(in crate::config) fn job_name(text: &str) -> Result<String, String> {
    if text == "all" {
        return Err("no job can be called `all`, which means each of them; write another name".to_owned());
    }
    name_of("a job", text)
}

/// Whether that is a secret which somebody wrote in place of the file that holds it, with the path that it would have: nothing
/// is called so, and it is long and looks like no path.
pub(in crate::config) fn is_secret_for_file(text: &str, path: &Path) -> bool {
    text.len() >= KEY_BYTES_MIN && !text.contains(['/', '.']) && !path.exists()
}

/// A method. They are told apart by case, and none that is in use has small letters.
pub(in crate::config) fn method(text: &str) -> Result<Method, String> {
    let is_large = text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    let method = text.parse().ok().filter(|_| is_large && !text.is_empty());
    method.ok_or_else(|| format!("`{text}` is not a method; write it in capitals, for example GET"))
}

/// A path with all below it, without a slash at its end.
pub(in crate::config) fn prefix(text: &str) -> Result<String, String> {
    let is_path = |byte: u8| byte.is_ascii_graphic() && !b"?#*".contains(&byte);
    let why = if !text.starts_with('/') {
        "it does not begin with /"
    } else if !text.bytes().all(is_path) {
        "it holds what is no part of a path, and all below it are meant in any case"
    } else if is_unclear(text) {
        "it can be read in more than one way, by dots, encoded slashes or percent signs in it"
    } else {
        return Ok(text.trim_end_matches('/').to_owned());
    };
    Err(format!("`{text}` is not allowed: {why}; write for example /shop/orders"))
}

/// When something ends.
pub(in crate::config) fn end(text: &str) -> Result<SystemTime, String> {
    read_end(text).map_err(|error| error.to_string())
}

/// What something is called: some letters, and no more than a line of them.
pub(in crate::config) fn word(text: &str) -> Result<String, String> {
    const CHARS_MAX: usize = 100;
    let is_word = !text.is_empty() && text.chars().count() <= CHARS_MAX && !text.contains(char::is_control);
    is_word.then(|| text.to_owned()).ok_or_else(|| format!("`{text}` is not a name; write 1 to {CHARS_MAX} letters"))
}

/// A field with its value, which is shown nowhere, not even where it is wrong.
pub(in crate::config) fn field(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let wrong = || "it is no field with a value; write for example Authorization: Bearer ${TOKEN}".to_owned();
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    let name: HeaderName = name.trim().parse().map_err(|_| wrong())?;
    let mut value = HeaderValue::from_str(value.trim()).map_err(|_| wrong())?;
    if is_hop_by_hop(&name) || [HOST, CONTENT_LENGTH, CONTENT_TYPE, EXPECT].contains(&name) {
        return Err(format!("`{name}` cannot be set, since it tells how a request is sent; leave it away"));
    }
    value.set_sensitive(true);
    Ok((name, value))
}

/// A size of memory that has room for something.
pub(in crate::config) fn room(text: &str) -> Result<u64, String> {
    room_of(text, ROOM_MIN)
}

/// A size on disk that has room for something.
pub(in crate::config) fn room_on_disk(text: &str) -> Result<u64, String> {
    room_of(text, ROOM_ON_DISK_MIN)
}

fn room_of(text: &str, least: u64) -> Result<u64, String> {
    match size(text) {
        Ok(bytes) if bytes < least => {
            Err(format!("`{text}` has no room for anything; write {} or more", show_size(least)))
        }
        read => read,
    }
}

/// In less than this hardly an answer would find room.
const ROOM_MIN: u64 = 1 << 20;

/// With less the store does not open: too little to hold what is written between two syncs.
const ROOM_ON_DISK_MIN: u64 = 16 << 20;

/// A size in the largest unit that divides it, as [`size`] reads it.
pub(in crate::config) fn show_size(bytes: u64) -> String {
    let units = [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

/// A size in bytes.
pub(in crate::config) fn size(text: &str) -> Result<u64, String> {
    const MAX: u64 = 1 << 40;
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let unit = match unit.trim() {
        "" | "B" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        "TiB" => Some(MAX),
        "kB" | "KB" => Some(1_000),
        "MB" => Some(1_000_000),
        "GB" => Some(1_000_000_000),
        "TB" => Some(1_000_000_000_000),
        _ => None,
    };
    let bytes = unit.and_then(|unit: u64| digits.parse::<u64>().ok()?.checked_mul(unit)).filter(|bytes| *bytes <= MAX);
    bytes.ok_or_else(|| {
        format!("`{text}` is not a size; write bytes, or for example 64KiB, 1MiB, 10MB, 2GiB (up to 1TiB)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_both_kinds_of_units() {
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("17B", 17),
            ("64KiB", 65_536),
            ("64 KiB", 65_536),
            ("1MiB", 1 << 20),
            ("10MB", 10_000_000),
            ("1kB", 1_000),
            ("2GiB", 2 << 30),
            ("3GB", 3_000_000_000),
            ("1TiB", 1 << 40),
            ("1TB", 1_000_000_000_000),
        ] {
            assert_eq!((size(text), size(&show_size(bytes))), (Ok(bytes), Ok(bytes)), "{text}");
        }
        for text in
            ["", "MiB", "-1", "+1", "1.5MiB", "1e6", "NaN", "1mib", "1M", "2TiB", "99999999999999999999", "1KiBs"]
        {
            let why = size(text).expect_err(text);
            assert!(why.starts_with(&format!("`{text}` is not a size; write bytes")), "{why}");
        }
    }

    #[test]
    fn a_size_is_shown_as_it_can_be_read() {
        for text in ["0B", "17B", "1023B", "1KiB", "1025KiB", "8MiB", "3GiB", "1TiB"] {
            assert_eq!(show_size(size(text).unwrap()), text);
        }
    }

    #[test]
    fn whole_numbers_are_digits_within_their_range() {
        let read = whole(1..=10);
        assert_eq!((read("1"), read("10"), read("007")), (Ok(1), Ok(10), Ok(7)));
        for text in ["", "0", "11", "-1", "+1", "1.0", "1e0", "NaN", "ten", "99999999999999999999999"] {
            let expected = format!("`{text}` is not allowed; write a whole number from 1 to 10");
            assert_eq!(read(text), Err(expected));
        }
    }
}
