//! What may not be shown.
//!
//! Both look only at names, since a secret does not look like one, and both err towards hiding: a log line that says too
//! little can be mended by looking elsewhere, one that says too much cannot be taken back.

use std::fmt;

use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_TYPE, DATE,
    ETAG, HOST, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, LINK, LOCATION,
    ORIGIN, RANGE, REFERER, SERVER, USER_AGENT, VARY, VIA,
};

/// Whether the value of this field may not be shown: `Authorization`, `Proxy-Authorization`, `Cookie`, `Set-Cookie`,
/// `X-Api-Key`, and whatever else is called like a key, token, secret, password, session or signature. A few harmless
/// ones, such as `Idempotency-Key`, are hidden with them.
///
/// ```
/// use http::header::{ACCEPT, AUTHORIZATION};
/// use sopan_core::headers::is_secret;
///
/// assert!(is_secret(&AUTHORIZATION));
/// assert!(!is_secret(&ACCEPT));
/// ```
pub fn is_secret(name: &HeaderName) -> bool {
    !is_usual(name) && has_secret_word(name.as_str().as_bytes())
}

/// Whether it is one of those that most messages have, which need not be read letter by letter to see that they hold no
/// secret: each request asks for all of its names.
fn is_usual(name: &HeaderName) -> bool {
    matches!(
        *name,
        ACCEPT
            | ACCEPT_ENCODING
            | ACCEPT_LANGUAGE
            | CACHE_CONTROL
            | CONTENT_LENGTH
            | CONTENT_TYPE
            | DATE
            | ETAG
            | HOST
            | IF_MODIFIED_SINCE
            | IF_NONE_MATCH
            | LAST_MODIFIED
            | ORIGIN
            | RANGE
            | REFERER
            | SERVER
            | USER_AGENT
            | VARY
            | VIA
    )
}

/// Whether the name of a field contains what only those of secrets do. `auth` covers `Authorization` and all its relatives,
/// `cookie` also `Set-Cookie`, `key` also `X-Api-Key`.
fn has_secret_word(name: &[u8]) -> bool {
    (0..name.len()).any(|at| {
        let begins = |word: &[u8]| name[at..].starts_with(word);
        match name[at] {
            b'a' => begins(b"auth"),
            b'b' => begins(b"bearer"),
            b'c' => begins(b"cookie") || begins(b"credential") || begins(b"csrf"),
            b'j' => begins(b"jwt"),
            b'k' => begins(b"key"),
            b'p' => begins(b"passw"),
            b's' => begins(b"secret") || begins(b"session") || begins(b"signature"),
            b't' => begins(b"token"),
            _ => false,
        }
    })
}

/// Whether this field says by a secret who sends a request: `Authorization`, `Cookie`, an API key, whatever [`is_secret`] but
/// `Idempotency-Key`, which tells apart requests and not who sends them.
///
/// ```
/// use http::HeaderName;
/// use http::header::COOKIE;
/// use sopan_core::headers::is_credential;
///
/// assert!(is_credential(&COOKIE));
/// assert!(!is_credential(&HeaderName::from_static("idempotency-key")));
/// ```
pub fn is_credential(name: &HeaderName) -> bool {
    is_secret(name) && name != "idempotency-key"
}

/// Fields as they may be shown: with `…` for the value of each that holds a secret, and URLs redacted.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use sopan_core::headers::Shown;
///
/// let mut fields = HeaderMap::new();
/// fields.insert("accept", HeaderValue::from_static("text/html"));
/// fields.insert("cookie", HeaderValue::from_static("id=abc"));
/// assert_eq!(format!("{:?}", Shown(&fields)), r#"{"accept": "text/html", "cookie": "…"}"#);
/// ```
pub struct Shown<'a>(pub &'a HeaderMap);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, value)| (name.as_str(), shown_value(name, value)))).finish()
    }
}

fn shown_value(name: &HeaderName, value: &HeaderValue) -> String {
    if value.is_sensitive() || is_secret(name) {
        return "…".to_owned();
    }
    let text = String::from_utf8_lossy(value.as_bytes());
    let holds_url = [CONTENT_LOCATION, LINK, LOCATION, REFERER].contains(name);
    if holds_url { redact_url(&text) } else { text.into_owned() }
}

