//! HTTP/1.1 requests read strictly: a second opinion on what was sent.
//!
//! Nothing malformed is refused here, since a test wants to see it: every departure from RFC 9112 is noted in words,
//! and reading goes on as long as it is clear where the request ends. Pure: bytes in, values out.

/// A longer head is not waited for to its end.
pub(crate) const HEAD_BYTES_MAX: usize = 1024 * 1024;

/// A longer line of chunk size, extensions or trailers is no line that anybody means.
const CHUNK_LINE_BYTES_MAX: usize = 64 * 1024;

/// How a note begins that somebody's raw UTF-8 is in a target: no URI has it, but it is passed on as it came, and nobody
/// can mistake where the target ends.
pub(crate) const BEYOND_ASCII: &str = "a target beyond ASCII: ";

/// A request head, and what is wrong with it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) version: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) framing: Framing,
    pub(crate) unclean: Vec<String>,
}

/// How long the body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Framing {
    #[default]
    Empty,
    Length(u64),
    Chunked,
    /// The fields contradict each other or say nothing readable: nobody can know where the request ends.
    Unknown,
}

/// How many bytes the head takes, its empty line included; none as long as that line has not come. A line may end in a
/// bare LF here, which [`parse_head`] then notes.
pub(crate) fn head_length(bytes: &[u8]) -> Option<usize> {
    let mut line_start = 0;
    let mut has_content = false;
    for (i, byte) in bytes.iter().enumerate() {
        if *byte != b'\n' {
            continue;
        }
        let line = &bytes[line_start..i];
        let is_empty = line.is_empty() || line == b"\r";
        // Empty lines before the request line do not end a head; RFC 9112 §2.2 lets a server skip them.
        if is_empty && has_content {
            return Some(i + 1);
        }
        has_content |= !is_empty;
        line_start = i + 1;
    }
    None
}

/// Reads a head of [`head_length`] bytes.
pub(crate) fn parse_head(bytes: &[u8]) -> Head {
    let mut head = Head::default();
    let mut seen_request_line = false;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let line = head.without_line_end(line);
        match (line, seen_request_line) {
            (b"", false) => head.note("an empty line before the request line"),
            (b"", true) => break,
            (_, false) => {
                head.read_request_line(line);
                seen_request_line = true;
            }
            (_, true) => head.read_field(line),
        }
    }
    head.judge_host();
    head.framing = head.judge_framing();
    head
}

impl Head {
    fn note(&mut self, reason: impl Into<String>) {
        self.unclean.push(reason.into());
    }

    fn without_line_end<'a>(&mut self, line: &'a [u8]) -> &'a [u8] {
        match line.strip_suffix(b"\r\n") {
            Some(line) => line,
            None => {
                self.note("a line that ends in a bare LF");
                line.strip_suffix(b"\n").unwrap_or(line)
            }
        }
    }

    fn read_request_line(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let parts: Vec<_> = text.split(' ').collect();
        let [method, target, version] = parts[..] else {
            self.note(format!("a request line that is not method, target and version: {text:?}"));
            let mut words = text.split_ascii_whitespace().map(str::to_owned);
            (self.method, self.target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            return;
        };
        if !is_token(method) {
            self.note(format!("a method that is no token: {method:?}"));
        }
        if target.is_empty() || target.bytes().any(|byte| byte.is_ascii() && !byte.is_ascii_graphic()) {
            self.note(format!("a target that is empty or has a control character: {target:?}"));
        } else if !target.is_ascii() {
            self.note(format!("{BEYOND_ASCII}{target:?}"));
        }
        if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
            self.note(format!("a version that is neither HTTP/1.1 nor HTTP/1.0: {version:?}"));
        }
        (self.method, self.target, self.version) = (method.to_owned(), target.to_owned(), version.to_owned());
    }

    fn read_field(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        if text.starts_with([' ', '\t']) {
            return self.note(format!("a folded field line: {text:?}"));
        }
        let Some((name, value)) = text.split_once(':') else {
            return self.note(format!("a field line without a colon: {text:?}"));
        };
        if !is_token(name) {
            self.note(format!("a field name that is no token: {name:?}"));
        }
        let value = value.trim_matches([' ', '\t']);
        if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            self.note(format!("a control character in the field {name:?}"));
        }
        // White space around a malformed name must not hide the field from the judgement of framing.
        self.fields.push((name.trim().to_owned(), value.to_owned()));
    }

    fn judge_host(&mut self) {
        let hosts = values(&self.fields, "host").count();
        if hosts > 1 || (hosts == 0 && self.version == "HTTP/1.1") {
            self.note(format!("{hosts} Host fields where one is required"));
        }
    }

    /// RFC 9112 §6.3, and what it says a sender must not do.
    fn judge_framing(&mut self) -> Framing {
        let lengths: Vec<_> = values(&self.fields, "content-length").map(str::to_owned).collect();
        let codings: Vec<_> = values(&self.fields, "transfer-encoding").map(str::to_owned).collect();
        if !codings.is_empty() {
            if !lengths.is_empty() {
                self.note("both Content-Length and Transfer-Encoding");
            }
            if self.version != "HTTP/1.1" {
                self.note("Transfer-Encoding in a message that is not HTTP/1.1");
            }
            if codings.len() == 1 && codings[0].eq_ignore_ascii_case("chunked") {
                return Framing::Chunked;
            }
            self.note(format!("a Transfer-Encoding other than just chunked: {codings:?}"));
            return Framing::Unknown;
        }
        let length = match &lengths[..] {
            [] => return Framing::Empty,
            [length] if length.bytes().all(|byte| byte.is_ascii_digit()) => length.parse().ok(),
            _ => None,
        };
        length.map_or_else(
            || {
                self.note(format!("a Content-Length that is not one number: {lengths:?}"));
                Framing::Unknown
            },
            Framing::Length,
        )
    }
}

