//! What does an HTTP/1.1 message say (RFC 9112)? A second opinion, to judge the first one by.
//!
//! Written anew from the RFCs and sharing nothing with the product, not even its libraries. Strict: what two parsers could
//! read in two ways is an error. Where the product forgives something on purpose, this forgives it too and notes it.

/// A field, its name in lower case.
pub(crate) type Field = (Vec<u8>, Vec<u8>);

/// A message whose head has come whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// Method, target and version; of an answer version, status and reason.
    pub(crate) start: [Vec<u8>; 3],
    /// In their order.
    pub(crate) fields: Vec<Field>,
    pub(crate) framing: Framing,
    /// What has come of it.
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<Field>,
    /// How many bytes it takes, as far as it has come.
    pub(crate) length: usize,
    /// Whether it has come to its end.
    pub(crate) is_whole: bool,
    /// Whether a chunk's size was followed by anything but its line end.
    pub(crate) has_extensions: bool,
}

/// How the body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    None,
    Length(u64),
    Chunked,
    Close,
}

impl Message {
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        values(&self.fields, name)
    }

    /// The status, where it is an answer.
    pub(crate) fn status(&self) -> u16 {
        String::from_utf8_lossy(&self.start[1]).parse().expect("it was read as three digits")
    }

    /// The target without the server that it names, as a proxy passes it on (RFC 9112 §3.2).
    pub(crate) fn path(&self) -> Vec<u8> {
        let [method, target, _] = &self.start;
        let Some(at) = target.windows(3).position(|three| three == b"://").filter(|_| target[0] != b'/') else {
            return target.clone();
        };
        let rest = &target[at + 3..];
        match rest.iter().position(|byte| matches!(byte, b'/' | b'?')) {
            Some(at) if rest[at] == b'/' => rest[at..].to_vec(),
            Some(at) => [b"/", &rest[at..]].concat(),
            None if method == b"OPTIONS" => b"*".to_vec(),
            None => b"/".to_vec(),
        }
    }
}

/// The request that `bytes` begin with; none as long as its head is not whole.
pub(crate) fn request(bytes: &[u8]) -> Result<Option<Message>, String> {
    let Some(mut message) = request_head(bytes)? else { return Ok(None) };
    fill(bytes, &mut message, false)?;
    Ok(Some(message))
}

/// The request that `bytes` begin with, as far as it is well formed; none if its head is not.
pub(crate) fn request_so_far(bytes: &[u8]) -> Option<Message> {
    let mut message = request_head(bytes).ok()??;
    // What has come before the fault stays.
    let _ = fill(bytes, &mut message, false);
    Some(message)
}

fn request_head(bytes: &[u8]) -> Result<Option<Message>, String> {
    let Some(Head { line, fields, length }) = head(bytes)? else { return Ok(None) };
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [method, target, version] = words[..] else {
        return Err("the request line does not have three words".to_owned());
    };
    demand(is_token(method), "the method is no token")?;
    demand(is_target(method, target), "the target has no form that it can have")?;
    let is_old = match version.strip_prefix(b"HTTP/1.") {
        Some([minor @ b'0'..=b'9']) => *minor == b'0',
        _ => return Err("the version is none of HTTP/1".to_owned()),
    };
    let hosts = values(&fields, "host").count();
    demand(hosts == 1 || hosts == 0 && is_old, "it does not have one Host")?;
    demand(values(&fields, "host").all(is_authority), "its Host is no host")?;
    let framing = match (one_length(&fields)?, is_chunked(&fields)?) {
        (_, true) if is_old => return Err("chunks in HTTP/1.0".to_owned()),
        (Some(_), true) => return Err("two ways to tell the length".to_owned()),
        (None, true) => Framing::Chunked,
        (Some(length), false) => Framing::Length(length),
        (None, false) => Framing::None,
    };
    Ok(Some(Message::new([method, target, version], fields, framing, length)))
}

