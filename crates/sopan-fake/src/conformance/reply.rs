//! Answers read strictly: whether what a client gets can be read in one way only (RFC 9112).
//!
//! The counterpart of the scripted upstream's reader of requests: nothing malformed is refused, every departure is noted
//! in words, and reading goes on as long as it is clear where the answer ends. Pure: bytes in, values out.

/// How the other side ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// In order, with FIN.
    Closed,
    /// Broken, with RST.
    Reset,
}

/// What kind of request an answer belongs to, which decides whether a body follows its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Any method but HEAD.
    Plain,
    /// HEAD: no body follows, whatever the fields say.
    Head,
}

/// One answer, with the interim ones before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// The interim answers (1xx but 101) that came before, each as status and fields.
    pub interim: Vec<(u16, Fields)>,
    /// The status; 0 where none can be read.
    pub status: u16,
    /// The fields in their order, names as sent, values without the white space around them.
    pub fields: Fields,
    /// The content, without the chunked coding.
    pub body: Vec<u8>,
    /// The fields after a chunked body.
    pub trailers: Fields,
    /// Whether it came to the end that its own framing announces.
    pub is_whole: bool,
    /// Whether it was given up because nothing more came, neither its end nor the connection's.
    pub hangs: bool,
    /// Every way in which it departs from RFC 9112, in words; empty for a clean one.
    pub unclean: Vec<String>,
}

/// Names and values of field lines, as bytes since a value may hold any above 0x7F.
pub type Fields = Vec<(String, Vec<u8>)>;

/// How long a body is.
enum Framing {
    None,
    Length(u64),
    Chunked,
    ToTheEnd,
}

impl Reply {
    /// The answer at the front of these bytes, and how many of them it takes. None as long as more must come: an answer
    /// that is cut is given only once `ended` says that nothing comes any more, or at its first fault, and one without a
    /// whole head never.
    pub fn read(bytes: &[u8], asked: Asked, ended: Option<Ended>) -> Option<(Self, usize)> {
        let mut reply = Self::default();
        let mut used = 0;
        loop {
            let head = &bytes[used..];
            let length = find(head, b"\r\n\r\n")? + 4;
            reply.read_head(&head[..length]);
            used += length;
            let is_interim = (100..200).contains(&reply.status) && reply.status != 101;
            if !is_interim || !reply.unclean.is_empty() {
                break;
            }
            let fields = std::mem::take(&mut reply.fields);
            reply.interim.push((reply.status, fields));
        }
        let taken = match reply.framing(asked) {
            Framing::None => Some(0),
            Framing::Length(length) => reply.read_length(&bytes[used..], length),
            Framing::Chunked => reply.read_chunks(&bytes[used..]),
            Framing::ToTheEnd => (ended == Some(Ended::Closed)).then(|| {
                reply.body = bytes[used..].to_vec();
                bytes.len() - used
            }),
        };
        reply.is_whole = taken.is_some() && reply.unclean.is_empty();
        match (taken, ended) {
            (Some(taken), _) => Some((reply, used + taken)),
            // Who trusts nobody reads no further than the first fault.
            (None, None) if reply.unclean.is_empty() => None,
            (None, _) => Some((reply, bytes.len())),
        }
    }

