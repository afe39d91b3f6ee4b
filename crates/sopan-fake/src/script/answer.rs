//! What a scripted upstream does with one request: a list of steps, and pleasant ways to write it.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;

use super::record::Request;

/// One thing that the upstream does. Steps are done in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Sends these bytes.
    Send(Bytes),
    /// Does nothing for so long, but notices a peer that goes, once the request's body is read.
    Sleep(Duration),
    /// Reads the request's body to its end.
    ReadBody,
    /// Reads until at least so many raw bytes of the body are here, or it ends.
    ReadBytes(usize),
    /// Ends the connection with FIN.
    Close,
    /// Ends the connection with RST. In-process connections know no RST: they are just dropped.
    Reset,
    /// Says no more and reads all that comes, until the peer goes.
    Hang,
    /// From here on this is no HTTP: writes down what comes and sends it back, until the peer has closed its half.
    Echo,
    /// Closes the sending half and goes on reading.
    Fin,
}

/// The answer to one request.
///
/// Made from a status ([`Answer::status`], [`Answer::json`], [`Answer::chunked`], [`Answer::events`]), from bytes
/// ([`Answer::raw`]) or from nothing ([`Answer::nothing`]), and continued by methods that each add a step. Unless it is
/// [`early`](Answer::early), the request's body is read first; nobody sends `100 Continue` unless the script does.
///
/// With a status the framing is right by itself: `Content-Length` is added unless a framing field is given, and a HEAD
/// request gets no body. `Connection: close` is kept. All else is sent as it is given, so that an answer can be wrong.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    early: bool,
    delay: Duration,
    head: Option<Head>,
    body: Bytes,
    steps: Vec<Step>,
    then: Vec<Self>,
}

#[derive(Debug, Clone)]
struct Head {
    status: u16,
    fields: Vec<(String, String)>,
}

impl Answer {
    /// No bytes at all; continue it with what happens instead: `Answer::nothing().close()`.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// These bytes as they are, head and all.
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self::nothing().send(bytes)
    }

    /// Just these steps.
    pub fn steps(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect(), ..Self::default() }
    }

    /// A head with that status and no fields, and an empty body.
    pub fn status(status: u16) -> Self {
        Self { head: Some(Head { status, fields: Vec::new() }), ..Self::default() }
    }

    /// A JSON body.
    pub fn json(status: u16, body: impl Into<Bytes>) -> Self {
        Self::status(status).header("Content-Type", "application/json").body(body)
    }

    /// A head that announces a chunked body; continue it with [`chunk`](Answer::chunk) and [`end`](Answer::end).
    pub fn chunked(status: u16) -> Self {
        Self::status(status).header("Transfer-Encoding", "chunked")
    }

    /// A head that announces server-sent events; continue it with [`event`](Answer::event), [`sleep`](Answer::sleep)
    /// and [`end`](Answer::end).
    pub fn events() -> Self {
        Self::chunked(200).header("Content-Type", "text/event-stream")
    }

    /// Adds a field to the head.
    ///
    /// # Panics
    /// Where the answer was made without a status and so has no head of its own.
    #[track_caller]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let head = self.head.as_mut().expect("a header belongs to an answer made from a status");
        head.fields.push((name.into(), value.into()));
        self
    }

    /// The body that goes out together with the head.
    ///
    /// # Panics
    /// Where the answer was made without a status; such a one sends bytes by [`send`](Answer::send).
    #[track_caller]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        assert!(self.head.is_some(), "a body belongs to an answer made from a status");
        self.body = body.into();
        self
    }

    /// Waits so long before the first byte of the answer, after the request's body is read.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Does not read the request's body first. What is still unread when all is done is read then, since the next
    /// request begins behind it.
    pub fn early(mut self) -> Self {
        self.early = true;
        self
    }

    /// Reads the request's body now; for an early answer.
    pub fn read_body(self) -> Self {
        self.step(Step::ReadBody)
    }

    /// Reads so many raw bytes of the request's body now; for an early answer.
    pub fn read_bytes(self, bytes: usize) -> Self {
        self.step(Step::ReadBytes(bytes))
    }

    /// Sends these bytes as they are.
    pub fn send(self, bytes: impl Into<Bytes>) -> Self {
        self.step(Step::Send(bytes.into()))
    }

    /// Sends one chunk. An empty one would be the end, so it sends nothing.
    pub fn chunk(self, content: impl AsRef<[u8]>) -> Self {
        let content = content.as_ref();
        if content.is_empty() {
            return self;
        }
        let mut chunk = format!("{:x}\r\n", content.len()).into_bytes();
        chunk.extend_from_slice(content);
        chunk.extend_from_slice(b"\r\n");
        self.send(chunk)
    }

    /// Sends one server-sent event with that data, as one chunk.
    pub fn event(self, data: &str) -> Self {
        let lines: String = data.split('\n').map(|line| format!("data: {line}\n")).collect();
        self.chunk(lines + "\n")
    }

    /// Sends the end of a chunked body.
    pub fn end(self) -> Self {
        self.send("0\r\n\r\n")
    }

    /// Does nothing for so long.
    pub fn sleep(self, time: Duration) -> Self {
        self.step(Step::Sleep(time))
    }

    /// Ends the connection with FIN.
    pub fn close(self) -> Self {
        self.step(Step::Close)
    }

    /// Ends the connection with RST.
    pub fn reset(self) -> Self {
        self.step(Step::Reset)
    }

    /// Says no more, until the peer goes.
    pub fn hang(self) -> Self {
        self.step(Step::Hang)
    }

    /// Sends back all that comes, until the peer has closed its half; for what follows a 101.
    pub fn echo(self) -> Self {
        self.step(Step::Echo)
    }

    /// Closes the sending half.
    pub fn fin(self) -> Self {
        self.step(Step::Fin)
    }

    /// Goes on with another answer, as after `100 Continue`. Methods called afterwards still mean the first one.
    pub fn then(mut self, next: Self) -> Self {
        self.then.push(next);
        self
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// All that is to be done for this request, in order.
    pub(crate) fn into_steps(self, request: &Request) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.early {
            steps.push(Step::ReadBody);
        }
        if !self.delay.is_zero() {
            steps.push(Step::Sleep(self.delay));
        }
        let closes = self.head.as_ref().is_some_and(Head::announces_close);
        if let Some(head) = self.head {
            steps.push(Step::Send(head.with_body(&self.body, request)));
        }
        steps.extend(self.steps);
        steps.extend(self.then.into_iter().flat_map(|next| next.into_steps(request)));
        if closes {
            steps.push(Step::Close);
        }
        steps
    }
}