/// The values of all fields of that name, in their order. Names are compared without regard to case.
pub(crate) fn values<'a>(fields: &'a [(String, String)], name: &'a str) -> impl Iterator<Item = &'a str> {
    fields.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// RFC 9110 §5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Reads one body as its bytes arrive.
#[derive(Debug)]
pub(crate) struct BodyReader {
    state: BodyState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyState {
    /// So many bytes of a body with a length are to come.
    Rest(u64),
    ChunkSize,
    /// So many bytes of a chunk are to come.
    Chunk(u64),
    ChunkEnd,
    Trailers,
    Done,
    Broken,
}

/// What one step of reading gave.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    /// How many bytes it took from the front; zero means that more must come first.
    pub(crate) taken: usize,
    /// They are content, and not the chunked coding's own.
    pub(crate) is_content: bool,
    /// A trailer among them.
    pub(crate) trailer: Option<(String, String)>,
    /// What is wrong with them.
    pub(crate) unclean: Option<String>,
}

impl BodyReader {
    pub(crate) fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Empty | Framing::Length(0) => BodyState::Done,
            Framing::Length(length) => BodyState::Rest(length),
            Framing::Chunked => BodyState::ChunkSize,
            Framing::Unknown => BodyState::Broken,
        };
        Self { state }
    }

    /// The body is here to its last byte.
    pub(crate) fn is_done(&self) -> bool {
        self.state == BodyState::Done
    }

    /// Nobody can know where the body ends.
    pub(crate) fn is_broken(&self) -> bool {
        self.state == BodyState::Broken
    }

    /// Takes one step into `bytes`; to be called again until it takes nothing.
    pub(crate) fn step(&mut self, bytes: &[u8]) -> Piece {
        match self.state {
            BodyState::Rest(rest) => self.step_content(bytes, rest, BodyState::Rest, BodyState::Done),
            BodyState::Chunk(rest) => self.step_content(bytes, rest, BodyState::Chunk, BodyState::ChunkEnd),
            BodyState::ChunkSize | BodyState::ChunkEnd | BodyState::Trailers => self.step_line(bytes),
            BodyState::Done | BodyState::Broken => Piece::default(),
        }
    }

    fn step_content(&mut self, bytes: &[u8], rest: u64, more: fn(u64) -> BodyState, end: BodyState) -> Piece {
        let taken = bytes.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        let left = rest - taken as u64;
        self.state = if left == 0 { end } else { more(left) };
        Piece { taken, is_content: true, ..Piece::default() }
    }

    fn step_line(&mut self, bytes: &[u8]) -> Piece {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            return if bytes.len() > CHUNK_LINE_BYTES_MAX {
                self.broken(0, "a line without end")
            } else {
                Piece::default()
            };
        };
        let taken = end + 1;
        let Some(line) = bytes[..taken].strip_suffix(b"\r\n") else {
            return self.broken(taken, "a line of the chunked body that ends in a bare LF");
        };
        match self.state {
            BodyState::ChunkSize => match chunk_size(line) {
                Some(0) => self.state = BodyState::Trailers,
                Some(size) => self.state = BodyState::Chunk(size),
                None => return self.broken(taken, &format!("a bad chunk size: {:?}", String::from_utf8_lossy(line))),
            },
            BodyState::ChunkEnd if line.is_empty() => self.state = BodyState::ChunkSize,
            BodyState::ChunkEnd => return self.broken(taken, "a chunk that is longer than its size"),
            _ if line.is_empty() => self.state = BodyState::Done,
            _ => return trailer(taken, line),
        }
        Piece { taken, ..Piece::default() }
    }

    fn broken(&mut self, taken: usize, reason: &str) -> Piece {
        self.state = BodyState::Broken;
        Piece { taken, unclean: Some(reason.to_owned()), ..Piece::default() }
    }
}