    /// The values of all fields of that name, in their order. Names are compared without regard to case.
    pub fn fields_named<'a>(&'a self, name: &str) -> Vec<&'a [u8]> {
        named(&self.fields, name)
    }

    fn note(&mut self, reason: impl Into<String>) {
        self.unclean.push(reason.into());
    }

    /// Reads a head with its empty line.
    fn read_head(&mut self, head: &[u8]) {
        let mut lines = head[..head.len() - 4].split(|byte| *byte == b'\n').peekable();
        let mut is_first = true;
        while let Some(line) = lines.next() {
            let line = match (line.strip_suffix(b"\r"), lines.peek()) {
                (Some(line), Some(_)) => line,
                (_, None) => line,
                (None, Some(_)) => {
                    self.note("a line that ends in a bare LF");
                    line
                }
            };
            if std::mem::take(&mut is_first) {
                self.read_status_line(line);
            } else if let Some(field) = read_field(line, &mut self.unclean) {
                self.fields.push(field);
            }
        }
    }

    /// RFC 9112 §4: the reason may be empty, the space before it may not be missing.
    fn read_status_line(&mut self, line: &[u8]) {
        self.status = 0;
        let is_clean = matches!(line, [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0' | b'1', b' ', code @ .., ]
            if matches!(code, [a, b, c, b' ', reason @ ..] if [a, b, c].iter().all(|d| d.is_ascii_digit())
                && reason.iter().all(|byte| is_text(*byte))));
        let digits = line.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
        self.status = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
        if !is_clean || self.status < 100 {
            self.note(format!("a bad status line: {:?}", String::from_utf8_lossy(line)));
        }
    }

    /// RFC 9112 §6.3, and what RFC 9110 §8.6 and RFC 9112 §6.1 say that a sender must not do.
    fn framing(&mut self, asked: Asked) -> Framing {
        let lengths: Vec<_> = self.fields_named("content-length").iter().map(|value| value.to_vec()).collect();
        let codings: Vec<_> = self.fields_named("transfer-encoding").iter().map(|value| value.to_vec()).collect();
        let interim = std::mem::take(&mut self.interim);
        for (status, fields) in &interim {
            if !named(fields, "content-length").is_empty() || !named(fields, "transfer-encoding").is_empty() {
                self.note(format!("a {status} with a framing field"));
            }
        }
        self.interim = interim;
        if !lengths.is_empty() && !codings.is_empty() {
            self.note("both Content-Length and Transfer-Encoding");
        }
        let has_framing = !lengths.is_empty() || !codings.is_empty();
        match self.status {
            101 | 204 if has_framing => self.note(format!("a {} with a framing field", self.status)),
            _ => {}
        }
        if !codings.is_empty() && !matches!(&codings[..], [one] if one.eq_ignore_ascii_case(b"chunked")) {
            self.note("a Transfer-Encoding other than just chunked");
        }
        let length = match &lengths[..] {
            [] => None,
            [one] if !one.is_empty() && one.iter().all(u8::is_ascii_digit) => {
                std::str::from_utf8(one).ok().and_then(|digits| digits.parse().ok())
            }
            _ => None,
        };
        if !lengths.is_empty() && length.is_none() {
            self.note("a Content-Length that is not one number");
        }
        match length {
            _ if asked == Asked::Head || matches!(self.status, 101 | 204 | 304) => Framing::None,
            _ if !codings.is_empty() => Framing::Chunked,
            Some(length) => Framing::Length(length),
            None => Framing::ToTheEnd,
        }
    }

    /// How many bytes the body takes; none if there are fewer.
    fn read_length(&mut self, bytes: &[u8], length: u64) -> Option<usize> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.body = bytes[..bytes.len().min(length)].to_vec();
        (bytes.len() >= length).then_some(length)
    }

    /// The same for the chunked coding (RFC 9112 §7.1). What breaks its grammar is noted, and the rest is not read.
    fn read_chunks(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            let line = until_line_end(&bytes[at..])?;
            at += line.len() + 2;
            let Some(size) = chunk_size(line) else {
                self.note(format!("a bad chunk size: {:?}", String::from_utf8_lossy(line)));
                return None;
            };
            if size == 0 {
                break;
            }
            let content = &bytes[at..];
            self.body.extend_from_slice(&content[..content.len().min(size)]);
            let end = content.get(size..size.checked_add(2)?)?;
            if end != b"\r\n" {
                self.note("a chunk that does not end where its size says");
                return None;
            }
            at += size + 2;
        }
        loop {
            let line = until_line_end(&bytes[at..])?;
            at += line.len() + 2;
            if line.is_empty() {
                return Some(at);
            }
            if let Some(field) = read_field(line, &mut self.unclean) {
                self.trailers.push(field);
            }
        }
    }
}

/// The values of all of these that have that name.
pub(super) fn named<'a>(fields: &'a Fields, name: &str) -> Vec<&'a [u8]> {
    fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &value[..]).collect()
}

/// Where a piece begins.
pub(super) fn find(bytes: &[u8], piece: &[u8]) -> Option<usize> {
    bytes.windows(piece.len()).position(|window| window == piece)
}

fn until_line_end(bytes: &[u8]) -> Option<&[u8]> {
    find(bytes, b"\r\n").map(|end| &bytes[..end])
}

/// A chunk's size without its extensions; none where it is not written as RFC 9112 §7.1 says.
fn chunk_size(line: &[u8]) -> Option<usize> {
    let size = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
    let is_clean = !size.is_empty() && size.iter().all(u8::is_ascii_hexdigit) && line.iter().all(|byte| is_text(*byte));
    std::str::from_utf8(size).ok().filter(|_| is_clean).and_then(|size| usize::from_str_radix(size, 16).ok())
}

fn read_field(line: &[u8], unclean: &mut Vec<String>) -> Option<(String, Vec<u8>)> {
    let shown = || String::from_utf8_lossy(line);
    if line.starts_with(b" ") || line.starts_with(b"\t") {
        unclean.push(format!("a folded field line: {:?}", shown()));
        return None;
    }
    let Some(colon) = line.iter().position(|byte| *byte == b':') else {
        unclean.push(format!("a field line without a colon: {:?}", shown()));
        return None;
    };
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
        unclean.push(format!("a field name that is no token: {:?}", shown()));
    }
    if !value.iter().all(|byte| is_text(*byte)) {
        unclean.push(format!("a control character in a field: {:?}", shown()));
    }
    let start = value.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !matches!(byte, b' ' | b'\t')).map_or(start, |last| last + 1);
    Some((String::from_utf8_lossy(name).trim().to_owned(), value[start..end].to_vec()))
}

