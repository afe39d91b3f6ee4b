//! The ledgers of lanes in Redis: a script for each question, a few keys for each ledger, and a channel for what all must hear at
//! once.
//!
//! The braces in `sopan:{5f3a…}:ledger` are a Cluster's: all that belongs to a lane lies on one of its nodes. Between them
//! stands a digest of what the upstream is called and where it is, so that no name can lead to another's key.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use parking_lot::Mutex;
use redis::{FromRedisValue, Value};
use sopan_core::lane::HeldBy;
use sopan_core::share::{Ask, HoldNews, Leased, MEMBERS_MAX, Members, TellHold, UNSEEN_AFTER};
use sopan_core::time::Instant;

use super::{Fault, Redis, Script};
use crate::shared::{Answer, Hear, Ledgers};

/// All ledgers that this instance reaches in Redis.
pub(crate) struct RedisLedgers {
    redis: Redis,
    prefix: String,
    /// What this instance is called there.
    instance: String,
    grace: Duration,
    ask: Script,
    hold: Script,
    members: Script,
    /// What the server's clock showed when it last said so, and when that was heard.
    clock: Mutex<Option<(u64, Instant)>>,
}

/// The members are remembered for so long beyond the grace.
const MEMBERS_LIVE: Duration = Duration::from_secs(60);
/// No instance is called so.
const NOBODY: &str = "?";

impl RedisLedgers {
    pub(crate) fn new(redis: Redis, prefix: String, instance: String, grace: Duration) -> Self {
        Self {
            redis,
            prefix,
            instance,
            grace,
            ask: Script::new(concat!(include_str!("ledger.lua"), include_str!("ask.lua"))),
            hold: Script::new(concat!(include_str!("ledger.lua"), include_str!("hold.lua"))),
            members: Script::new(include_str!("members.lua")),
            clock: Mutex::new(None),
        }
    }

    /// The keys of a lane's ledger, in the order in which the scripts know them.
    fn keys(&self, lane: &str) -> [String; 4] {
        ["ledger", "records", "hungry", "known"].map(|part| format!("{}:{{{lane}}}:{part}", self.prefix))
    }

    fn channel(&self) -> String {
        format!("{}:holds", self.prefix)
    }

    async fn ask_as(&self, instance: &str, lane: &str, ask: &Ask) -> Result<Leased, Fault> {
        let answer = self.redis.run(&self.ask, &self.keys(lane), &ask.args(instance)).await?;
        let numbers: Vec<i64> = read(answer)?;
        Leased::read(&numbers, ask.number).map_err(|error| Fault::Nonsense(error.to_string()))
    }

    /// Tells of this instance; answers how many are seen, and for how many a share is kept.
    async fn say(&self, what: &str, known: u32, valid_until: u64) -> Result<[u32; 2], Fault> {
        let key = format!("{}:members", self.prefix);
        let micros = |span: Duration| span.as_micros().to_string();
        let (instance, what, known) = (self.instance.clone(), what.to_owned(), known.to_string());
        let lives = (self.grace + MEMBERS_LIVE).as_millis().to_string();
        let args = [instance, what, micros(UNSEEN_AFTER), micros(self.grace), known, lives, valid_until.to_string()];
        let answer = self.redis.run(&self.members, &[key], &args).await?;
        let (members, at) = counted(read(answer)?)?;
        *self.clock.lock() = Some((at, self.redis.now()));
        Ok(members)
    }