fn trailer(taken: usize, line: &[u8]) -> Piece {
    let mut read = Head::default();
    read.read_field(line);
    Piece { taken, trailer: read.fields.pop(), unclean: read.unclean.pop(), ..Piece::default() }
}

/// The size before any extension: hexadecimal digits and nothing else.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line).ok()?;
    let digits = text.split_once(';').map_or(text, |(size, _)| size).trim_end_matches([' ', '\t']);
    let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex { u64::from_str_radix(digits, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is noted about a head, and how its body is framed.
    #[track_caller]
    fn check_head(text: &str, unclean: &[&str], framing: Framing) {
        assert_eq!(head_length(text.as_bytes()), Some(text.len()), "where the head ends");
        let head = parse_head(text.as_bytes());
        assert_eq!((head.unclean.as_slice(), head.framing), (owned(unclean).as_slice(), framing));
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_clean_head_is_read_field_by_field() {
        let head = parse_head(
            b"PUT /a?b=1 HTTP/1.1\r\nHost: u.test\r\nX-Empty:\r\nx-two: \t a b \r\nContent-Length: 3\r\n\r\n",
        );
        let fields = [("Host", "u.test"), ("X-Empty", ""), ("x-two", "a b"), ("Content-Length", "3")];
        let fields: Vec<_> = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let expected = Head {
            method: "PUT".to_owned(),
            target: "/a?b=1".to_owned(),
            version: "HTTP/1.1".to_owned(),
            fields,
            framing: Framing::Length(3),
            unclean: vec![],
        };
        assert_eq!(head, expected);
    }

    #[test]
    fn a_head_ends_at_its_empty_line_and_not_before() {
        for (text, length) in [
            ("GET / HTTP/1.1\r\nHost: u\r\n\r\nGET /next", Some(27)),
            ("GET / HTTP/1.1\r\nHost: u\r\n\r", None),
            ("GET / HTTP/1.1\r\nHost: u\r\n", None),
            ("\r\n", None),
            ("", None),
            ("GET / HTTP/1.1\n\n", Some(16)),
        ] {
            assert_eq!(head_length(text.as_bytes()), length, "{text:?}");
        }
    }

    #[test]
    fn every_departure_in_a_head_is_noted() {
        let empty = Framing::Empty;
        check_head("GET / HTTP/1.1\r\nHost: u\r\n\r\n", &[], empty);
        check_head("GET / HTTP/1.0\r\n\r\n", &[], empty);
        check_head("\r\nGET / HTTP/1.0\r\n\r\n", &["an empty line before the request line"], empty);
        check_head("GET / HTTP/1.1\r\n\r\n", &["0 Host fields where one is required"], empty);
        check_head("GET / HTTP/1.1\r\nHost: u\r\nhost: u\r\n\r\n", &["2 Host fields where one is required"], empty);
        check_head("GET / HTTP/1.0\nA: b\r\n\r\n", &["a line that ends in a bare LF"], empty);
        check_head("GET / HTTP/1.0\r\nA: b\r\n c\r\n\r\n", &["a folded field line: \" c\""], empty);
        check_head("GET / HTTP/1.0\r\nA : b\r\n\r\n", &["a field name that is no token: \"A \""], empty);
        check_head("GET / HTTP/1.0\r\n: b\r\n\r\n", &["a field name that is no token: \"\""], empty);
        check_head("GET / HTTP/1.0\r\nA\r\n\r\n", &["a field line without a colon: \"A\""], empty);
        check_head("GET / HTTP/1.0\r\nA: b\rc\r\n\r\n", &["a control character in the field \"A\""], empty);
        check_head("GET / HTTP/1.0\r\nA: b\0\r\n\r\n", &["a control character in the field \"A\""], empty);
        check_head(
            "GET /a b HTTP/1.0\r\n\r\n",
            &["a request line that is not method, target and version: \"GET /a b HTTP/1.0\""],
            empty,
        );
        check_head("G(T / HTTP/1.0\r\n\r\n", &["a method that is no token: \"G(T\""], empty);
        check_head("GET /é HTTP/1.0\r\n\r\n", &["a target beyond ASCII: \"/é\""], empty);
        check_head("GET  HTTP/1.0\r\n\r\n", &["a target that is empty or has a control character: \"\""], empty);
        check_head("GET /\t HTTP/1.0\r\n\r\n", &["a target that is empty or has a control character: \"/\\t\""], empty);
        check_head("GET / HTTP/2.0\r\n\r\n", &["a version that is neither HTTP/1.1 nor HTTP/1.0: \"HTTP/2.0\""], empty);
    }

    #[test]
    fn framing_that_could_be_read_in_two_ways_is_noted() {
        let fields = |fields: &str| format!("POST / HTTP/1.1\r\nHost: u\r\n{fields}\r\n\r\n");
        let both = "both Content-Length and Transfer-Encoding";
        check_head(&fields("Content-Length: 7"), &[], Framing::Length(7));
        check_head(&fields("transfer-encoding: CHUNKED"), &[], Framing::Chunked);
        check_head(&fields("Content-Length: 0\r\nTransfer-Encoding: chunked"), &[both], Framing::Chunked);
        check_head(&fields("Transfer-Encoding: chunked\r\nContent-Length: 6"), &[both], Framing::Chunked);
        for (bad, reason) in [
            ("Content-Length: 5, 5", "a Content-Length that is not one number: [\"5, 5\"]"),
            ("Content-Length: +5", "a Content-Length that is not one number: [\"+5\"]"),
            ("Content-Length: ", "a Content-Length that is not one number: [\"\"]"),
            ("Content-Length: 5\r\nContent-Length: 5", "a Content-Length that is not one number: [\"5\", \"5\"]"),
            (
                "Content-Length: 18446744073709551616",
                "a Content-Length that is not one number: [\"18446744073709551616\"]",
            ),
            ("Transfer-Encoding: gzip, chunked", "a Transfer-Encoding other than just chunked: [\"gzip, chunked\"]"),
            ("Transfer-Encoding: identity", "a Transfer-Encoding other than just chunked: [\"identity\"]"),
        ] {
            check_head(&fields(bad), &[reason], Framing::Unknown);
        }
        check_head(
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            &["Transfer-Encoding in a message that is not HTTP/1.1"],
            Framing::Chunked,
        );
    }

    /// What is left, the content, the trailers and the notes, when the bytes come in pieces of every size.
    #[track_caller]
    fn check_body(
        framing: Framing,
        sent: &str,
        content: &str,
        left: &str,
        trailers: &[(&str, &str)],
        unclean: &[&str],
    ) {
        for size in 1..=sent.len() {
            let mut reader = BodyReader::new(framing);
            let (mut buffered, mut got) = (Vec::new(), Vec::new());
            let (mut got_trailers, mut notes) = (Vec::new(), Vec::new());
            for bytes in sent.as_bytes().chunks(size) {
                buffered.extend_from_slice(bytes);
                loop {
                    let piece = reader.step(&buffered);
                    got.extend_from_slice(if piece.is_content { &buffered[..piece.taken] } else { b"" });
                    got_trailers.extend(piece.trailer);
                    notes.extend(piece.unclean);
                    if piece.taken == 0 {
                        break;
                    }
                    buffered.drain(..piece.taken);
                }
            }
            let trailers: Vec<_> = trailers.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
            assert_eq!(String::from_utf8_lossy(&got), content, "pieces of {size}");
            assert_eq!(String::from_utf8_lossy(&buffered), left, "pieces of {size}");
            assert_eq!((got_trailers, notes), (trailers, owned(unclean)), "pieces of {size}");
            assert_eq!(reader.is_broken(), !unclean.is_empty() && !reader.is_done(), "pieces of {size}");
        }
    }

    #[test]
    fn a_body_ends_where_its_framing_says() {
        check_body(Framing::Length(4), "bodyGET", "body", "GET", &[], &[]);
        check_body(Framing::Empty, "GET", "", "GET", &[], &[]);
        check_body(
            Framing::Chunked,
            "3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\nGET",
            "abc0123456789",
            "GET",
            &[],
            &[],
        );
        check_body(Framing::Chunked, "0\r\nX-Sum: 7\r\n\r\n", "", "", &[("X-Sum", "7")], &[]);
    }

    #[test]
    fn a_chunked_body_that_breaks_the_grammar_is_not_read_further() {
        for (sent, content, left, reason) in [
            ("3\nabc", "", "abc", "a line of the chunked body that ends in a bare LF"),
            ("x\r\n", "", "", "a bad chunk size: \"x\""),
            ("\r\n", "", "", "a bad chunk size: \"\""),
            ("+3\r\nabc", "", "abc", "a bad chunk size: \"+3\""),
            ("3\r\nabcd\r\n", "abc", "", "a chunk that is longer than its size"),
            ("10000000000000000\r\n", "", "", "a bad chunk size: \"10000000000000000\""),
        ] {
            check_body(Framing::Chunked, sent, content, left, &[], &[reason]);
        }
    }
}