/// A URL as it may be shown: without user and password, with `…` for every value of the query and for the fragment. Names
/// in the query stay, since they tell what was asked; what has no name may be a key, and is hidden.
///
/// It takes any text, also one that is no URL, because it is needed to say so.
///
/// ```
/// use sopan_core::headers::redact_url;
///
/// let shown = redact_url("https://me:pw@api.example.com/v1/orders?page=2&api_key=abc");
/// assert_eq!(shown, "https://api.example.com/v1/orders?page=…&api_key=…");
/// ```
pub fn redact_url(url: &str) -> String {
    let (scheme, rest) = without_userinfo(url);
    let (rest, fragment) = split_at_first(rest, '#');
    let (place, query) = split_at_first(rest, '?');
    let segments: Vec<_> = place.split('/').map(redact_segment).collect();
    let mut shown = format!("{scheme}{}", segments.join("/"));
    if let Some(query) = query {
        let items: Vec<_> = query.split('&').map(redact_item).collect();
        shown.push('?');
        shown.push_str(&items.join("&"));
    }
    if fragment.is_some() {
        shown.push_str("#…");
    }
    shown
}

/// Whether the query of a target may hold a secret: in a parameter that is called like one, or one that has no name and is
/// long. Such as count the pages (`page_token`) are none.
///
/// ```
/// use sopan_core::headers::has_secret_parameter;
///
/// assert!(has_secret_parameter("/v1/orders?page=2&api_key=abc"));
/// assert!(!has_secret_parameter("/v1/orders?page=2&page_token=abc&keyword=x"));
/// ```
pub fn has_secret_parameter(target: &str) -> bool {
    let Some((_, query)) = target.split_once('?') else { return false };
    query.split(['&', ';', '#']).any(|item| match item.split_once('=') {
        Some((name, _)) => is_secret_parameter(name),
        None => item.len() >= UNNAMED_MIN,
    })
}

/// No shorter text is a key that anybody could trust in.
const UNNAMED_MIN: usize = 16;

/// By its name, of which what is percent-encoded counts for nothing.
fn is_secret_parameter(name: &str) -> bool {
    let mut letters = String::with_capacity(name.len());
    let mut bytes = name.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => _ = bytes.nth(1),
            _ if byte.is_ascii_alphabetic() => letters.push(byte.to_ascii_lowercase().into()),
            _ => {}
        }
    }
    const PAGES: [&str; 5] = ["page", "next", "cursor", "continuation", "sync"];
    const WHOLE: [&str; 7] = ["appid", "auth", "pass", "pwd", "sid", "sig", "otp"];
    let ends_like_one = letters.ends_with("key") || letters.ends_with("keys");
    // The word `key` is at the end of a key's name, and elsewhere in that of much else.
    let is_one = WHOLE.contains(&&*letters)
        || ends_like_one
        || [
            "authorization",
            "bearer",
            "cookie",
            "credential",
            "jwt",
            "passw",
            "secret",
            "session",
            "signature",
            "token",
        ]
        .iter()
        .any(|word| letters.contains(word));
    is_one && !PAGES.iter().any(|word| letters.starts_with(word))
}

/// `name=value` of a query, without the value.
fn redact_item(item: &str) -> String {
    match item.split_once('=') {
        Some((name, _)) => format!("{name}=…"),
        None if item.is_empty() => String::new(),
        None => "…".to_owned(),
    }
}

/// A part of a path. `user:password@` in it is of a URL that was mistyped.
fn redact_segment(segment: &str) -> String {
    match segment.rsplit_once('@') {
        Some((before, after)) if before.contains(':') => format!("…@{after}"),
        _ => segment.to_owned(),
    }
}

fn split_at_first(text: &str, mark: char) -> (&str, Option<&str>) {
    text.split_once(mark).map_or((text, None), |(before, after)| (before, Some(after)))
}

