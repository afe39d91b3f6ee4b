//! What of a text is not shown to whoever reads of a mistake in it?
//!
//! Passwords and keys, wherever they may stand in settings, and what a terminal would obey or not show. Each becomes as many
//! bytes of something else, so that what is underlined stays where it is. What only may be a secret is taken for one.

use std::ops::Range;

use sopan_core::access::KEY_BYTES_MIN;

use crate::config::KEY_BEGINS;
use crate::config::read::is_variable;
use crate::config::table::settings;
use crate::log::is_unseen;

/// A text as it may be shown: secrets are stars, and what a terminal would not show is; byte by byte.
pub(super) fn shown(text: &str) -> String {
    let shown = without_keys(without_secrets(text));
    if !shown.contains(is_replaced) {
        return shown;
    }
    let seen = |c: char| match c.len_utf8() {
        2 if is_replaced(c) => '\u{b7}',
        3 if is_replaced(c) => '\u{fffd}',
        _ => c,
    };
    shown.chars().map(seen).collect()
}

/// With stars for what stands in these bytes, byte by byte.
pub(super) fn starred(text: &str, span: &Range<usize>) -> String {
    let star = |(at, c): (usize, char)| {
        let is_in = span.contains(&at) && !"\r\n".contains(c);
        std::iter::repeat_n(if is_in { '*' } else { c }, if is_in { c.len_utf8() } else { 1 })
    };
    text.char_indices().flat_map(star).collect()
}

/// Of what cannot be seen that which is not a byte long: who draws the lines sees to the rest.
fn is_replaced(c: char) -> bool {
    is_unseen(c) && !c.is_ascii()
}

/// With stars for user names and passwords of URLs, for the values of their queries, and for the values of what is called
/// like a secret, byte by byte. It looks at every byte a few times at most, whatever the text is.
pub(super) fn without_secrets(text: &str) -> String {
    let mut is_hidden = vec![false; text.len()];
    let mut hide = |range: Range<usize>| is_hidden[range].fill(true);
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        passwords(line, |range| hide(begin + range.start..begin + range.end));
        queries(line, |range| hide(begin + range.start..begin + range.end));
        values_of_secrets(line, |range| hide(begin + range.start..begin + range.end));
        keys(line, |range| hide(begin + range.start..begin + range.end));
        begin += line.len();
    }
    let star = |(at, c): (usize, char)| {
        let (shown, count) = if is_hidden[at] && !"\r\n".contains(c) { ('*', c.len_utf8()) } else { (c, 1) };
        std::iter::repeat_n(shown, count)
    };
    text.char_indices().flat_map(star).collect()
}

/// The words of a line, each with where it begins.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut begin = 0;
    line.split(|c: char| c.is_whitespace() || "\"'`".contains(c)).map(move |word| {
        let at = begin;
        begin += word.len() + line[at + word.len()..].chars().next().map_or(0, char::len_utf8);
        (at, word)
    })
}

fn passwords(line: &str, mut hide: impl FnMut(Range<usize>)) {
    let Some(last_of_line) = line.rfind('@') else { return };
    for (begin, word) in words(line) {
        let last = word.rfind('@');
        let mut from = 0;
        while let Some(at) = word[from..].find("://") {
            from += at + 3;
            if !has_secret(&word[from..]) {
                continue;
            }
            match last.filter(|last| *last >= from) {
                Some(last) => {
                    hide(begin + from..begin + last);
                    from = last;
                }
                // A password may hold what ends a URL.
                None if last_of_line > begin + from => return hide(begin + from..last_of_line),
                None => {}
            }
        }
        // The beginning of the URL is mistyped, or escaped.
        if let Some(last) = last.filter(|last| from == 0 && word[..*last].contains(':')) {
            hide(begin..begin + last);
        }
    }
}

fn queries(line: &str, mut hide: impl FnMut(Range<usize>)) {
    for (begin, word) in words(line) {
        let Some((before, query)) = word.split_once('?') else { continue };
        let mut at = begin + before.len() + 1;
        for item in query.split(['&', '#']) {
            // `…` is hidden already.
            if let Some((name, _)) = item.split_once('=').filter(|(_, value)| *value != "…") {
                hide(at + name.len() + 1..at + item.len());
            }
            at += item.len() + 1;
        }
    }
}

