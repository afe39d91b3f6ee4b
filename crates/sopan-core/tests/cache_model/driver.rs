//! The core in the hands of an engine that is as simple as can be: one list of entries with their bodies, one exchange at a
//! time. It shows the model all that goes over the wire, on both sides.

mod call;

use std::collections::BTreeMap;

use http::{HeaderMap, StatusCode};
use sopan_core::cache::status::Forward;
use sopan_core::cache::{
    After, Ask, Extent, Failure, Lookup, Received, Reuse, Send, Shape, Stored, Times, after_failure, after_response,
    invalidate, lookup, range,
};
use sopan_core::policy::{CachePolicy, PathTreatment};

use call::{Call, response};

use crate::history::{Answer, Moment, Step, Upstream, calendar};
use crate::model::{Cause, Client, Exchange, Model, Place};
use crate::upstream::{self, Byte, Message, NUMBER, Sent};

/// What became of requests, counted.
pub(crate) type Tally = BTreeMap<&'static str, usize>;

type Verdict = Result<(), String>;

struct Entry {
    target: String,
    stored: Stored,
    /// The exchange that it came with.
    origin: usize,
    /// The bytes that are held, from `first` on.
    body: Vec<Byte>,
}

impl Entry {
    fn place(&self) -> Place {
        let number = self.stored.headers[NUMBER].to_str().expect("ASCII");
        (self.origin, number.parse().expect("a number"))
    }

    fn first(&self) -> usize {
        match self.stored.extent {
            Extent::Whole(_) => 0,
            Extent::Part(part) => usize::try_from(part.span.first).expect("short"),
        }
    }
}

pub(crate) struct Driver<'a> {
    policy: &'a CachePolicy,
    now: Moment,
    entries: Vec<Entry>,
    exchanges: usize,
    model: Model,
    tally: &'a mut Tally,
}

impl<'a> Driver<'a> {
    pub(crate) fn new(policy: &'a CachePolicy, tally: &'a mut Tally) -> Self {
        Self { policy, now: 0, entries: Vec::new(), exchanges: 0, model: Model::new(policy), tally }
    }

    /// One request of a client, from its coming to its answer, and what is in store then.
    pub(crate) fn run(&mut self, step: &Step) -> Verdict {
        self.answer(step)?;
        self.entries.iter().try_for_each(|entry| self.model.judge_stored(entry.place()))
    }

    fn answer(&mut self, step: &Step) -> Verdict {
        self.now += step.wait;
        self.model.begin_step();
        let call = Call::new(&step.request, self.now);
        match self.look(&call) {
            Lookup::Reuse(reuse) => {
                self.give(&call, &reuse, Cause::Itself)?;
                let Some(conditions) = reuse.revalidate else { return Ok(()) };
                self.count("asked behind");
                let ask = Ask { index: reuse.index, conditions, missing: None };
                let send = Send {
                    forward: Forward::Stale,
                    ask: Some(Box::new(ask)),
                    fallback: None,
                    is_sharable: false,
                    may_store: true,
                };
                self.send(&call.behind(), &send, &step.upstream, For::Nobody)
            }
            Lookup::Unsatisfied => {
                self.count("not satisfied");
                self.model.judge_not_reused(&call.client, self.now, Cause::Itself)
            }
            Lookup::Send(send) => {
                self.model.judge_not_reused(&call.client, self.now, Cause::Itself)?;
                self.send(&call, &send, &step.upstream, For::Client)
            }
        }
    }

    fn send(&mut self, call: &Call, send: &Send, upstream: &Upstream, whom: For) -> Verdict {
        let headers = call.headers_for(send, &self.here(call));
        if send.ask.as_ref().is_some_and(|ask| ask.missing.is_some()) {
            self.count("asked for what is missing");
        } else if !matches!(call.client.rule, Some(PathTreatment::Bypass)) {
            self.model.judge_question(&call.client, &headers)?;
        }
        match upstream {
            Upstream::Fails(failure) => self.fail(call, send, *failure, whom),
            Upstream::Answers(answer) => {
                let message = self.exchange(call, headers, answer);
                self.settle(call, send, &message, upstream, whom)
            }
        }
    }

