//! Is this instance in step with the others?
//!
//! It is, while it hears what is told to all without a gap: each notice of an upstream has a number and the one before. To come
//! in step it listens first, asks then how far the purges have come, and drops what it has of an upstream where that is not
//! what it knew: it cannot say what of it is still true. What the others do not know yet they are told before that. A
//! connection may be dead without a word, so twice a second it is asked whether a notice did not come.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use sopan_core::time::Instant;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Commons;
use super::part::{Part, ServerTime};
use super::server::{Known, Notice, Purges, Step, Untrue};
use crate::clock::Clock;
use crate::store::Cache;
use crate::store::key::{Key, Scope};

/// So often it is looked whether a notice did not come, which is known by the next look.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// So often it is noted how far it has heard, for a process that ends without order.
const NOTE_EVERY: Duration = Duration::from_secs(30);
/// So often it is tried to come in step again.
const TRY_EVERY: Duration = Duration::from_secs(1);
/// The log does not tell sooner again that nothing is in common.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// The longest that it may take until it can be heard what is told to all.
const LISTEN_MAX: Duration = Duration::from_secs(5);

/// Keeps an instance in step until its cache is gone.
pub(in crate::store) async fn keep(cache: Weak<Cache>, commons: Arc<Commons>) {
    let to_do = std::mem::take(&mut *commons.to_do.lock());
    if to_do.is_empty() {
        // Somebody does already.
        return;
    }
    let mut strands = JoinSet::new();
    to_do.into_iter().for_each(|to_do| drop(strands.spawn(Arc::clone(&commons).work(to_do))));
    // They end with it.
    watch(cache, &commons).await;
}

async fn watch(cache: Weak<Cache>, commons: &Arc<Commons>) {
    let mut trouble = Trouble::default();
    let watch = Watch { cache, commons };
    while watch.cache.strong_count() > 0 {
        let (missed, failed) = match watch.come_in_step().await {
            Ok(notices) => {
                trouble.is_over();
                let missed = watch.stay_in_step(notices).await;
                commons.is_in_step.store(false, Ordering::Release);
                // What they wait for they would not hear.
                commons.waiting.tell_all();
                (missed, commons.lost.lock().take())
            }
            Err(why) => (None, Some(why)),
        };
        let Some(why) = failed.as_ref().or(missed.as_ref()) else { continue };
        trouble.goes_on(why, commons.clock.now());
        // What was missed is caught up with at once: until then what is here may be untrue.
        if failed.is_some() {
            sleep(TRY_EVERY).await;
        }
    }
}

/// What was logged of a while in which nothing is in common.
#[derive(Default)]
struct Trouble {
    told: Option<Instant>,
    is_open: bool,
}

impl Trouble {
    fn goes_on(&mut self, why: &str, now: Instant) {
        if self.is_open || self.told.is_some_and(|told| now.since(told) < TELL_EVERY) {
            return;
        }
        (self.told, self.is_open) = (Some(now), true);
        tracing::warn!(
            "stored answers are not shared with other instances ({why}); sopan goes on with those that it has itself"
        );
    }

    fn is_over(&mut self) {
        if std::mem::take(&mut self.is_open) {
            tracing::info!("stored answers are shared with other instances again");
        }
    }
}

struct Watch<'a> {
    cache: Weak<Cache>,
    commons: &'a Arc<Commons>,
}

