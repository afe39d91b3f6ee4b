//! Settings of `sopan explain`.

use std::io::stdout;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::RETRY_AFTER;
use http::{HeaderMap, Method, StatusCode};
use sopan_core::hints::{Reader, http_date};
use sopan_engine::Settings;

use super::read::{Check, one_of};
use super::serve::load;
use super::{Format, Wrong, fetch, wants_colours};
use crate::cli;
use crate::explain::{Answer, Rules};

/// What `sopan explain` does.
#[derive(Debug, Clone)]
pub(crate) struct Explain {
    pub(crate) answer: Answer,
    pub(crate) rules: Rules,
    pub(crate) body: Option<Body>,
    pub(crate) format: Format,
    pub(crate) colours: bool,
}

/// Where the body of the answer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    StandardInput,
    File(PathBuf),
}

/// What was typed, checked.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn explain(typed: &cli::Explain) -> Result<Explain, Wrong> {
    let mut check = Check::default();
    let status = check.read("--status", &typed.status, status);
    let method = check.read("--method", &typed.method, method);
    let received = match typed.now.as_deref() {
        Some(text) => check.read("--now", text, now),
        None => Some(SystemTime::now()),
    };
    let headers = fields(&mut check, "--header", &typed.header);
    let request = fields(&mut check, "--request-header", &typed.request_header);
    let target = check.read("--path", &typed.path, target);
    let rules = rules(&mut check, typed);
    let body = typed.body.as_ref().map(|file| if file == "-" { Body::StandardInput } else { Body::File(file.into()) });
    let format = check.read("--format", &typed.format, one_of(Format::ALL));
    let explain = || {
        Some(Explain {
            answer: Answer {
                method: method?,
                target: target?,
                request,
                status: status?,
                headers,
                received: received?,
                body: None,
            },
            rules: rules?,
            body,
            format: format?,
            colours: wants_colours(&stdout()),
        })
    };
    check.finish(explain())
}

/// Fields of one of both messages.
fn fields(check: &mut Check, flag: &str, typed: &[String]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (at, field) in typed.iter().enumerate() {
        if let Some((name, mut value)) = check.take(flag, fetch::field(field, at + 1)) {
            // Only this one is shown.
            value.set_sensitive(name != RETRY_AFTER);
            headers.append(name, value);
        }
    }
    headers
}

/// What counts: flags, over those of an upstream in a file, over the defaults.
fn rules(check: &mut Check, typed: &cli::Explain) -> Option<Rules> {
    let Some(file) = &typed.config else {
        let Settings { retry, lane, breaker, cache, .. } = fetch::of_flags(check, &typed.settings, None).settings;
        return Some(Rules { retry, lane, breaker, cache });
    };
    let loaded = load(Some(file), &typed.settings);
    let Some(serve) = loaded.serve else {
        check.found(loaded.wrong);
        return None;
    };
    let names: Vec<_> = serve.upstreams.iter().map(|served| served.name.as_str()).collect();
    let found = match &typed.of {
        Some(name) => serve.upstreams.iter().find(|served| served.name == *name),
        None => serve.upstreams.first().filter(|_| names.len() == 1),
    };
    let Some(served) = found else {
        let names = names.join(", ");
        let why = match &typed.of {
            Some(name) => format!("`{name}` is no upstream of {file}; there are {names}"),
            None => format!("{file} has several upstreams; say whose answer it is: --of one of {names}"),
        };
        return check.take("--of", Err(why));
    };
    let Settings { retry, lane, breaker, cache, .. } = served.settings.clone();
    Some(Rules { retry, lane, breaker, cache })
}

/// The status of an answer that ends an exchange; 1xx only announce it.
fn status(text: &str) -> Result<StatusCode, String> {
    let code = text.parse().ok().filter(|code: &StatusCode| text.len() == 3 && code.as_u16() >= 200);
    code.ok_or_else(|| format!("`{text}` is not the status of an answer; write a number from 200 on, such as 429"))
}

fn method(text: &str) -> Result<Method, String> {
    Method::from_bytes(text.as_bytes()).map_err(|_| format!("`{text}` is not a method; write for example GET or POST"))
}

/// Path and query as they go over the wire, without what only a browser sees.
fn target(text: &str) -> Result<String, String> {
    let is_path = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if is_path {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is not a path; write for example /v2/orders?page=1"))
    }
}

/// The latest instant that a date can name, 9999-12-31T23:59:59Z.
const LAST: Duration = Duration::from_secs(253_402_300_799);

/// A date in a form of HTTP or of RFC 3339, or seconds since the Unix epoch.
fn now(text: &str) -> Result<SystemTime, String> {
    let read = epoch(text).or_else(|| rfc_3339(text)).or_else(|| http(text)).filter(|since| *since <= LAST);
    read.map(|since| UNIX_EPOCH + since).ok_or_else(|| {
        format!(
            "`{text}` is no instant from 1970 to 9999; write for example 2026-10-21T12:00:00Z, \
             'Wed, 21 Oct 2026 12:00:00 GMT' or 1792584000"
        )
    })
}

fn http(text: &str) -> Option<Duration> {
    let seconds = http_date::parse(text.as_bytes(), SystemTime::now(), Reader::Lenient)?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

/// Digits, perhaps with a fraction of up to nine more.
fn epoch(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    Some(Duration::new(whole.parse().ok()?, format!("{fraction:0<9}").parse().ok()?))
}

/// `2026-10-21T12:00:00Z`, perhaps with a fraction of a second, and always UTC.
fn rfc_3339(text: &str) -> Option<Duration> {
    let upper = text.to_ascii_uppercase();
    let (date, time) = upper.strip_suffix('Z').or_else(|| upper.strip_suffix("+00:00"))?.split_once('T')?;
    let [year, month, day] = date.split('-').collect::<Vec<_>>().try_into().ok()?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = names.iter().zip(1..).find(|(_, number)| format!("{number:02}") == month)?.0;
    // The reader of dates does not ask whether the weekday fits.
    let whole = http(&format!("Mon, {day} {month} {year} {time} GMT"))?;
    epoch(&format!("{}.{fraction}", whole.as_secs()))
}
