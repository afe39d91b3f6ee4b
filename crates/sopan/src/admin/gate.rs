//! Who may ask the admin port, and for what?
//!
//! It stands open to programs of this machine, or to whoever knows a secret. In both cases browsers are not to be used against
//! it: without a secret only names of this machine will do as a host, so that no page can let its own name lead here (DNS
//! rebinding); nothing is changed by what a page of another site could have sent; and nothing is ever said of sharing (CORS), so
//! no such page reads an answer. Whether the program lives and is ready is told to everybody: a probe knows no secret. Neither has
//! sopan's own page one in it, which asks for it.

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use sopan_core::safety::{Denied, HostName, Hosts, Unmeant, is_meant};

use super::dashboard;
use super::problem::Problem;
use super::token::Token;

/// What is told to everybody.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Lets requests in.
#[derive(Debug)]
pub(crate) struct Gate {
    hosts: Hosts,
    token: Option<Token>,
}

impl Gate {
    /// `names` are those by which sopan may be asked beside those of this machine. With a secret any will do: whoever does not
    /// know it learns nothing under any name.
    pub(crate) fn new(names: &[HostName], token: Option<Token>) -> Self {
        let hosts = match token {
            Some(_) => Hosts { names: Vec::new(), is_open: true },
            None => Hosts { names: names.to_vec(), is_open: false },
        };
        Self { hosts, token }
    }

    /// Whether a request may be answered.
    pub(super) fn admit(&self, request: &Parts) -> Result<(), Problem> {
        let is_reading = matches!(request.method, Method::GET | Method::HEAD);
        if is_reading && OPEN.contains(&request.uri.path()) {
            return Ok(());
        }
        let authority = request.uri.authority().map(|authority| authority.as_str());
        let admitted = self.hosts.admit(authority, &request.headers);
        if is_reading && dashboard::has(request.uri.path()) {
            // Pages of other sites may have a link to it, and can do nothing else with it: no frame, no script, no look.
            return match admitted {
                Err(Denied::Host) => Err(denied(Denied::Host)),
                Ok(()) | Err(Denied::CrossSite) => Ok(()),
            };
        }
        admitted.map_err(denied)?;
        if self.token.as_ref().is_some_and(|token| !knows(&request.headers, token)) {
            let detail = "it wants the secret of the admin port (admin_token_file, SOPAN_ADMIN_TOKEN): send it as \
                          `Authorization: Bearer …`, or as the password of any name";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail));
        }
        if is_reading { Ok(()) } else { is_meant(&request.headers).map_err(unmeant) }
    }
}

fn denied(denied: Denied) -> Problem {
    match denied {
        Denied::Host => {
            let detail =
                "sopan is not asked by this host here; ask by localhost or 127.0.0.1, or name the host in `hosts`";
            Problem::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", detail)
        }
        Denied::CrossSite => cross_site(),
    }
}

fn unmeant(unmeant: Unmeant) -> Problem {
    match unmeant {
        Unmeant::Elsewhere => cross_site(),
        Unmeant::Formlike => {
            let detail = "a form could have sent it, and nothing is changed by that; add the field `Content-Type: \
                          application/json` or `X-Sopan: 1`";
            Problem::new(StatusCode::FORBIDDEN, "formlike", detail)
        }
    }
}

fn cross_site() -> Problem {
    let detail = "it comes from a page of another site; ask from a program, or from sopan's own page";
    Problem::new(StatusCode::FORBIDDEN, "cross-site", detail)
}

/// Whether the secret is said: by one line, as a token or as the password of whatever name.
fn knows(headers: &HeaderMap, token: &Token) -> bool {
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return false };
    let Ok(line) = line.to_str() else { return false };
    let Some((scheme, said)) = line.split_once(' ') else { return false };
    let said = said.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        token.is(said.as_bytes())
    } else if scheme.eq_ignore_ascii_case("basic") {
        let pair = decode(said.as_bytes()).unwrap_or_default();
        let colon = pair.iter().position(|byte| *byte == b':');
        colon.is_some_and(|colon| token.is(&pair[colon + 1..]))
    } else {
        false
    }
}