/// RFC 9110 §5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// RFC 9110 §5.5: what a value may hold.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str = "HTTP/1.1 200 OK\r\n";

    /// Status, body, whether it is whole, how many bytes are left, and what is noted.
    #[track_caller]
    fn check(text: &str, ended: Option<Ended>, expected: Option<(u16, &str, bool, usize)>, unclean: &[&str]) {
        let read = Reply::read(text.as_bytes(), Asked::Plain, ended);
        let seen = read.as_ref().map(|(reply, used)| {
            (reply.status, std::str::from_utf8(&reply.body).unwrap(), reply.is_whole, text.len() - used)
        });
        assert_eq!(seen, expected, "{text:?}");
        assert_eq!(read.map(|(reply, _)| reply.unclean).unwrap_or_default(), unclean, "{text:?}");
    }

    #[test]
    fn an_answer_ends_where_its_framing_says() {
        check("HTTP/1.1 204 \r\n\r\nx", None, Some((204, "", true, 1)), &[]);
        check(&format!("{OK}Content-Length: 2\r\n\r\nabc"), None, Some((200, "ab", true, 1)), &[]);
        check(&format!("{OK}Content-Length: 2\r\n\r\na"), None, None, &[]);
        check(&format!("{OK}Content-Length: 2\r\n\r\na"), Some(Ended::Closed), Some((200, "a", false, 0)), &[]);
        let chunked = format!("{OK}Transfer-Encoding: chunked\r\n\r\n");
        check(&format!("{chunked}3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\nz"), None, Some((200, "abc", true, 1)), &[]);
        check(&format!("{chunked}3\r\nabc\r\n0\r\n"), None, None, &[]);
        check(&format!("{OK}\r\nabc"), None, None, &[]);
        check(&format!("{OK}\r\nabc"), Some(Ended::Closed), Some((200, "abc", true, 0)), &[]);
        check(&format!("{OK}\r\nabc"), Some(Ended::Reset), Some((200, "", false, 0)), &[]);
        check("HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 204 No\r\n\r\n", None, Some((204, "", true, 0)), &[]);
        check("HTTP/1.1 200 OK\r\nA: b", Some(Ended::Closed), None, &[]);
        let head = Reply::read(format!("{OK}Content-Length: 9\r\n\r\n").as_bytes(), Asked::Head, None);
        assert!(head.is_some_and(|(reply, _)| reply.is_whole));
    }

    #[test]
    fn every_departure_is_noted() {
        let empty = "Content-Length: 0\r\n\r\n";
        for (text, reason) in [
            (format!("HTTP/2.0 200 OK\r\n{empty}"), "a bad status line: \"HTTP/2.0 200 OK\""),
            (format!("HTTP/1.1 200\r\n{empty}"), "a bad status line: \"HTTP/1.1 200\""),
            (format!("HTTP/1.1 099 OK\r\n{empty}"), "a bad status line: \"HTTP/1.1 099 OK\""),
            (format!("{OK}A: b\n{empty}"), "a line that ends in a bare LF"),
            (format!("{OK}A : b\r\n{empty}"), "a field name that is no token: \"A : b\""),
            (format!("{OK}A: b\r\n c\r\n{empty}"), "a folded field line: \" c\""),
            (format!("{OK}A\r\n{empty}"), "a field line without a colon: \"A\""),
            (format!("{OK}A: b\0\r\n{empty}"), "a control character in a field: \"A: b\\0\""),
            (format!("{OK}A: b\rc\r\n{empty}"), "a control character in a field: \"A: b\\rc\""),
        ] {
            check(&text, None, Some((text[9..12].parse().unwrap(), "", false, 0)), &[reason]);
        }
        for (fields, reason) in [
            ("Content-Length: 0\r\nTransfer-Encoding: chunked", "both Content-Length and Transfer-Encoding"),
            ("Transfer-Encoding: gzip", "a Transfer-Encoding other than just chunked"),
        ] {
            check(&format!("{OK}{fields}\r\n\r\n0\r\n\r\n"), None, Some((200, "", false, 0)), &[reason]);
        }
        let not_a_number = ["a Content-Length that is not one number"];
        check(
            &format!("{OK}Content-Length: +1\r\n\r\n"),
            Some(Ended::Closed),
            Some((200, "", false, 0)),
            &not_a_number,
        );
        let no_content = ["a 204 with a framing field"];
        check(&format!("HTTP/1.1 204 No\r\n{empty}"), None, Some((204, "", false, 0)), &no_content);
        let chunk = ["a bad chunk size: \"+1\""];
        let text = format!("{OK}Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n");
        check(&text, Some(Ended::Closed), Some((200, "", false, 0)), &chunk);
        check(&text, None, Some((200, "", false, 0)), &chunk);
    }
}
