//! One case: what the client sends, what the upstream does, what must hold.

use super::reply::Asked;
use super::want::Want;
use crate::script::Answer;

/// What a case is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// What is passed on and what is not.
    Forwarding,
    /// Request lines and fields that are no HTTP.
    RequestHead,
    /// Where a request ends.
    RequestFraming,
    /// Heads of answers that are no HTTP.
    AnswerHead,
    /// Where an answer ends.
    AnswerFraming,
    /// 1xx and `Expect`.
    Interim,
    /// Protocols other than HTTP after a 101.
    Upgrade,
    /// Sizes and times.
    Bounds,
    /// Web pages that reach for a proxy on the same machine.
    Local,
}

impl Group {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forwarding => "forwarding",
            Self::RequestHead => "request heads",
            Self::RequestFraming => "request framing",
            Self::AnswerHead => "answer heads",
            Self::AnswerFraming => "answer framing",
            Self::Interim => "1xx and Expect",
            Self::Upgrade => "upgrade",
            Self::Bounds => "bounds",
            Self::Local => "local safety",
        }
    }
}

/// Who must do as a case says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Every intermediary: the RFC leaves no choice, or only one that loses or confuses nothing.
    Must,
    /// sopan, where the RFC leaves a choice.
    Choice,
    /// sopan, by a policy of its own.
    Policy,
}

impl Kind {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Must => "must",
            Self::Choice => "choice",
            Self::Policy => "policy",
        }
    }
}

/// One step of the client.
#[derive(Debug, Clone)]
pub(super) enum Act {
    /// Sends these bytes after `{host}`, `{path}` and `{upstream}` are filled in.
    Send(Vec<u8>),
    /// Waits, so that what follows is read apart.
    Pause,
    /// Waits until the upstream is done with so many.
    Done(usize),
    /// Waits for an interim answer.
    Interim(u16),
    /// Waits for an answer.
    Answer(Asked),
    /// Takes as many bytes as these, which is no HTTP.
    Take(Vec<u8>),
    /// Closes the sending half.
    Finish,
    /// Waits for the end of the connection.
    End,
    /// Goes on with a new connection.
    Reconnect,
}

/// One case. Made by `new` and continued by methods that each add a step of the client or something that must
/// hold; what must hold of an answer or a request means the last one named.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name, which is also the path that its requests ask for.
    pub id: &'static str,
    /// What it is about.
    pub group: Group,
    /// Where it is written, `RFC 9112 §6.3` as `9112 §6.3`.
    pub section: &'static str,
    /// What must hold, in words.
    pub claim: &'static str,
    /// Who must do so.
    pub kind: Kind,
    pub(super) acts: Vec<Act>,
    /// What the upstream does with its requests in their order; the last one is for all that follow.
    pub(super) answers: Vec<Answer>,
    pub(super) wants: Vec<Want>,
    answered: usize,
    arrived: usize,
}

impl Case {
    pub(super) fn new(id: &'static str, group: Group, section: &'static str, claim: &'static str) -> Self {
        let (acts, answers, wants) = (Vec::new(), Vec::new(), Vec::new());
        Self { id, group, section, claim, kind: Kind::Must, acts, answers, wants, answered: 0, arrived: 0 }
    }

    pub(super) fn choice(self) -> Self {
        Self { kind: Kind::Choice, ..self }
    }

    pub(super) fn policy(self) -> Self {
        Self { kind: Kind::Policy, ..self }
    }

    // What the upstream does.

    pub(super) fn upstream(mut self, answer: Answer) -> Self {
        self.answers.push(answer);
        self
    }

    // What the client does.

    pub(super) fn send(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.act(Act::Send(bytes.into()))
    }

    /// A request without a body; `fields` are lines that end in CRLF.
    pub(super) fn get(self, fields: &str) -> Self {
        self.send(format!("GET {{path}} HTTP/1.1\r\nHost: {{host}}\r\n{fields}\r\n"))
    }

    pub(super) fn pause(self) -> Self {
        self.act(Act::Pause)
    }

    pub(super) fn finish(self) -> Self {
        self.act(Act::Finish)
    }

    pub(super) fn reconnect(self) -> Self {
        self.act(Act::Reconnect)
    }

    pub(super) fn until_done(self, requests: usize) -> Self {
        self.act(Act::Done(requests))
    }

    pub(super) fn until_interim(self, status: u16) -> Self {
        self.act(Act::Interim(status)).want(Want::InterimCame(status))
    }

    /// An answer comes, with one of these statuses.
    pub(super) fn answer(self, statuses: &'static [u16]) -> Self {
        self.answer_to(Asked::Plain, statuses)
    }

    /// sopan answers with one of these; anybody else may refuse as well.
    pub(super) fn answer_or_refused(mut self, statuses: &'static [u16]) -> Self {
        self.answered += 1;
        let served = Want::StatusOrRefused(self.answered - 1, statuses);
        self.act(Act::Answer(Asked::Plain)).want(served)
    }

    /// The same to a HEAD.
    pub(super) fn head_answer(self, statuses: &'static [u16]) -> Self {
        self.answer_to(Asked::Head, statuses)
    }

    /// sopan refuses with one of these statuses and ends the connection; anybody refuses somehow.
    pub(super) fn refused(self, statuses: &'static [u16]) -> Self {
        self.refused_openly(statuses).act(Act::End).want(Want::Ends)
    }

    /// The same, but the connection may go on.
    pub(super) fn refused_openly(mut self, statuses: &'static [u16]) -> Self {
        self.answered += 1;
        let refused = Want::Refused(self.answered - 1, statuses);
        self.act(Act::Answer(Asked::Plain)).want(refused)
    }