    fn fail(&mut self, call: &Call, send: &Send, failure: Failure, whom: For) -> Verdict {
        if whom == For::Nobody {
            return Ok(());
        }
        let stored = self.here(call);
        let stored: Vec<&Stored> = stored.iter().collect();
        match after_failure(self.policy, &call.asked(), send, &stored, failure, calendar(self.now)) {
            Some(reuse) => {
                self.count(if failure == Failure::NoToken {
                    "stale without a token"
                } else {
                    "stale without upstream"
                });
                self.give(call, &reuse, Cause::Failed(failure))
            }
            None => self.model.judge_not_reused(&call.client, self.now, Cause::Failed(failure)),
        }
    }

    /// Goes to the upstream and back.
    fn exchange(&mut self, call: &Call, headers: HeaderMap, answer: &Answer) -> (Message, Times) {
        let requested = self.now;
        self.now += answer.delay;
        let Client { method, target, host, .. } = call.client.clone();
        let sent = Sent { method, target, host, headers };
        let message = upstream::answer(answer, &sent, self.exchanges, self.now);
        self.exchanges += 1;
        self.model.saw(Exchange {
            client: call.client.clone(),
            sent,
            message: message.clone(),
            requested,
            received: self.now,
        });
        (message, Times { requested: calendar(requested), received: calendar(self.now) })
    }

    fn settle(
        &mut self,
        call: &Call,
        send: &Send,
        (message, times): &(Message, Times),
        upstream: &Upstream,
        whom: For,
    ) -> Verdict {
        let status = StatusCode::from_u16(message.status).expect("a status");
        let stored = self.here(call);
        let stored: Vec<&Stored> = stored.iter().collect();
        let received = Received { status, headers: &message.headers, times: *times };
        let after = after_response(self.policy, &call.asked(), send, &stored, received);
        // What an unsafe request makes untrue goes first, so that its own answer may stay.
        let is_unsafe = invalidate::invalidates(&call.method, status);
        if is_unsafe {
            self.count("invalidated");
            let mut targets = invalidate::others(&message.headers, &call.client.target, call.client.host.as_bytes());
            targets.push(call.client.target.clone());
            self.entries.retain(|entry| !targets.contains(&entry.target));
        }
        match after {
            After::PassOn(_) => {
                if whom == For::Client && [500, 502, 503, 504].contains(&message.status) {
                    self.model.judge_not_reused(&call.client, self.now, Cause::Answered(message.status))?;
                }
                self.pass(call, whom)
            }
            After::Forget(which) => {
                self.count("forgotten");
                self.pass(call, whom)?;
                self.forget(call, &which);
                Ok(())
            }
            After::Store { stored, replaces } => {
                self.pass(call, whom)?;
                if !is_unsafe {
                    self.forget(call, &replaces);
                }
                self.store(call, *stored, message);
                Ok(())
            }
            After::Freshen { index, stored, reuse } => {
                self.count("freshened");
                let place = self.place(call, index);
                let is_given_once = stored.is_given_once();
                self.entries[place].stored = *stored;
                match reuse {
                    Some(reuse) if whom == For::Client => self.give(call, &reuse, Cause::Itself)?,
                    _ => self.pass(call, whom)?,
                }
                if is_given_once {
                    self.count("given once");
                    self.forget(call, &[index]);
                }
                Ok(())
            }
            After::Join { index, stored, reuse } => {
                self.count("joined");
                // If the part was cut, the client gets no whole answer, and nothing is stored.
                let is_whole = self.join(call, index, *stored, message);
                if is_whole && whom == For::Client { self.give(call, &reuse, Cause::Itself) } else { Ok(()) }
            }
            After::AskAgain { forget } => {
                self.count("asked again");
                self.forget(call, &Vec::from_iter(forget));
                if whom == For::Nobody {
                    return Ok(());
                }
                let plain = Send { ask: None, fallback: None, ..send.clone() };
                self.send_as_it_is(call, &plain, upstream)
            }
            After::Stale(reuse) => {
                self.count("stale on an error");
                if whom == For::Nobody { Ok(()) } else { self.give(call, &reuse, Cause::Answered(message.status)) }
            }
        }
    }

    fn send_as_it_is(&mut self, call: &Call, send: &Send, upstream: &Upstream) -> Verdict {
        let Upstream::Answers(answer) = upstream else { return Err("it has answered before".to_owned()) };
        let message = self.exchange(call, call.client.headers.clone(), answer);
        let status = message.0.status;
        let before = self.count_of("asked again");
        self.settle(call, send, &message, upstream, For::Client)?;
        if self.count_of("asked again") > before {
            return Err(format!("a {status} to a request as the client made it makes it ask again"));
        }
        Ok(())
    }

