//! Redis as a server of answers in common, or Valkey.
//!
//! All that belongs to an upstream lies in keys with its tag in braces, so that in a Cluster one script may touch it: what is
//! known of its purges, the answers for each target as a hash with a field for each slot, and who leads in each course. Each
//! call is one script or one command, and what is told to all goes over one channel. The connection is one of its own, lest a
//! large answer hold up what the limits have to say.

mod notice;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use redis::{Cmd, Value};
use tokio::sync::{Notify, mpsc, oneshot};

use super::server::{
    CaughtUp, CommonsError, CommonsServer, Fetched, Known, Lead, Led, Notice, Purges, Put, Reply, Step, Target, Untrue,
};
use super::{BELOW_MAX, Name, Slot, Tag, Whose};
use crate::clock::Clock;
use crate::store::redis::{Fault, Redis, RedisSettings, RedisSetupError, Script};

/// How long what is known of purges is kept: longer than any answer.
const KNOWN_MS: u64 = 2 * 86_400_000;
/// How long a target remembers that it was made untrue: far longer than anybody does not hear of that and is in step.
const UNTRUE_MS: u64 = 600_000;
/// As many answers as a target has in memory.
const SLOTS_MAX: usize = crate::store::entry::VARIANTS_MAX;
/// So many notices may wait to be heard; beyond that they are caught up with.
const NOTICES_MAX: usize = 4096;

/// Answers in Redis.
pub(crate) struct RedisCommons {
    redis: Redis,
    prefix: Box<str>,
    channel: Box<str>,
    instance: u64,
    /// So many bytes are enough of one target: a reply that takes too long is of no use.
    enough: u64,
    scripts: Scripts,
}

struct Scripts {
    catch_up: Script,
    make_untrue: Script,
    put: Script,
    fetch: Script,
    let_go: Script,
}

impl fmt::Debug for RedisCommons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisCommons({:?})", self.redis)
    }
}

impl RedisCommons {
    pub(super) fn new(
        settings: RedisSettings,
        prefix: &str,
        instance: u64,
        enough: u64,
        clock: Clock,
    ) -> Result<Self, RedisSetupError> {
        let scripts = Scripts {
            catch_up: Script::new(concat!(include_str!("redis/ours.lua"), include_str!("redis/catch_up.lua"))),
            make_untrue: Script::new(concat!(include_str!("redis/ours.lua"), include_str!("redis/make_untrue.lua"))),
            put: Script::new(concat!(include_str!("redis/ours.lua"), include_str!("redis/put.lua"))),
            fetch: Script::new(concat!(include_str!("redis/ours.lua"), include_str!("redis/fetch.lua"))),
            let_go: Script::new(concat!(include_str!("redis/ours.lua"), include_str!("redis/let_go.lua"))),
        };
        let (redis, channel) = (Redis::new(settings, reply_max(enough), clock)?, format!("{prefix}:answers").into());
        Ok(Self { redis, prefix: prefix.into(), channel, instance, enough, scripts })
    }

    fn key(&self, tag: Tag, what: fmt::Arguments<'_>) -> String {
        format!("{}:{{{tag}}}:{what}", self.prefix)
    }

    fn purges(&self, tag: Tag) -> String {
        self.key(tag, format_args!("purges"))
    }

    fn answers(&self, Target { tag, name }: Target) -> String {
        self.key(tag, format_args!("answer:{name}"))
    }

    fn course(&self, tag: Tag, course: Name) -> String {
        self.key(tag, format_args!("lead:{course}"))
    }

    async fn run(&self, script: &Script, keys: &[String], args: &[Vec<u8>]) -> Result<Value, CommonsError> {
        self.redis.run(script, keys, args).await.map_err(lost)
    }

    async fn catch_up_one(&self, Known { tag, number, is_in_doubt }: Known) -> Result<CaughtUp, CommonsError> {
        let args = [
            text(number),
            text(u8::from(is_in_doubt)),
            text(&self.channel),
            text(format_args!("{:016x}", self.instance)),
            text(tag),
            text(KNOWN_MS),
        ];
        let answer = self.run(&self.scripts.catch_up, &[self.purges(tag)], &args).await?;
        read::caught_up(answer).ok_or_else(nonsense)
    }

