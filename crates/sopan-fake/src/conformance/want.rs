//! What must hold after a case, and in how few words it is said where it does not.

use super::Judge;
use super::reply::{Ended, Reply, named};
use super::run::Place;
use crate::script::Request;

/// So much of one message is shown to a person.
const SHOWN_MAX: usize = 2000;

/// What was seen on both sides.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The answers that the client waited for, in their order; none where none came.
    pub(super) replies: Vec<Option<Reply>>,
    /// How the connection ended, where the client waited for that.
    pub(super) ended: Option<Ended>,
    /// Whether each interim answer that was waited for came.
    pub(super) interims: Vec<(u16, bool)>,
    /// What was taken as bytes, piece by piece.
    pub(super) taken: Vec<Vec<u8>>,
    /// All that came on each connection.
    pub(super) heard: Vec<Vec<u8>>,
    /// What came and was not asked for.
    pub(super) rest: Vec<u8>,
    /// What arrived at the upstream.
    pub(super) requests: Vec<Request>,
}

/// One thing that must hold. Numbers are those of answers and requests, counted from 0.
#[derive(Debug, Clone)]
pub(super) enum Want {
    Status(usize, &'static [u16]),
    StatusOrRefused(usize, &'static [u16]),
    Refused(usize, &'static [u16]),
    BadGateway(usize),
    NotServed(usize),
    Broken(usize),
    Body(usize, Vec<u8>),
    Gives(usize, &'static str, Vec<Vec<u8>>),
    GivesAmong(usize, &'static str, &'static str),
    Trailers(usize, Vec<(&'static str, &'static str)>),
    Interims(usize, Vec<u16>),
    InterimCame(u16),
    Took(Vec<u8>),
    Ends,
    Arrive(usize),
    NoneWhole,
    Method(usize, &'static str),
    Target(usize, Vec<u8>),
    Has(usize, &'static str, Vec<String>),
    HasSome(usize, &'static str),
    HeadHolds(usize, &'static [u8]),
    SentBody(usize, Vec<u8>),
    SentNoBody(usize),
    SentTrailers(usize, Vec<(&'static str, &'static str)>),
    Tunnelled(usize, &'static str),
    Apart,
    ApartToBeSure,
}

impl Want {
    /// What is wrong, in few words; none where nothing is.
    pub(super) fn judge(&self, seen: &Seen, place: &Place, judge: Judge) -> Option<String> {
        match self {
            Self::Arrive(count) => arrive(*count, seen),
            Self::NoneWhole => seen.requests.iter().any(|one| one.body_at.is_some()).then(|| "forwarded".to_owned()),
            Self::Apart => apart(&seen.requests),
            Self::ApartToBeSure if judge == Judge::Strict => apart(&seen.requests),
            Self::ApartToBeSure => None,
            Self::Ends => (judge == Judge::Strict && seen.ended.is_none()).then(|| "connection stays open".to_owned()),
            Self::InterimCame(status) => {
                let came = seen.interims.iter().any(|(known, came)| known == status && *came);
                (!came).then(|| format!("no {status} came"))
            }
            Self::Took(bytes) => {
                let took = seen.taken.contains(bytes);
                (!took).then(|| format!("{} does not come, but {}", shown(bytes), shown(&seen.taken.concat())))
            }
            Self::StatusOrRefused(at, statuses) => refused(seen.reply(*at), statuses, judge)
                .filter(|_| !seen.reply(*at).is_some_and(|reply| statuses.contains(&reply.status))),
            Self::Refused(at, statuses) => refused(seen.reply(*at), statuses, judge),
            Self::BadGateway(at) => match seen.reply(*at).map(|reply| reply.status) {
                Some(502) => None,
                Some(500..600) | None if judge == Judge::Loose => None,
                status => Some(answered(status)),
            },
            Self::NotServed(at) => match seen.reply(*at).map(|reply| reply.status) {
                Some(400..600) | None => None,
                status => Some(answered(status)),
            },
            Self::Broken(at) => match seen.reply(*at) {
                None if judge == Judge::Strict => Some(answered(None)),
                Some(reply) if judge == Judge::Strict && reply.is_whole && reply.status != 502 => {
                    Some("taken for whole".to_owned())
                }
                Some(reply) if reply.status < 500 && reply.is_whole => Some("taken for whole".to_owned()),
                _ => None,
            },
            Self::Status(..) | Self::Body(..) | Self::Gives(..) | Self::GivesAmong(..) => self.judge_reply(seen, place),
            Self::Trailers(..) | Self::Interims(..) => self.judge_reply(seen, place),
            _ => self.judge_request(seen, place),
        }
    }

    fn judge_reply(&self, seen: &Seen, place: &Place) -> Option<String> {
        let at = match self {
            Self::Status(at, _) | Self::Body(at, _) | Self::Gives(at, ..) | Self::GivesAmong(at, ..) => *at,
            Self::Trailers(at, _) | Self::Interims(at, _) => *at,
            _ => return None,
        };
        let Some(reply) = seen.reply(at) else {
            // It is told once, by the status.
            return matches!(self, Self::Status(..)).then(|| answered(None));
        };
        match self {
            Self::Status(_, statuses) => (!statuses.contains(&reply.status)).then(|| answered(Some(reply.status))),
            Self::Body(_, body) if !reply.is_whole => Some(format!("cut after {} of {}", reply.body.len(), body.len())),
            Self::Body(_, body) => (reply.body != place.fill(body)).then(|| format!("body {}", shown(&reply.body))),
            Self::Gives(_, name, values) => {
                let values: Vec<_> = values.iter().map(|value| place.fill(value)).collect();
                let got = reply.fields_named(name);
                (got != values).then(|| format!("{name}: {}", listed(&got)))
            }
            Self::GivesAmong(_, name, value) => {
                let got = reply.fields_named(name);
                (!got.contains(&value.as_bytes())).then(|| format!("{name}: {}", listed(&got)))
            }
            Self::Trailers(_, trailers) => {
                let wanted = trailers.iter().all(|(name, value)| named(&reply.trailers, name) == [value.as_bytes()]);
                (!wanted || reply.trailers.len() != trailers.len()).then(|| {
                    format!("trailers: {}", listed(&reply.trailers.iter().map(|(n, _)| n).collect::<Vec<_>>()))
                })
            }
            Self::Interims(_, statuses) => {
                let got: Vec<_> = reply.interim.iter().map(|(status, _)| *status).collect();
                (got != *statuses).then(|| format!("interim answers {got:?}"))
            }
            _ => None,
        }
    }

    fn judge_request(&self, seen: &Seen, place: &Place) -> Option<String> {
        let at = match self {
            Self::Method(at, _) | Self::Target(at, _) | Self::Has(at, ..) | Self::HeadHolds(at, _) => *at,
            Self::SentBody(at, _) | Self::SentTrailers(at, _) | Self::Tunnelled(at, _) => *at,
            Self::HasSome(at, _) | Self::SentNoBody(at) => *at,
            _ => return None,
        };
        // That it is not there is told by how many arrive.
        let request = seen.requests.get(at)?;
        match self {
            Self::Method(_, method) => (request.method != *method).then(|| format!("method {}", request.method)),
            Self::Target(_, target) => {
                let sent = request.head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
                (sent != place.fill(target)).then(|| format!("target {}", shown(sent)))
            }
            Self::Has(_, name, values) => {
                let values: Vec<_> = values.iter().map(|value| place.fill_text(value)).collect();
                let got = request.fields_named(name);
                (got != values)
                    .then(|| if values.is_empty() { format!("{name} passed on") } else { format!("{name}: {got:?}") })
            }
            Self::HasSome(_, name) => request.field(name).is_none().then(|| format!("no {name}")),
            Self::HeadHolds(_, bytes) => {
                let holds = super::reply::find(&request.head, bytes).is_some();
                (!holds).then(|| format!("{} is changed", shown(bytes)))
            }
            Self::SentBody(_, body) => {
                let is_sent = request.body == *body && request.body_at.is_some();
                (!is_sent).then(|| format!("body of {} bytes arrives", request.body.len()))
            }
            Self::SentNoBody(_) => (!request.raw_body.is_empty()).then(|| "the body is drawn in".to_owned()),
            Self::SentTrailers(_, trailers) => {
                let got: Vec<_> =
                    request.trailers.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect();
                let same = got.iter().map(|(name, value)| (&**name, &**value)).eq(trailers.iter().copied());
                (!same).then(|| format!("trailers {got:?}"))
            }
            Self::Tunnelled(_, bytes) => {
                (request.tunnel != bytes.as_bytes()).then(|| format!("{} arrives", shown(&request.tunnel)))
            }
            _ => None,
        }
    }
}

impl Seen {
    fn reply(&self, at: usize) -> Option<&Reply> {
        self.replies.get(at)?.as_ref()
    }

    /// All bytes on both sides, long ones shortened.
    pub(super) fn shown(&self) -> String {
        let arrived = self.requests.iter().map(|one| ("arrived: ", [&one.head[..], &one.raw_body].concat()));
        let heard = self.heard.iter().map(|bytes| ("came back: ", bytes.clone()));
        let all = arrived.chain(heard).map(|(what, bytes)| {
            let rest = bytes.len().saturating_sub(SHOWN_MAX);
            let more = if rest > 0 { format!(" and {rest} bytes more") } else { String::new() };
            format!("  {what}{}{more}", bytes[..bytes.len() - rest].escape_ascii())
        });
        all.collect::<Vec<_>>().join("\n")
    }

    /// In few words: what was answered, how it ended, what arrived.
    pub(super) fn summary(&self) -> String {
        let replies = self.replies.iter().map(|reply| match reply {
            Some(reply) if reply.is_whole => reply.status.to_string(),
            Some(reply) if reply.hangs => format!("{} unfinished", reply.status),
            Some(reply) => format!("{} cut", reply.status),
            None => "no answer".to_owned(),
        });
        let mut told: Vec<_> = replies.collect();
        told.extend(self.ended.map(|ended| if ended == Ended::Closed { "closed" } else { "reset" }.to_owned()));
        told.push(format!("{} forwarded", self.requests.len()));
        told.join(", ")
    }
}

fn arrive(count: usize, seen: &Seen) -> Option<String> {
    match (count, seen.requests.len()) {
        (_, arrived) if arrived == count => None,
        (0, _) => Some("forwarded".to_owned()),
        (_, 0) => Some("not forwarded".to_owned()),
        (_, arrived) => Some(format!("{arrived} requests arrive")),
    }
}

fn apart(requests: &[Request]) -> Option<String> {
    match requests {
        [first, second, ..] if first.connection == second.connection => Some("connection reused".to_owned()),
        _ => None,
    }
}

/// A refusal has to be ours to the digit; another proxy may choose its status, or just end the connection.
fn refused(reply: Option<&Reply>, statuses: &[u16], judge: Judge) -> Option<String> {
    match (reply.map(|reply| reply.status), judge) {
        (Some(status), Judge::Strict) if statuses.contains(&status) => None,
        (Some(400..600) | None, Judge::Loose) => None,
        (status, _) => Some(answered(status)),
    }
}

fn answered(status: Option<u16>) -> String {
    status.map_or_else(|| "no answer".to_owned(), |status| status.to_string())
}

/// Bytes as text, not more than fit into a line.
fn shown(bytes: &[u8]) -> String {
    let short = &bytes[..bytes.len().min(60)];
    format!("\"{}\"", short.escape_ascii())
}

fn listed<T: AsRef<[u8]>>(values: &[T]) -> String {
    if values.is_empty() {
        return "none".to_owned();
    }
    values.iter().map(|value| shown(value.as_ref())).collect::<Vec<_>>().join(", ")
}