impl Head {
    /// Head and body as one write, as most servers send a short answer.
    fn with_body(mut self, body: &Bytes, request: &Request) -> Bytes {
        let has_framing = self.has("Content-Length") || self.has("Transfer-Encoding");
        let never_has_body = self.status < 200 || self.status == 204 || self.status == 304;
        if !has_framing && !never_has_body {
            self.fields.push(("Content-Length".to_owned(), body.len().to_string()));
        }
        let reason = StatusCode::from_u16(self.status).ok().and_then(|status| status.canonical_reason());
        let mut out = format!("HTTP/1.1 {} {}\r\n", self.status, reason.unwrap_or_default());
        for (name, value) in &self.fields {
            out += &format!("{name}: {value}\r\n");
        }
        out += "\r\n";
        let mut out = out.into_bytes();
        if request.method != "HEAD" && !never_has_body {
            out.extend_from_slice(body);
        }
        out.into()
    }

    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    fn announces_close(&self) -> bool {
        let is_close = |value: &str| value.split(',').any(|option| option.trim().eq_ignore_ascii_case("close"));
        self.fields.iter().any(|(name, value)| name.eq_ignore_ascii_case("Connection") && is_close(value))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::super::wire::parse_head;
    use super::*;

    fn request(method: &str) -> Request {
        let raw = Bytes::from(format!("{method} / HTTP/1.1\r\nHost: u\r\n\r\n"));
        Request::new(1, 1, parse_head(&raw), raw, (Instant::now(), Instant::now()))
    }

    /// The steps after the body was read, bytes as text.
    #[track_caller]
    fn check(answer: Answer, method: &str, expected: &[Step]) {
        let steps = answer.into_steps(&request(method));
        assert_eq!(steps[0], Step::ReadBody);
        assert_eq!(&steps[1..], expected);
    }

    fn send(text: &'static str) -> Step {
        Step::Send(text.into())
    }

    #[test]
    fn an_answer_with_a_status_is_framed_by_itself() {
        check(
            Answer::status(429).header("Retry-After", "1"),
            "GET",
            &[send("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")],
        );
        let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
        check(Answer::json(200, "{}"), "GET", &[send(json)]);
        check(Answer::json(200, "{}"), "HEAD", &[send(&json[..json.len() - 2])]);
        check(Answer::status(204).body("no"), "GET", &[send("HTTP/1.1 204 No Content\r\n\r\n")]);
        check(Answer::status(299), "GET", &[send("HTTP/1.1 299 \r\nContent-Length: 0\r\n\r\n")]);
    }

    #[test]
    fn framing_that_is_given_is_kept_even_if_it_lies() {
        let half = Answer::status(200).header("content-length", "100").body("half").close();
        check(half, "GET", &[send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"), Step::Close]);
    }

    #[test]
    fn an_answer_that_announces_the_close_closes() {
        let last = Answer::status(200).header("Connection", "close");
        check(last, "GET", &[send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"), Step::Close]);
    }

    #[test]
    fn streams_are_chunks_and_pauses() {
        let second = Duration::from_secs(1);
        check(
            Answer::events().sleep(second).event("a\nb").chunk("").end(),
            "GET",
            &[
                send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n"),
                Step::Sleep(second),
                send("11\r\ndata: a\ndata: b\n\n\r\n"),
                send("0\r\n\r\n"),
            ],
        );
    }

    #[test]
    fn an_early_answer_goes_on_with_another() {
        let second = Duration::from_secs(1);
        let answer = Answer::raw("100").early().after(second).then(Answer::raw("200").after(second));
        let expected = [Step::Sleep(second), send("100"), Step::ReadBody, Step::Sleep(second), send("200")];
        assert_eq!(answer.into_steps(&request("PUT")), expected);
    }
}