/// The scheme with its `://`, and what follows the user and password.
fn without_userinfo(url: &str) -> (&str, &str) {
    let (scheme, rest) = split_scheme(url);
    // A path alone has neither; anything else begins with an authority, or with what was meant to be one.
    if scheme.is_empty() && rest.starts_with('/') {
        return (scheme, rest);
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = &rest[..end];
    let userinfo = match authority.rfind('@') {
        // A password with an unescaped slash, `?` or `#` ends the authority too early: with its beginning for a port.
        None if has_odd_port(authority) => rest.rfind('@'),
        at => at,
    };
    (scheme, userinfo.map_or(rest, |at| &rest[at + 1..]))
}

/// `https://` and the rest; also `//` alone, by which a reference begins that keeps the scheme.
fn split_scheme(url: &str) -> (&str, &str) {
    let end = match url.find("://") {
        Some(colon) if url[..colon].bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) => {
            colon + 3
        }
        _ if url.starts_with("//") => 2,
        _ => 0,
    };
    url.split_at(end)
}

/// Whether what follows the last colon cannot be a port. The colons within `[::1]` are not of that kind.
fn has_odd_port(authority: &str) -> bool {
    let after_brackets = authority.rsplit(']').next().unwrap_or(authority);
    let port = after_brackets.rsplit_once(':').map_or("", |(_, port)| port);
    !port.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(url: &str, expected: &str) {
        assert_eq!(redact_url(url), expected, "{url}");
    }

    #[test]
    fn user_and_password_are_dropped() {
        check("https://me:pw@api.test/v1", "https://api.test/v1");
        check("https://me@api.test", "https://api.test");
        check("redis://:pw@cache.test:6379/0", "redis://cache.test:6379/0");
        check("https://me:p@w@api.test:8443/x", "https://api.test:8443/x");
        check("https://me:pw@[::1]:8443/x", "https://[::1]:8443/x");
        check("//me:pw@api.test/x", "//api.test/x");
        check("me:pw@api.test:443", "api.test:443");
        check("me:pw@api.test/x", "api.test/x");
    }

    #[test]
    fn a_password_that_breaks_the_grammar_is_dropped_too() {
        check("https://me:p/w@api.test/x", "https://api.test/x");
        check("https://me:p?w@api.test/x", "https://api.test/x");
        check("https://me:p#w@api.test/x", "https://api.test/x");
        check("https:\\\\me:pw@api.test", "api.test");
        check("http:/me:pw@api.test", "http:/…@api.test");
        check("http:///me:pw@api.test", "http:///…@api.test");
        check("ht!tp://me:pw@api.test", "ht!tp://…@api.test");
        check("/me:pw@api.test", "/…@api.test");
    }

    #[test]
    fn values_of_the_query_are_hidden_and_names_kept() {
        check("https://api.test/v1?page=2&key=abc", "https://api.test/v1?page=…&key=…");
        check("/v1?key=abc", "/v1?key=…");
        check("/v1?a=1=2&b=", "/v1?a=…&b=…");
        check("/v1?KEY&a=1", "/v1?…&a=…");
        check("/v1?", "/v1?");
        check("/v1?&&", "/v1?&&");
        check("/v1?next=http://me:pw@other.test/?x=1", "/v1?next=…");
        check("https://api.test?key=abc", "https://api.test?key=…");
        check("https://api.test?mail=me@x.test", "https://api.test?mail=…");
    }

    #[test]
    fn a_parameter_is_a_secret_by_its_name() {
        for query in [
            "key=a",
            "KEY=a",
            "api_key=a",
            "x=1&apiKey=a",
            "x-goog-api-key=",
            "access_token=a",
            "appid=a",
            "sig=a",
            "auth=a",
            "X-Amz-Signature=a",
            "X-Amz-Credential=a",
            "client_secret=a",
            "PHPSESSIONID=a",
            "a=1;token=b",
            "api%5Fkey=a",
            "sk-0123456789abcdef",
            "a=1&sopan_0123456789",
        ] {
            assert!(has_secret_parameter(&format!("/x?{query}")), "{query}");
        }
        for target in [
            "/x",
            "/key=a",
            "/x?",
            "/x?page=2&size=50",
            "/x?keyword=a",
            "/x?author=a",
            "/x?page_token=a",
            "/x?nextToken=a",
            "/x?filter%5Bname%5D=a",
            "/x?signed=a",
            "/x?list",
            "/x?a=key",
        ] {
            assert!(!has_secret_parameter(target), "{target}");
        }
    }

    #[test]
    fn a_fragment_is_hidden() {
        check("https://app.test/cb#access_token=abc", "https://app.test/cb#…");
        check("/x?a=1#b?c=2", "/x?a=…#…");
    }

    #[test]
    fn what_holds_no_secret_is_shown_as_it_is() {
        for url in [
            "",
            "/",
            "*",
            "/a//b/%2F/;v=1",
            "//cms/x",
            "/@scope/name",
            "https://registry.test/@scope/name",
            "https://registry.test:8443/@scope/name",
            "https://[::1]/@scope",
            "https://[::1]:80/@scope",
            "http://127.0.0.1:8000/v1/orders",
            "not a url",
        ] {
            check(url, url);
        }
    }

    #[test]
    fn names_that_hold_secrets_are_known() {
        for name in [
            "authorization",
            "proxy-authorization",
            "cookie",
            "set-cookie",
            "x-api-key",
            "apikey",
            "ocp-apim-subscription-key",
            "x-auth-token",
            "x-amz-security-token",
            "x-goog-api-key",
            "x-csrf-token",
            "x-shared-secret",
            "x-password",
            "x-session-id",
            "x-hub-signature-256",
            "authentication-info",
        ] {
            assert!(is_secret(&HeaderName::from_static(name)), "{name}");
        }
    }

    /// Whatever the others are called, they are found in the middle and at the end, and never by half a word.
    #[test]
    fn a_name_holds_a_secret_if_it_contains_the_word_for_it() {
        let words = [
            "auth",
            "bearer",
            "cookie",
            "credential",
            "csrf",
            "jwt",
            "key",
            "passw",
            "secret",
            "session",
            "signature",
            "token",
        ];
        for word in words {
            for (name, expected) in [
                (word.to_owned(), true),
                (format!("x-{word}-1"), true),
                (format!("my{word}"), true),
                // As when it begins anew within itself.
                (format!("{}{word}", &word[..1]), true),
                (format!("x-{}", &word[..word.len() - 1]), false),
                (format!("x-{}-y", &word[1..]), false),
            ] {
                assert_eq!(is_secret(&HeaderName::from_bytes(name.as_bytes()).unwrap()), expected, "{name}");
            }
        }
    }

    #[test]
    fn names_that_explain_a_request_are_shown() {
        for name in [
            "accept",
            "cache-control",
            "content-type",
            "date",
            "host",
            "ratelimit",
            "retry-after",
            "server",
            "user-agent",
            "via",
            "x-request-id",
        ] {
            assert!(!is_secret(&HeaderName::from_static(name)), "{name}");
        }
    }

    #[test]
    fn fields_are_shown_without_what_they_hide() {
        let mut fields = HeaderMap::new();
        for (name, value) in [
            (LOCATION, "https://me:pw@api.test/x?key=abc"),
            (HeaderName::from_static("x-api-key"), "abc"),
            (HeaderName::from_static("x-plain"), "a?b=c"),
        ] {
            fields.append(name, HeaderValue::from_static(value));
        }
        let mut marked = HeaderValue::from_static("abc");
        marked.set_sensitive(true);
        fields.append("x-marked", marked);
        let shown =
            r#"{"location": "https://api.test/x?key=…", "x-api-key": "…", "x-plain": "a?b=c", "x-marked": "…"}"#;
        assert_eq!(format!("{:?}", Shown(&fields)), shown);
    }

    proptest! {
        #[test]
        fn no_secret_comes_through_wherever_it_stands(
            host in "[a-z]{1,8}(:[0-9]{1,4})?",
            path in "(/[a-z@]{0,6}|/[a-z:]{0,6}){0,3}",
            names in proptest::collection::vec("[a-z]{1,5}", 0..4),
            password in "[a-z@:]{0,3}SECRET[a-z:]{0,3}",
        ) {
            let query = names.iter().map(|name| format!("{name}={password}")).collect::<Vec<_>>().join("&");
            let shown = redact_url(&format!("https://user:{password}@{host}{path}?{query}#{password}"));
            prop_assert!(!shown.contains("SECRET"), "{}", shown);
            let expected_start = format!("https://{host}{path}?");
            prop_assert!(shown.starts_with(&expected_start), "{}", shown);
        }

        #[test]
        fn no_text_makes_it_panic(url in ".*") {
            redact_url(&url);
        }
    }
}