    fn pass(&mut self, call: &Call, whom: For) -> Verdict {
        self.count("passed on");
        if whom == For::Client { self.model.judge_passed(&call.client) } else { Ok(()) }
    }

    fn store(&mut self, call: &Call, mut stored: Stored, message: &Message) {
        let fits = match stored.extent {
            Extent::Whole(length) => length.is_none_or(|length| length == message.body.len() as u64),
            Extent::Part(part) => part.span.last - part.span.first + 1 == message.body.len() as u64,
        };
        if !fits || message.body.len() as u64 > self.policy.entry_bytes_max {
            self.count("cut or too large");
            return;
        }
        if stored.extent == Extent::Whole(None) {
            stored.extent = Extent::Whole(Some(message.body.len() as u64));
        }
        self.count(if matches!(stored.extent, Extent::Part(_)) { "stored a part" } else { "stored" });
        let (target, origin) = (call.client.target.clone(), self.exchanges - 1);
        self.entries.push(Entry { target, stored, origin, body: message.body.clone() });
    }

    /// Puts a part to what is there; false if it is not as long as it says.
    fn join(&mut self, call: &Call, index: usize, stored: Stored, message: &Message) -> bool {
        let Some(part) = range::part_of_answer(&message.headers) else { return false };
        if part.span.last - part.span.first + 1 != message.body.len() as u64 {
            return false;
        }
        let place = self.place(call, index);
        let entry = &mut self.entries[place];
        let mut bytes: BTreeMap<usize, Byte> = BTreeMap::new();
        bytes.extend(entry.body.iter().enumerate().map(|(at, byte)| (entry.first() + at, *byte)));
        let first = usize::try_from(part.span.first).expect("short");
        bytes.extend(message.body.iter().enumerate().map(|(at, byte)| (first + at, *byte)));
        entry.body = bytes.into_values().collect();
        entry.stored = stored;
        true
    }

    fn give(&mut self, call: &Call, reuse: &Reuse, cause: Cause) -> Verdict {
        self.count(match reuse.shape {
            Shape::Whole => "given whole",
            Shape::Head => "given for HEAD",
            Shape::NotModified => "given 304",
            Shape::Part(_) => "given a part",
            Shape::Parts(_) => "given parts",
            Shape::Unsatisfiable => "given 416",
        });
        let entry = &self.entries[self.place(call, reuse.index)];
        let response = response(entry, reuse)?;
        let others = self.entries.iter().filter(|entry| {
            let is_whole = matches!(entry.stored.extent, Extent::Whole(_));
            is_whole && entry.target == call.client.target && entry.stored.is_for_owner(&call.asked())
        });
        let in_store: Vec<Place> = others.map(Entry::place).collect();
        self.model.judge_reused(&call.client, &response, self.now, cause, &in_store)
    }

    fn look(&self, call: &Call) -> Lookup {
        let stored = self.here(call);
        let stored: Vec<&Stored> = stored.iter().collect();
        lookup(self.policy, &call.asked(), &stored, calendar(self.now))
    }

    fn here(&self, call: &Call) -> Vec<Stored> {
        let here = self.entries.iter().filter(|entry| entry.target == call.client.target);
        here.map(|entry| entry.stored.clone()).collect()
    }

    /// Where in the store that is which the core knows by its place among those of a target.
    fn place(&self, call: &Call, index: usize) -> usize {
        let here = self.entries.iter().enumerate().filter(|(_, entry)| entry.target == call.client.target);
        here.map(|(place, _)| place).nth(index).expect("the core names what it was shown")
    }

    fn forget(&mut self, call: &Call, which: &[usize]) {
        let mut places: Vec<usize> = which.iter().map(|&index| self.place(call, index)).collect();
        places.sort_unstable();
        places.dedup();
        for place in places.into_iter().rev() {
            self.entries.remove(place);
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    fn count_of(&self, what: &'static str) -> usize {
        self.tally.get(what).copied().unwrap_or_default()
    }
}

/// Who waits for an answer.
#[derive(Clone, Copy, PartialEq)]
enum For {
    Client,
    Nobody,
}