    /// sopan answers 502 in the upstream's place; anybody answers 5xx or nothing.
    pub(super) fn bad_gateway(mut self) -> Self {
        self.answered += 1;
        let failed = Want::BadGateway(self.answered - 1);
        self.act(Act::Answer(Asked::Plain)).want(failed)
    }

    /// Nothing is answered but perhaps that this will not do, and the connection ends.
    pub(super) fn not_served(mut self) -> Self {
        self.answered += 1;
        let not_served = Want::NotServed(self.answered - 1);
        self.act(Act::Answer(Asked::Plain)).want(not_served).ends()
    }

    /// The transfer breaks in a way that the client sees, if an answer comes at all.
    pub(super) fn broken(mut self) -> Self {
        self.answered += 1;
        let broken = Want::Broken(self.answered - 1);
        self.act(Act::Answer(Asked::Plain)).want(broken)
    }

    /// These bytes come, after a 101.
    pub(super) fn sees(self, bytes: &str) -> Self {
        let bytes = bytes.as_bytes().to_vec();
        self.act(Act::Take(bytes.clone())).want(Want::Took(bytes))
    }

    /// The connection ends.
    pub(super) fn ends(self) -> Self {
        self.act(Act::End).want(Want::Ends)
    }

    // What must hold of the last answer.

    pub(super) fn body(self, body: impl Into<Vec<u8>>) -> Self {
        let want = Want::Body(self.last_answer(), body.into());
        self.want(want)
    }

    /// Its fields of that name are these, in their order.
    pub(super) fn gives(self, name: &'static str, values: &[&[u8]]) -> Self {
        let want = Want::Gives(self.last_answer(), name, values.iter().map(|value| value.to_vec()).collect());
        self.want(want)
    }

    /// One of its fields of that name is this.
    pub(super) fn gives_among(self, name: &'static str, value: &'static str) -> Self {
        let want = Want::GivesAmong(self.last_answer(), name, value);
        self.want(want)
    }

    pub(super) fn trailers(self, trailers: &[(&'static str, &'static str)]) -> Self {
        let want = Want::Trailers(self.last_answer(), trailers.to_vec());
        self.want(want)
    }

    pub(super) fn interims(self, statuses: &[u16]) -> Self {
        let want = Want::Interims(self.last_answer(), statuses.to_vec());
        self.want(want)
    }

    // What must hold at the upstream.

    /// So many requests arrive; what follows is said of the last one.
    pub(super) fn arrive(mut self, requests: usize) -> Self {
        self.arrived = requests.saturating_sub(1);
        self.want(Want::Arrive(requests))
    }

    /// What follows is said of this request, counted from 0.
    pub(super) fn request(mut self, number: usize) -> Self {
        self.arrived = number;
        self
    }

    /// No request arrives whole, though a head may.
    pub(super) fn none_whole(self) -> Self {
        self.want(Want::NoneWhole)
    }

    pub(super) fn method(self, method: &'static str) -> Self {
        let want = Want::Method(self.arrived, method);
        self.want(want)
    }

    /// The target is this, byte for byte.
    pub(super) fn target(self, target: impl Into<Vec<u8>>) -> Self {
        let want = Want::Target(self.arrived, target.into());
        self.want(want)
    }

    /// The fields of that name are these, in their order.
    pub(super) fn has(self, name: &'static str, values: &[&str]) -> Self {
        let want = Want::Has(self.arrived, name, values.iter().map(|value| (*value).to_owned()).collect());
        self.want(want)
    }

    /// None of these fields is there.
    pub(super) fn lacks(self, names: &[&'static str]) -> Self {
        names.iter().fold(self, |case, name| case.has(name, &[]))
    }

    /// The head holds these bytes.
    pub(super) fn head_holds(self, bytes: &'static [u8]) -> Self {
        let want = Want::HeadHolds(self.arrived, bytes);
        self.want(want)
    }

    /// A field of that name is there.
    pub(super) fn has_some(self, name: &'static str) -> Self {
        let want = Want::HasSome(self.arrived, name);
        self.want(want)
    }

    pub(super) fn sent_body(self, body: impl Into<Vec<u8>>) -> Self {
        let want = Want::SentBody(self.arrived, body.into());
        self.want(want)
    }

    /// Not a byte of a body arrives, whatever the head announced.
    pub(super) fn sent_no_body(self) -> Self {
        let want = Want::SentNoBody(self.arrived);
        self.want(want)
    }

    pub(super) fn sent_trailers(self, trailers: &[(&'static str, &'static str)]) -> Self {
        let want = Want::SentTrailers(self.arrived, trailers.to_vec());
        self.want(want)
    }

    /// What came there after the 101.
    pub(super) fn tunnelled(self, bytes: &'static str) -> Self {
        let want = Want::Tunnelled(self.arrived, bytes);
        self.want(want)
    }

    /// The first two requests come on connections of their own.
    pub(super) fn apart(self) -> Self {
        self.want(Want::Apart)
    }

    /// The same, as sopan does; anybody else may know better what to throw away.
    pub(super) fn apart_to_be_sure(self) -> Self {
        self.want(Want::ApartToBeSure)
    }

    fn last_answer(&self) -> usize {
        self.answered.checked_sub(1).expect("an answer is named before what must hold of it")
    }

    fn answer_to(mut self, asked: Asked, statuses: &'static [u16]) -> Self {
        self.answered += 1;
        let status = Want::Status(self.answered - 1, statuses);
        self.act(Act::Answer(asked)).want(status)
    }

    fn act(mut self, act: Act) -> Self {
        self.acts.push(act);
        self
    }

    fn want(mut self, want: Want) -> Self {
        self.wants.push(want);
        self
    }
}