impl Watch<'_> {
    /// Listens, and catches up with what was missed; or says why that cannot be.
    async fn come_in_step(&self) -> Result<mpsc::Receiver<Notice>, String> {
        let commons = self.commons;
        // To be heard takes a connection of its own.
        let listening = timeout(LISTEN_MAX, commons.server.listen()).await;
        let notices = match listening {
            Ok(notices) => notices.map_err(|error| error.to_string())?,
            Err(_) => return Err(format!("it cannot be listened to within {LISTEN_MAX:?}")),
        };
        let parts = commons.parts.read().clone();
        let caught = self.catch_up(&parts).await?;
        for (part, purges) in parts.iter().zip(caught) {
            if part.known.lock().number != purges.number {
                self.untrue_here(part, &Untrue::All).await;
            }
            *part.known.lock() = purges;
            part.is_in_doubt.store(false, Ordering::Relaxed);
        }
        loop {
            let Some((tag, scope)) = commons.untold.lock().front().cloned() else { break };
            let told = commons.hear(commons.server.make_untrue(tag, commons.instance, &scope)).await;
            told.map_err(|error| error.to_string())?;
            // Nobody else takes anything off; it may have become more meanwhile, and its beginning another.
            let mut untold = commons.untold.lock();
            if untold.front().is_some_and(|front| *front == (tag, scope)) {
                untold.pop_front();
            }
        }
        // One that has joined meanwhile has not caught up.
        if commons.parts.read().len() == parts.len() {
            commons.is_in_step.store(true, Ordering::Release);
        } else {
            commons.stir.notify_one();
        }
        Ok(notices)
    }

    /// Hears what is told until that ends; says why, if it was no wish of ours.
    async fn stay_in_step(&self, mut notices: mpsc::Receiver<Notice>) -> Option<String> {
        let clock = self.commons.clock;
        let mut expected = Vec::new();
        let mut look = Look::after(clock, LOOK_EVERY);
        let mut note = Look::after(clock, NOTE_EVERY);
        loop {
            tokio::select! {
                // What was told first is heard first.
                biased;
                notice = notices.recv() => match notice {
                    Some(notice) => {
                        if let Err(why) = self.hear(notice).await {
                            return Some(why);
                        }
                    }
                    None => return Some("the connection on which it tells what becomes untrue was closed".to_owned()),
                },
                () = self.commons.stir.notified() => {
                    if !self.commons.is_in_step() {
                        return None;
                    }
                }
                () = look.comes() => {
                    if self.cache.strong_count() == 0 {
                        return None;
                    }
                    match self.look(std::mem::take(&mut expected)).await {
                        Ok(next) => expected = next,
                        Err(why) => return Some(why),
                    }
                    look = Look::after(clock, LOOK_EVERY);
                }
                () = note.comes() => {
                    if let Some(cache) = self.cache.upgrade() {
                        // Nobody waits for it.
                        drop(tokio::task::spawn_blocking(move || cache.note_heard()));
                    }
                    note = Look::after(clock, NOTE_EVERY);
                }
            }
        }
    }

    async fn hear(&self, notice: Notice) -> Result<(), String> {
        let (tag, by, step, scope) = match notice {
            Notice::LetGo(course) => {
                self.commons.waiting.tell(course);
                return Ok(());
            }
            Notice::Untrue { tag, by, step, scope } => (tag, by, step, scope),
        };
        let parts = self.commons.parts.read().clone();
        for part in parts.iter().filter(|part| part.tag == tag) {
            let Step { before, number } = step;
            let known = part.known.lock().number;
            if number <= known {
                continue;
            }
            // Beside all nothing counts that was missed.
            if before != known && scope != Untrue::All {
                // It has forgotten what it has said before.
                part.is_in_doubt.fetch_or(before < known, Ordering::Relaxed);
                return Err("a notice of what became untrue was missed".to_owned());
            }
            if by != self.commons.instance || before != known {
                self.untrue_here(part, &scope).await;
            }
            part.step(step, &scope);
        }
        Ok(())
    }

    /// Looks whether something was told that has not come since the last look. Answers what is to have come by the next one.
    async fn look(&self, expected: Vec<(Known, u64)>) -> Result<Vec<(Known, u64)>, String> {
        let parts = self.commons.parts.read().clone();
        for (known, number) in expected {
            let is_late = |part: &Arc<Part>| part.tag == known.tag && part.known.lock().number < number;
            if parts.iter().any(is_late) {
                return Err("a notice of what became untrue did not come".to_owned());
            }
        }
        let caught = self.catch_up(&parts).await?;
        let numbers = parts.iter().map(|part| part.known()).zip(caught.iter().map(|purges| purges.number));
        Ok(numbers.filter(|(known, number)| known.number < *number).collect())
    }

    /// What was purged of each, by what the server says.
    async fn catch_up(&self, parts: &[Arc<Part>]) -> Result<Vec<Purges>, String> {
        let commons = self.commons;
        let known: Vec<_> = parts.iter().map(|part| part.known()).collect();
        let asked = commons.clock.now();
        let caught = commons.hear(commons.server.catch_up(&known)).await.map_err(|error| error.to_string())?;
        if caught.len() != known.len() {
            return Err("it answers for other upstreams than it was asked for".to_owned());
        }
        let heard = commons.clock.now();
        for (part, caught) in parts.iter().zip(&caught) {
            *part.time.lock() = Some(ServerTime { asked, heard, time: caught.time });
        }
        Ok(caught.into_iter().map(|caught| caught.purges).collect())
    }

    /// Drops what is untrue of what this instance has.
    async fn untrue_here(&self, part: &Part, scope: &Untrue) {
        let Some(cache) = self.cache.upgrade() else { return };
        let upstream = part.name.to_string();
        let scope = match scope {
            Untrue::Target { target, .. } => {
                let key = Key::new(&part.name, part.place, target);
                cache.doom(|doomed| *doomed == key);
                return cache.untrue_here(&key);
            }
            Untrue::Below(path) => Scope::Below { upstream, path: path.clone() },
            Untrue::All => Scope::Below { upstream, path: String::new() },
        };
        // There may be a million of them. It is given up only with the runtime.
        let _ = tokio::task::spawn_blocking(move || cache.purge_here(&scope)).await;
    }
}

/// When it is looked next.
struct Look(Clock, Instant);

impl Look {
    fn after(clock: Clock, span: Duration) -> Self {
        Self(clock, clock.now().after(span))
    }

    fn comes(&self) -> impl Future<Output = ()> + '_ {
        self.0.sleep_until(self.1)
    }
}