/// Base64 (RFC 4648 §4), as browsers write it.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    if !text.len().is_multiple_of(4) || digits.len() % 4 == 1 {
        return None;
    }
    let (mut bytes, mut bits, mut count) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0);
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, count) = ((bits << 6 | u32::from(value)) & 0xff_ffff, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    const SECRET: &str = "correct-horse-battery";

    /// `GET /state` and lines of its head; answers the status of what is said instead, or 200.
    #[track_caller]
    fn check(gate: &Gate, request: &str, lines: &[&str], expected: u16) {
        let (method, target) = request.split_once(' ').unwrap();
        let mut asked = Request::builder().method(method).uri(target);
        for line in lines {
            let (name, value) = line.split_once(": ").unwrap();
            asked = asked.header(name, value);
        }
        let (parts, ()) = asked.body(()).unwrap().into_parts();
        let status = gate.admit(&parts).map_or_else(|problem| problem.status(), |()| 200);
        assert_eq!(status, expected, "{request} {lines:?}");
    }

    #[test]
    fn without_a_secret_this_machine_may_ask_and_no_page_of_another_site() {
        let gate = Gate::new(&[HostName::parse("sopan.test").unwrap()], None);
        let json = "content-type: application/json";
        for (request, lines, expected) in [
            ("GET /state", &["host: 127.0.0.1:8001"][..], 200),
            ("GET /state", &["host: localhost:8001"], 200),
            ("GET /state", &["host: sopan.test"], 200),
            ("GET /state", &["host: evil.test:8001"], 421),
            ("GET http://evil.test/state", &["host: localhost"], 421),
            ("GET /healthz", &["host: evil.test:8001"], 200),
            ("GET /", &["host: evil.test:8001"], 421),
            ("GET /", &["host: localhost", "sec-fetch-site: cross-site"], 200),
            ("POST /", &["host: localhost", json, "sec-fetch-site: cross-site"], 403),
            ("HEAD /readyz", &["host: 10.0.0.7:8001"], 200),
            ("POST /healthz", &["host: evil.test:8001"], 421),
            ("GET /state", &["host: localhost", "sec-fetch-site: cross-site"], 403),
            ("GET /state", &["host: localhost", "origin: http://evil.test"], 403),
            ("POST /drain", &["host: localhost"], 403),
            ("POST /drain", &["host: localhost", json], 200),
            ("POST /drain", &["host: localhost", "x-sopan: 1"], 200),
            ("POST /drain", &["host: evil.test", json], 421),
            ("POST /drain", &["host: localhost", json, "origin: http://localhost:3000"], 403),
            ("POST /drain", &["host: localhost", json, "sec-fetch-site: same-site"], 403),
            ("DELETE /drain", &["host: localhost"], 403),
            ("OPTIONS /drain", &["host: localhost"], 403),
        ] {
            check(&gate, request, lines, expected);
        }
    }

    #[test]
    fn with_a_secret_whoever_knows_it_may_ask_by_any_name() {
        let gate = Gate::new(&[], Some(Token::of(SECRET.as_bytes()).unwrap()));
        let bearer = format!("authorization: Bearer {SECRET}");
        for (request, line, expected) in [
            ("GET /state", bearer.as_str(), 200),
            ("GET /state", "authorization: bEARER  correct-horse-battery ", 200),
            // operator:correct-horse-battery, and the same of nobody.
            ("GET /state", "authorization: Basic b3BlcmF0b3I6Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5", 200),
            ("GET /state", "authorization: basic OmNvcnJlY3QtaG9yc2UtYmF0dGVyeQ==", 200),
            ("GET /state", "authorization: Basic b3BlcmF0b3I6Y29ycmVjdC1ob3JzZS1iYXR0ZX==", 401),
            ("GET /state", "authorization: Basic Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5", 401),
            ("GET /state", "authorization: Basic correct-horse-battery", 401),
            ("GET /state", "authorization: Basic ", 401),
            ("GET /state", "authorization: Bearer correct-horse-batterx", 401),
            ("GET /state", "authorization: Bearer ", 401),
            ("GET /state", "authorization: correct-horse-battery", 401),
            ("GET /state", "authorization: Digest correct-horse-battery", 401),
            ("GET /state", "x-nothing: x", 401),
            ("GET /healthz", "x-nothing: x", 200),
            ("GET /", "x-nothing: x", 200),
            ("GET /dashboard/main.js", "x-nothing: x", 200),
            ("GET /events", "x-nothing: x", 401),
            ("POST /", "x-sopan: 1", 401),
            ("POST /drain", "x-sopan: 1", 401),
            // It is not enough that the browser knows it.
            ("POST /drain", bearer.as_str(), 403),
        ] {
            check(&gate, request, &["host: 10.0.0.7:8001", line], expected);
        }
        check(&gate, "GET /state", &["host: 10.0.0.7:8001", &bearer, &bearer], 401);
        check(&gate, "POST /drain", &["host: sopan.svc:8001", &bearer, "x-sopan: 1"], 200);
    }

    #[test]
    fn base64_is_read_as_browsers_write_it_and_nothing_else() {
        for (text, expected) in [
            ("", Some("")),
            ("Zg==", Some("f")),
            ("Zm8=", Some("fo")),
            ("Zm9v", Some("foo")),
            ("Zm9vYmFy", Some("foobar")),
            ("Zg", None),
            ("Zg=", None),
            ("Z", None),
            ("Zm9v=", None),
            ("Zm9-", None),
            ("=", None),
            ("Zg==Zg==", None),
        ] {
            assert_eq!(decode(text.as_bytes()).as_deref(), expected.map(str::as_bytes), "{text}");
        }
    }
}