    async fn fetch_some(&self, of: Target, whose: &[Whose], lead: Option<Lead>) -> Result<Fetched, CommonsError> {
        let (token, ends_after) = lead.map_or_else(
            || (Vec::new(), Duration::ZERO),
            |lead| (text(format_args!("{:032x}", lead.token)), lead.ends_after),
        );
        let (enough, most) = (self.enough, value_max(self.enough));
        let mut args = vec![token, text(ends_after.as_millis().max(1)), text(enough), text(most)];
        args.extend(whose.iter().map(|Whose(whose)| whose.to_vec()));
        let course = self.course(of.tag, lead.map_or(of.name, |lead| lead.course));
        let answer = self.run(&self.scripts.fetch, &[self.answers(of), course], &args).await?;
        read::fetched(answer).ok_or_else(nonsense)
    }
}

impl CommonsServer for RedisCommons {
    fn listen(&self) -> Reply<'_, mpsc::Receiver<Notice>> {
        let (redis, channel) = (self.redis.clone(), self.channel.clone());
        Box::pin(async move {
            let (notices, heard) = mpsc::channel(NOTICES_MAX);
            let (begun, begins) = oneshot::channel();
            // Who asked may have gone.
            let begun = move || begun.send(()).unwrap_or_default();
            let overrun = Arc::new(Notify::new());
            let (sender, too_many) = (notices.clone(), Arc::clone(&overrun));
            let hear = move |payload: &[u8]| {
                let is_heard = notice::read(payload).map(|notice| sender.try_send(notice));
                if !matches!(is_heard, Some(Ok(()))) {
                    too_many.notify_one();
                }
            };
            let listening = tokio::spawn(async move {
                tokio::select! {
                    fault = redis.listen_from(&channel, begun, hear) => Some(fault),
                    () = overrun.notified() => None,
                    () = notices.closed() => None,
                }
            });
            match begins.await {
                Ok(()) => Ok(heard),
                Err(_) => Err(match listening.await {
                    Ok(Some(fault)) => lost(fault),
                    _ => nonsense(),
                }),
            }
        })
    }

    fn catch_up<'a>(&'a self, known: &'a [Known]) -> Reply<'a, Vec<CaughtUp>> {
        Box::pin(all_at_once(known.iter().map(|known| self.catch_up_one(*known))))
    }

    fn fetch<'a>(&'a self, of: Target, whose: &'a [Whose], lead: Option<Lead>) -> Reply<'a, Fetched> {
        Box::pin(self.fetch_some(of, whose, lead))
    }

    fn lead(&self, tag: Tag, lead: Lead) -> Reply<'_, Led> {
        Box::pin(async move {
            let of = Target { tag, name: lead.course };
            match self.fetch_some(of, &[], Some(lead)).await? {
                Fetched::Nothing(Some(led)) => Ok(led),
                Fetched::Nothing(None) | Fetched::Found(_) => Err(nonsense()),
            }
        })
    }

    fn let_go(&self, tag: Tag, lead: Lead) -> Reply<'_, ()> {
        Box::pin(async move {
            let args = [text(format_args!("{:032x}", lead.token)), text(&self.channel), text(lead.course)];
            self.run(&self.scripts.let_go, &[self.course(tag, lead.course)], &args).await.map(drop)
        })
    }

    fn put(&self, of: Target, put: Put) -> Reply<'_, bool> {
        Box::pin(async move {
            let mut args = vec![
                text(put.number),
                put.slot.0.to_vec(),
                put.value.to_vec(),
                text(put.ttl.as_millis().max(1)),
                text(KNOWN_MS),
                // Beside one that says when it was made untrue.
                text(SLOTS_MAX + 1),
            ];
            args.extend(put.replaces.iter().map(|Slot(slot)| slot.to_vec()));
            match self.run(&self.scripts.put, &[self.purges(of.tag), self.answers(of)], &args).await? {
                Value::Int(is_kept) => Ok(is_kept == 1),
                _ => Err(nonsense()),
            }
        })
    }

    fn remove<'a>(&'a self, of: Target, slots: &'a [Slot]) -> Reply<'a, ()> {
        Box::pin(async move {
            let mut remove = Cmd::new();
            remove.arg("HDEL").arg(self.answers(of));
            for Slot(slot) in slots {
                remove.arg(&slot[..]);
            }
            self.redis.send(&remove).await.map(drop).map_err(lost)
        })
    }

    fn make_untrue<'a>(&'a self, tag: Tag, by: u64, scope: &'a Untrue) -> Reply<'a, Step> {
        Box::pin(async move {
            let args = [
                notice::scope(scope).into_bytes(),
                text(&self.channel),
                text(format_args!("{by:016x}")),
                text(tag),
                text(KNOWN_MS),
                text(UNTRUE_MS),
                text(BELOW_MAX),
            ];
            let purges = self.purges(tag);
            let answers = match scope {
                Untrue::Target { name, .. } => self.answers(Target { tag, name: *name }),
                Untrue::Below(_) | Untrue::All => purges.clone(),
            };
            let answer = self.run(&self.scripts.make_untrue, &[purges, answers], &args).await?;
            read::step(answer).ok_or_else(nonsense)
        })
    }
}