/// The answer that `bytes` begin with; none as long as its head is not whole. `to_head`: it answers a HEAD request.
/// `is_closed`: no more comes.
pub(crate) fn response(bytes: &[u8], to_head: bool, is_closed: bool) -> Result<Option<Message>, String> {
    let Some(mut head) = response_head(bytes)? else { return Ok(None) };
    let Message { start: [_, status, _], fields, .. } = &head;
    let has_no_length = status.starts_with(b"1") || status == b"204";
    head.framing = match (one_length(fields)?, is_chunked(fields)?) {
        (Some(_), true) => return Err("two ways to tell the length".to_owned()),
        (None, false) if has_no_length => Framing::None,
        _ if has_no_length => return Err("a length where there never is a body".to_owned()),
        _ if to_head || status == b"304" => Framing::None,
        (None, true) => Framing::Chunked,
        (Some(length), false) => Framing::Length(length),
        (None, false) => Framing::Close,
    };
    fill(bytes, &mut head, is_closed)?;
    Ok(Some(head))
}

/// Status line and fields of an answer; how its body is delimited is not looked at.
pub(crate) fn response_head(bytes: &[u8]) -> Result<Option<Message>, String> {
    let Some(Head { line, fields, length }) = head(bytes)? else { return Ok(None) };
    let rest = line.strip_prefix(b"HTTP/1.").ok_or("the version is none of HTTP/1")?;
    let ([minor @ b'0'..=b'9', b' ', status @ ..], Some(_)) = (rest, rest.get(4)) else {
        return Err("the status line is none".to_owned());
    };
    let (status, reason) = status.split_at(3);
    demand(status.iter().all(u8::is_ascii_digit) && status[0] != b'0', "the status is none")?;
    demand(reason.is_empty() || reason[0] == b' ' && is_text(reason), "the reason is none")?;
    let version = [b"HTTP/1.", &[*minor][..]].concat();
    Ok(Some(Message::new([&version, status, reason], fields, Framing::None, length)))
}

impl Message {
    fn new(start: [&[u8]; 3], fields: Vec<Field>, framing: Framing, length: usize) -> Self {
        let start = start.map(<[u8]>::to_vec);
        let (body, trailers) = (Vec::new(), Vec::new());
        Self { start, fields, framing, body, trailers, length, is_whole: false, has_extensions: false }
    }
}

struct Head<'a> {
    line: &'a [u8],
    fields: Vec<Field>,
    /// Of both, with the empty line.
    length: usize,
}

fn head(bytes: &[u8]) -> Result<Option<Head<'_>>, String> {
    let Some((line, length)) = line(bytes)? else { return Ok(None) };
    let Some((fields, more)) = section(&bytes[length..])? else { return Ok(None) };
    Ok(Some(Head { line, fields, length: length + more }))
}

/// The lines up to an empty one, as fields.
fn section(bytes: &[u8]) -> Result<Option<(Vec<Field>, usize)>, String> {
    let (mut lines, mut at) = (Vec::new(), 0);
    loop {
        let Some((line, length)) = line(&bytes[at..])? else { return Ok(None) };
        at += length;
        if line.is_empty() {
            return Ok(Some((lines.into_iter().map(field).collect::<Result<_, _>>()?, at)));
        }
        lines.push(line);
    }
}

/// One line without its end, and its length with it.
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, String> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let line = bytes[..end].strip_suffix(b"\r").ok_or("a line ends in LF alone")?;
    Ok(Some((line, end + 1)))
}

fn field(line: &[u8]) -> Result<Field, String> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or("a field without a colon")?;
    let (name, mut value) = (&line[..colon], &line[colon + 1..]);
    demand(is_token(name), "a field's name is no token")?;
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    demand(is_text(value), "a field's value holds a control character")?;
    Ok((name.to_ascii_lowercase(), value.to_vec()))
}

/// Reads the body that follows a head.
fn fill(bytes: &[u8], message: &mut Message, is_closed: bool) -> Result<(), String> {
    let rest = &bytes[message.length..];
    match message.framing {
        Framing::None => message.is_whole = true,
        Framing::Length(length) => {
            let here = usize::try_from(length).map_or(rest.len(), |length| length.min(rest.len()));
            message.body = rest[..here].to_vec();
            (message.is_whole, message.length) = (here as u64 == length, message.length + here);
        }
        Framing::Chunked => chunks(rest, message)?,
        Framing::Close => {
            message.body = rest.to_vec();
            (message.is_whole, message.length) = (is_closed, bytes.len());
        }
    }
    Ok(())
}