/// Keys of our own, wherever somebody puts one.
fn keys(line: &str, mut hide: impl FnMut(Range<usize>)) {
    for (at, _) in line.match_indices(KEY_BEGINS) {
        let rest = &line[at + KEY_BEGINS.len()..];
        let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)).count();
        if length >= KEY_BYTES_MIN {
            hide(at + KEY_BEGINS.len()..at + KEY_BEGINS.len() + length);
        }
    }
}

/// What the names of secrets contain, where somebody puts them into settings.
const SECRETS: [&str; 12] = [
    "authorization",
    "api_key",
    "api-key",
    "apikey",
    "token",
    "secret",
    "passw",
    "cookie",
    "credential",
    "private_key",
    "bearer",
    "value",
];
/// What names a variable. Whatever could not be one's name may be what one holds.
const VARIABLE: &str = "env";
/// What keeps no secret.
const SWITCHES: [&str; 6] = ["on", "off", "true", "false", "yes", "no"];
/// No name of a secret goes on for longer, before or behind that.
const NAME_MAX: usize = 64;

/// Values of such names, each to the end of the line or of what is quoted; not those of our own settings, none of which is a
/// secret itself, and no on or off.
fn values_of_secrets(line: &str, mut hide: impl FnMut(Range<usize>)) {
    let lower = line.to_ascii_lowercase();
    let mut begin = 0;
    for part in lower.trim_end_matches('\n').split('`') {
        let value = |at: usize| {
            let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
            let before = part[..at].bytes().rev().take(NAME_MAX).take_while(is_name).count();
            let (name, rest) = (&part[at - before..], &part[at..]);
            let length = rest.bytes().take(NAME_MAX).take_while(is_name).count();
            if is_setting(&name[..before + length]) {
                return None;
            }
            let rest = &rest[length..];
            let rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest).trim_start_matches(' ');
            let rest = rest.strip_prefix([':', '='])?.trim_start_matches(' ');
            let is_switch = SWITCHES.contains(&rest.trim_matches([' ', '\r', '"', '\'', ',', '}']));
            (!is_switch).then_some(part.len() - rest.len())
        };
        // What is in braces is judged by its own keys.
        let is_secret = |word: &str, at: usize| word != "credential" || !part[at..].starts_with('{');
        let first =
            |word: &str| part.match_indices(word).find_map(|(at, _)| value(at).filter(|value| is_secret(word, *value)));
        if let Some(first) =
            SECRETS.into_iter().filter_map(first).chain(no_variable(part)).chain(key_itself(part)).min()
        {
            hide(begin + first..begin + part.len());
        }
        begin += part.len() + 1;
    }
}

/// Where a text begins that stands in place of a variable's name and is none.
fn no_variable(part: &str) -> Option<usize> {
    part.match_indices(VARIABLE).find_map(|(at, _)| {
        let rest = part[at + VARIABLE.len()..].trim_start_matches(['"', '\'', ' ']).strip_prefix([':', '='])?;
        let rest = rest.trim_start_matches(['"', '\'', ' ']);
        let end = rest.find(['"', '\'', ' ', ',', '}']).unwrap_or(rest.len());
        let is_name = is_variable(&rest[..end]) || rest.starts_with('$') || end == 0;
        (!is_name).then_some(part.len() - rest.len())
    })
}

/// Where a text begins that is called a key and nothing else, as no setting is.
fn key_itself(part: &str) -> Option<usize> {
    part.match_indices("key").find_map(|(at, word)| {
        let is_begun = part[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || "-_".contains(c));
        let rest = part[at + word.len()..].trim_start_matches(['"', '\'']).strip_prefix(':')?;
        (!is_begun).then_some(part.len() - rest.trim_start_matches(' ').len())
    })
}

/// Whether it is the name of a setting, in a file or as a flag.
fn is_setting(name: &str) -> bool {
    let flag = name.trim_start_matches('-');
    settings().any(|setting| setting.key == name || setting.flag == Some(flag))
}