    /// Until when by the server's clock somebody waits for an answer; zero if nothing is known of it. When that was heard, it
    /// showed more than what was said.
    fn valid_until(&self) -> u64 {
        let Some((at, heard)) = *self.clock.lock() else { return 0 };
        let since = self.redis.now().since(heard) + self.redis.timeout();
        at.saturating_add(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }
}

/// How many there are, and what the clock shows. To one that leaves or comes too late no number of those seen is told.
fn counted([seen, counted, at]: [i64; 3]) -> Result<([u32; 2], u64), Fault> {
    let number = |number: i64| u32::try_from(number).ok().filter(|number| *number <= MEMBERS_MAX);
    match (number(seen), number(counted), u64::try_from(at)) {
        (Some(seen), Some(counted), Ok(at)) if seen <= counted => Ok(([seen, counted], at)),
        _ => Err(Fault::Nonsense(format!("of {counted} instances it has seen {seen}, of at most {MEMBERS_MAX}"))),
    }
}

fn read<T: FromRedisValue>(answer: Value) -> Result<T, Fault> {
    T::from_redis_value(answer).map_err(|error| Fault::Nonsense(error.to_string()))
}

impl Ledgers for RedisLedgers {
    fn ask<'a>(&'a self, lane: &'a str, ask: &'a Ask) -> Answer<'a, Leased> {
        Box::pin(self.ask_as(&self.instance, lane, ask))
    }

    fn hold<'a>(&'a self, lane: &'a str, told: &'a TellHold) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut args = told.args();
            args.extend([self.channel(), written(lane, told.news, &self.instance)]);
            self.redis.run(&self.hold, &self.keys(lane), &args).await.map(drop)
        })
    }

    fn beat(&self, known: u32) -> Answer<'_, Members> {
        Box::pin(async move {
            // Once more where its clock was set, or is that of another server.
            for _ in 0..2 {
                let [seen, counted] = self.say("beat", known, self.valid_until()).await?;
                if seen > 0 {
                    return Ok(Members { seen, counted });
                }
            }
            Err(Fault::Slow(self.redis.timeout()))
        })
    }

    fn leave(&self) -> Answer<'_, ()> {
        Box::pin(async { self.say("leave", 1, 0).await.map(drop) })
    }

    fn is_in_parts(&self) -> bool {
        self.redis.url().is_cluster()
    }

    fn probe<'a>(&'a self, lane: &'a str, ask: &'a Ask) -> Answer<'a, ()> {
        Box::pin(async move { self.ask_as(NOBODY, lane, ask).await.map(drop) })
    }

    fn listen(&self, hear: Hear) -> Pin<Box<dyn Future<Output = Fault> + Send + '_>> {
        Box::pin(async move {
            let own = self.instance.clone();
            let tell = move |payload: &[u8]| {
                // What is no news of ours is somebody else's on the same channel.
                if let Some((lane, news)) = std::str::from_utf8(payload).ok().and_then(|text| heard(text, &own)) {
                    hear(lane, news);
                }
            };
            self.redis.listen(&self.channel(), tell).await
        })
    }
}

/// `5f3a… 1500000 upstream INSTANCE`: which lane, for how many µs from now, by whom, and who tells it. With 0 it is over.
fn written(lane: &str, news: HoldNews, instance: &str) -> String {
    let (micros, by) = match news {
        HoldNews::Held { remaining, by } => (remaining.as_micros().max(1), by),
        HoldNews::Released => (0, HeldBy::Operator),
    };
    let by = match by {
        HeldBy::Upstream => "upstream",
        HeldBy::Operator => "operator",
    };
    format!("{lane} {micros} {by} {instance}")
}

/// What others tell.
fn heard(text: &str, own: &str) -> Option<(String, HoldNews)> {
    let mut words = text.split(' ');
    let (lane, micros, by, instance) = (words.next()?, words.next()?, words.next()?, words.next()?);
    if instance == own {
        return None;
    }
    let by = match by {
        "upstream" => HeldBy::Upstream,
        "operator" => HeldBy::Operator,
        _ => return None,
    };
    let news = match micros.parse().ok()? {
        0 => HoldNews::Released,
        micros => HoldNews::Held { remaining: Duration::from_micros(micros), by },
    };
    Some((lane.to_owned(), news))
}

impl fmt::Debug for RedisLedgers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisLedgers({:?}, {})", self.redis, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_instances_that_cannot_be_are_nonsense() {
        for (answer, expected) in [([1, 1, 5], [1, 1]), ([0, 0, 5], [0, 0]), ([3, 4096, 5], [3, 4096])] {
            assert_eq!(counted(answer), Ok((expected, 5)));
        }
        for answer in [[-1, 1, 5], [1, -1, 5], [2, 1, 5], [1, 4097, 5], [1, i64::MAX, 5], [1, 1, -5], [i64::MIN, 4, 5]]
        {
            assert_eq!(counted(answer).map_err(|fault| fault.kind()), Err("nonsense"), "{answer:?}");
        }
    }

    #[test]
    fn what_is_told_of_a_pause_is_heard_by_all_others() {
        let remaining = Duration::from_millis(1_500);
        for news in [
            HoldNews::Held { remaining, by: HeldBy::Upstream },
            HoldNews::Held { remaining, by: HeldBy::Operator },
            HoldNews::Released,
        ] {
            let text = written("5f3a", news, "me");
            assert_eq!(heard(&text, "you"), Some(("5f3a".to_owned(), news)), "{text}");
            assert_eq!(heard(&text, "me"), None);
        }
        for text in ["", "5f3a", "5f3a x upstream me", "5f3a 1 nobody me", "5f3a -1 upstream me", "5f3a 1 upstream"] {
            assert_eq!(heard(text, "you"), None, "{text}");
        }
    }
}