/// RFC 9112 §7.1.
fn chunks(mut rest: &[u8], message: &mut Message) -> Result<(), String> {
    // Until its end is found, all that has come is of it.
    message.length += rest.len();
    loop {
        let Some((line, taken)) = line(rest)? else { return Ok(()) };
        rest = &rest[taken..];
        let digits = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
        let after = &line[digits..];
        demand((1..=16).contains(&digits), "a chunk's size is no number")?;
        let begins = after.iter().find(|byte| !matches!(byte, b' ' | b'\t'));
        demand(
            begins.is_none_or(|byte| *byte == b';') && is_text(after),
            "a chunk's size is followed by something else",
        )?;
        message.has_extensions |= !after.is_empty();
        let size = u64::from_str_radix(&String::from_utf8_lossy(&line[..digits]), 16).map_err(|e| e.to_string())?;
        if size == 0 {
            let Some((trailers, taken)) = section(rest)? else { return Ok(()) };
            message.trailers = trailers;
            message.is_whole = true;
            message.length -= rest.len() - taken;
            return Ok(());
        }
        let here = usize::try_from(size).map_or(rest.len(), |size| size.min(rest.len()));
        message.body.extend_from_slice(&rest[..here]);
        rest = &rest[here..];
        if (here as u64) < size || rest.len() < 2 {
            return Ok(());
        }
        rest = rest.strip_prefix(b"\r\n").ok_or("a chunk does not end where it should")?;
    }
}

fn one_length(fields: &[Field]) -> Result<Option<u64>, String> {
    let all: Vec<_> = values(fields, "content-length").collect();
    match all[..] {
        [] => Ok(None),
        [digits] if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
            String::from_utf8_lossy(digits).parse().map(Some).map_err(|_| "a length that nobody can count".to_owned())
        }
        _ => Err("Content-Length is not one number".to_owned()),
    }
}

fn is_chunked(fields: &[Field]) -> Result<bool, String> {
    let all: Vec<_> = values(fields, "transfer-encoding").collect();
    match all[..] {
        [] => Ok(false),
        [coding] if coding.eq_ignore_ascii_case(b"chunked") => Ok(true),
        _ => Err("Transfer-Encoding is not just chunked".to_owned()),
    }
}

fn values<'a>(fields: &'a [Field], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().filter(move |(known, _)| known == name.as_bytes()).map(|(_, value)| &value[..])
}

/// Bytes beyond ASCII are forgiven in a target: people write them, and there is one way to read them.
fn is_target(method: &[u8], target: &[u8]) -> bool {
    let is_visible = target.iter().all(|byte| *byte > b' ' && *byte != 0x7f && *byte != b'#');
    let lower = target.to_ascii_lowercase();
    let url = lower.strip_prefix(b"http://").or_else(|| lower.strip_prefix(b"https://"));
    is_visible
        && match target {
            _ if method == b"CONNECT" => is_authority(target),
            [b'/', ..] => true,
            b"*" => method == b"OPTIONS",
            _ => {
                url.is_some_and(|url| is_authority(url.split(|byte| matches!(byte, b'/' | b'?')).next().unwrap_or(url)))
            }
        }
}

/// A host, perhaps with a port, and nobody's name in front of it.
fn is_authority(text: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~[]:".contains(byte);
    !matches!(text, [] | [b':', ..]) && text.iter().all(is_allowed)
}

/// RFC 9110 §5.6.2.
fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

/// No control character but HTAB.
fn is_text(text: &[u8]) -> bool {
    text.iter().all(|byte| *byte == b'\t' || *byte >= b' ' && *byte != 0x7f)
}

fn demand(is_met: bool, fault: &str) -> Result<(), String> {
    if is_met { Ok(()) } else { Err(fault.to_owned()) }
}
