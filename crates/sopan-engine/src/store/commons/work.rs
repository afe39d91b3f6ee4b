//! What is done at the server while nobody waits for it?
//!
//! Answers for a target are written, and dropped, one after the other in the order in which that happened here, and who leads no
//! more says so; what concerns other targets goes on beside it, so that the distance of the server bounds no rate. What cannot be
//! done soon is not done: that a server takes too long is known after the first, or when too much waits, and nothing is sent to
//! one that is not in step.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::part::Part;
use super::server::{Lead, Put, Target, Untrue};
use super::value::Written;
use super::{Commons, Name, Slot, count};
use crate::budget::Held;
use crate::store::entry::Body;
use crate::store::{Key, Variant};

/// What is longer is written on a thread where blocking is allowed: to compress it takes its time.
const LONG: u64 = 64 * 1024;

/// Something to be done.
#[derive(Debug)]
pub(super) enum Work {
    /// An answer is to be kept, in place of those in these slots.
    Put {
        part: Arc<Part>,
        key: Key,
        variant: Arc<Variant>,
        replaces: Vec<Slot>,
        number: u64,
        ttl: Duration,
        _held: Held,
    },
    /// Single answers are to be dropped.
    Remove { part: Arc<Part>, key: Key, slots: Vec<Slot> },
    /// The others are to be told.
    MakeUntrue { part: Arc<Part>, scope: Untrue },
    /// It leads no more.
    LetGo { of: Target, lead: Lead },
}

impl Work {
    /// By what that is done one after the other: the target, so that who waits for it finds it when it is told. What is untrue of
    /// all answers needs no place among them, since the server refuses what does not know of it.
    fn strand(&self) -> usize {
        let Name(name) = match self {
            Self::Put { key, .. } | Self::Remove { key, .. } => Name::of(key),
            Self::MakeUntrue { scope: Untrue::Target { name, .. }, .. } => *name,
            Self::MakeUntrue { .. } => return 0,
            Self::LetGo { of, .. } => of.name,
        };
        name[0].into()
    }

    /// What it holds beside itself; of an answer that is counted for itself.
    fn weight(&self) -> u64 {
        let bytes = match self {
            Self::Put { key, replaces, .. } => key.as_bytes().len() + size_of_val(&**replaces),
            Self::Remove { key, slots, .. } => key.as_bytes().len() + size_of_val(&**slots),
            Self::MakeUntrue { scope, .. } => scope.bytes(),
            Self::LetGo { .. } => 0,
        };
        (bytes + size_of::<Self>()) as u64
    }
}

impl Commons {
    /// Has something done.
    pub(super) fn send(&self, work: Work) {
        let strand = &self.strands[work.strand() % self.strands.len()];
        let sent = match self.texts.hold(work.weight()) {
            Some(held) => strand.try_send((work, held)),
            None => return self.leave(work),
        };
        match sent {
            Ok(()) => {}
            Err(TrySendError::Full((work, _))) => self.leave(work),
            // Without somebody who does it the process is about to end.
            Err(TrySendError::Closed(_)) => {}
        }
    }

    /// There is no place for this.
    fn leave(&self, work: Work) {
        match work {
            Work::MakeUntrue { part, scope } => self.make_untrue_later(part.tag, scope),
            Work::Put { .. } => count(&self.counts.skipped),
            Work::Remove { .. } | Work::LetGo { .. } => {}
        }
        self.lose("more is to be written than it takes".to_owned());
    }

    /// Does what there is to do in one strand, as long as somebody may have something.
    pub(super) async fn work(self: Arc<Self>, mut to_do: mpsc::Receiver<(Work, Held)>) {
        while let Some((work, _held)) = to_do.recv().await {
            match work {
                // If that cannot be, it is told later.
                Work::MakeUntrue { part, scope } => drop(self.make_untrue(&part, scope).await),
                work if self.is_in_step() => self.do_this(work).await,
                Work::Put { .. } => count(&self.counts.skipped),
                Work::Remove { .. } | Work::LetGo { .. } => {}
            }
        }
    }

    async fn do_this(&self, work: Work) {
        match work {
            Work::Put { part, key, variant, replaces, number, ttl, _held } => {
                let put = self.written(&part, &key, &variant, number).await.map(|value| {
                    let slot = Slot::of(&variant.stored);
                    Put { slot, value, replaces, number, ttl }
                });
                let is_stored = match put {
                    Some(put) => self.ask(self.server.put(target(&part, &key), put)).await,
                    None => None,
                };
                count(match is_stored {
                    Some(true) => &self.counts.stored,
                    Some(false) => &self.counts.refused,
                    None => &self.counts.skipped,
                });
            }
            Work::Remove { part, key, slots } => {
                self.ask(self.server.remove(target(&part, &key), &slots)).await;
            }
            Work::LetGo { of, lead } => {
                self.ask(self.server.let_go(of.tag, lead)).await;
            }
            Work::MakeUntrue { part, scope } => self.make_untrue_later(part.tag, scope),
        }
    }

    /// The value of an answer, whose body is here.
    async fn written(&self, part: &Part, key: &Key, variant: &Variant, number: u64) -> Option<Bytes> {
        let received = self.received_by_server(part, &variant.stored)?;
        let Body::Memory(body) = &variant.body else { return None };
        let (head, body, key) = (variant.stored.encode(), body.clone(), key.clone());
        let is_long = body.len() as u64 > LONG;
        let write = move || Bytes::from(Written { received, number, head, body }.write(key.as_bytes()));
        match is_long {
            false => Some(write()),
            // It is given up only with the runtime.
            true => tokio::task::spawn_blocking(write).await.ok(),
        }
    }
}

pub(super) fn target(part: &Part, key: &Key) -> Target {
    Target { tag: part.tag, name: Name::of(key) }
}

#[cfg(test)]
mod tests {
    use sopan_core::policy::CachePolicy;

    use super::*;
    use crate::store::Place;
    use crate::store::commons::{CommonsSettings, Heard, TEXTS_MAX, UNTOLD_BYTES_MAX};
    use crate::store::redis::RedisSettings;

    #[test]
    fn however_long_targets_are_what_waits_holds_no_more_than_it_may() {
        // Nobody does anything there.
        let redis = RedisSettings::new("redis://127.0.0.1:1".parse().unwrap());
        let commons = Commons::new(CommonsSettings::redis(redis, "test", 1 << 20).unwrap(), Heard::default());
        commons.join("shop", Place::default(), "http://u", &CachePolicy::default());
        let part = commons.parts_named("shop").remove(0);
        let key = |n: u64| Key::new(&part.name, part.place, &format!("/{n}/{}", "x".repeat(60_000)));
        for n in 0..2_000 {
            let (part, key) = (Arc::clone(&part), key(n));
            let scope = crate::store::commons::untrue(&key);
            commons.send(Work::Remove { part: Arc::clone(&part), key, slots: Vec::new() });
            commons.send(Work::MakeUntrue { part, scope });
        }
        let mut bytes = 0;
        for strand in &mut *commons.to_do.lock() {
            while let Ok((work, _held)) = strand.try_recv() {
                bytes += work.weight();
            }
        }
        assert!(bytes > TEXTS_MAX / 2 && bytes <= TEXTS_MAX, "{bytes} in strands");
        let untold: usize = commons.untold.lock().iter().map(|(_, scope)| scope.bytes()).sum();
        assert!(untold <= UNTOLD_BYTES_MAX, "{untold} are told later");
        // All that was not told is told in one.
        assert!(commons.untold.lock().iter().any(|(tag, scope)| *tag == part.tag && *scope == Untrue::All));
    }
}