/// With stars for what is in PEM, which has its place in a file of its own.
fn without_keys(text: String) -> String {
    const BEGIN: &str = "-----BEGIN ";
    if !text.contains(BEGIN) {
        return text;
    }
    let mut shown = String::with_capacity(text.len());
    let mut parts = text.split(BEGIN);
    shown.push_str(parts.next().unwrap_or_default());
    for part in parts {
        shown.push_str(BEGIN);
        let end = part.find("-----END").unwrap_or(part.len());
        let star = |c: char| std::iter::repeat_n(if c == '\n' { c } else { '*' }, c.len_utf8());
        shown.extend(part[..end].chars().flat_map(star));
        shown.push_str(&part[end..]);
    }
    shown
}

/// Whether a URL, or what follows its `://`, may hold a password: before its host, or where a password has a / and what is
/// before that is no port.
fn has_secret(url: &str) -> bool {
    let authority = url.split(['/', '?', '#']).next().unwrap_or_default();
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit() || byte == b']');
    authority.contains('@') || authority.rsplit_once(':').is_some_and(|(_, port)| !is_port(port))
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_may_be_a_secret_is_not_shown() {
        for (text, shown) in [
            ("a: https://me:secret@host/x", "a: https://*********@host/x"),
            ("a: 'http://h:80/x@y' http://[::1]/x@y", "a: 'http://h:80/x@y' http://[::1]/x@y"),
            ("redis://:s@cret@h\nhttp://h\n", "redis://*******@h\nhttp://h\n"),
            // Whatever may be a password is taken for one.
            ("http://me:sec/r#t@h/é", "http://**********@h/é"),
            ("http://me:\"sec\" ret@h", "http://************@h"),
            ("http://mé@h/x@y", "http://*******@y"),
            ("k: -----BEGIN X-----\né\n-----END X-----", "k: -----BEGIN ******\n**\n-----END X-----"),
            ("k: -----BEGIN X", "k: -----BEGIN *"),
            // Without a beginning that is known.
            ("me:secret@host/x 'https:/me:s@h'", "*********@host/x '***********@h'"),
            (r#""https:\/\/me:secret@h""#, r#""*******************@h""#),
            ("https://h/x?page=2&key=secret#top", "https://h/x?page=*&key=******#top"),
            ("{api_key: hunter2}\n'X-Token' = \"a b\"\n", "{api_key: ********\n'X-Token' = *****\n"),
            ("store_set_cookie: on\n--store-set-cookie=on", "store_set_cookie: on\n--store-set-cookie=on"),
            ("store-set-cookies: on\n{cookie: 'off'}\r\n", "store-set-cookies: on\n{cookie: 'off'}\r\n"),
            ("cookie: on fire\ncookie: on, off", "cookie: *******\ncookie: *******"),
            ("{store_set_cookie: on, my_store_set_cookie: x}", "{store_set_cookie: on, my_store_set_cookie: **"),
            ("credential: { env: API_KEY, header: x }", "credential: { env: API_KEY, header: x }"),
            ("credential: { token: a, header: x }", "credential: { token: **************"),
            ("credential: s3cret", "credential: ******"),
            ("key: s3cret, x: {\nkeyless: a\nclient_key: k.pem", "key: ************\nkeyless: a\nclient_key: k.pem"),
            ("env: sk-s3cret", "env: *********"),
            ("{\"env\": \"1a\"}", "{\"env\": \"****"),
            ("headers: {Authorization: Bearer é}", "headers: {Authorization: **********"),
            ("k: [sopan_0123456789abcdef-_é, sopan_short]", "k: [sopan_******************é, sopan_short]"),
            ("client_by: header:X-Api-Key\nurl: http://h/?a", "client_by: header:X-Api-Key\nurl: http://h/?a"),
            // What a terminal would obey, or not show.
            ("a\u{9b}31m \u{202e}b\u{200b}", "a\u{b7}31m \u{fffd}b\u{fffd}"),
        ] {
            let told = super::shown(text);
            assert_eq!((told.len(), &*told), (text.len(), shown));
        }
    }
}