/// The largest value, where so many bytes are the most that a body has: with its head, and what it grows by where it cannot be
/// compressed.
fn value_max(body: u64) -> u64 {
    body + (1 << 20)
}

/// Of several there are at most as many as are enough, and one more.
fn reply_max(enough: u64) -> usize {
    usize::try_from(2 * value_max(enough)).unwrap_or(usize::MAX)
}

fn text(what: impl fmt::Display) -> Vec<u8> {
    what.to_string().into_bytes()
}

fn lost(fault: Fault) -> CommonsError {
    match fault {
        // The library tells this word of the server's from others by its text alone.
        Fault::Refused(said) if said.contains("OOM") => CommonsError::Full(said),
        fault => CommonsError::Lost(format!("Redis {fault}")),
    }
}

fn nonsense() -> CommonsError {
    CommonsError::Lost("Redis answers what makes no sense".to_owned())
}

/// The results of all, which are asked for at the same time; or the first failure.
async fn all_at_once<'a, T: 'a>(
    asked: impl Iterator<Item = impl Future<Output = Result<T, CommonsError>> + Send + 'a>,
) -> Result<Vec<T>, CommonsError> {
    let mut under_way: Vec<_> = asked.map(|asking| (Box::pin(asking) as Reply<'a, T>, None)).collect();
    std::future::poll_fn(move |cx| {
        for (asking, answer) in &mut under_way {
            if answer.is_some() {
                continue;
            }
            if let Poll::Ready(ready) = Pin::new(asking).poll(cx) {
                match ready {
                    Ok(ready) => *answer = Some(ready),
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
        }
        match under_way.iter().all(|(_, answer)| answer.is_some()) {
            true => Poll::Ready(Ok(under_way.iter_mut().filter_map(|(_, answer)| answer.take()).collect())),
            false => Poll::Pending,
        }
    })
    .await
}

/// What scripts answer.
mod read {
    use super::*;

    pub(super) fn caught_up(answer: Value) -> Option<CaughtUp> {
        let [time, fields] = array(answer)?.try_into().ok()?;
        let mut purges = Purges::default();
        let mut fields = array(fields)?.into_iter();
        while let (Some(field), Some(value)) = (fields.next(), fields.next()) {
            let (field, value) = (string(field)?, number(value)?);
            match &*field {
                "number" => purges.number = value,
                "all" => purges.all = value,
                "swept" => {}
                _ => purges.below.push((field, value)),
            }
        }
        (purges.number > 0).then_some(CaughtUp { time: number(time)?, purges })
    }

    pub(super) fn fetched(answer: Value) -> Option<Fetched> {
        let [found, led] = array(answer)?.try_into().ok()?;
        let mut values = Vec::new();
        let mut found = array(found)?.into_iter();
        while let (Some(slot), Some(value)) = (found.next(), found.next()) {
            values.push((Slot(bytes(slot)?.as_slice().try_into().ok()?), Bytes::from(bytes(value)?)));
        }
        let led = match led {
            Value::Int(..0) => None,
            Value::Int(0) => Some(Led::ByMe),
            Value::Int(left) => Some(Led::ByAnother(Duration::from_millis(left.unsigned_abs()))),
            _ => return None,
        };
        Some(if values.is_empty() { Fetched::Nothing(led) } else { Fetched::Found(values) })
    }

    pub(super) fn step(answer: Value) -> Option<Step> {
        let [before, after] = array(answer)?.try_into().ok()?;
        Some(Step { before: number(before)?, number: number(after)? })
    }

    fn array(value: Value) -> Option<Vec<Value>> {
        match value {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    fn bytes(value: Value) -> Option<Vec<u8>> {
        match value {
            Value::BulkString(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn string(value: Value) -> Option<String> {
        String::from_utf8(bytes(value)?).ok()
    }

    fn number(value: Value) -> Option<u64> {
        string(value)?.parse().ok()
    }
}
