//! A server of answers in common, in memory and on tokio's clock. It does what scripts do in Redis: `commons::redis` in the
//! tests holds one against the other.
//!
//! Each instance has a [`Link`] of its own to it, which a test may cut, slow down or make deaf.

use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use sopan_engine::commons::{
    CaughtUp, CommonsError, CommonsServer, Fetched, Known, Lead, Led, Name, Notice, Purges, Put, Reply, Slot, Step,
    Tag, Target, Untrue, Whose,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::now;

/// What all instances have in common.
#[derive(Debug)]
pub(crate) struct Commons {
    begun: Instant,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    purges: HashMap<Tag, State>,
    answers: HashMap<Target, Answers>,
    leads: HashMap<(Tag, Name), Leads>,
    /// Each by the number of its link.
    listeners: Vec<(usize, mpsc::Sender<Notice>)>,
    links: usize,
    /// How often it was asked for answers.
    fetches: usize,
}

#[derive(Debug, Default, Clone)]
struct State {
    purges: Purges,
    swept: u64,
}

#[derive(Debug)]
struct Answers {
    values: BTreeMap<[u8; 16], Bytes>,
    gone: u64,
    until: Instant,
}

#[derive(Debug)]
struct Leads {
    token: u128,
    until: Instant,
    is_awaited: bool,
}

/// How an instance reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Open,
    Cut,
    /// Each question takes so long on its way.
    Slow(Duration),
    /// Each answer does.
    Late(Duration),
    /// What is told to all does not come, and nobody says so.
    Deaf,
}

/// One instance's way to it.
#[derive(Debug)]
pub(crate) struct Link {
    commons: Arc<Commons>,
    number: usize,
    way: Arc<Mutex<Way>>,
}

const BELOW_MAX: usize = 64;
const UNTRUE_FOR: Duration = Duration::from_secs(600);
/// Tue, 10 Mar 2026 12:00:00 GMT, by a clock that is not that of any instance.
const BEGUN: u64 = 1_773_144_000_000_000 + 3_600_000_000;

impl Commons {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { begun: now(), inner: Mutex::default() })
    }

    pub(crate) fn link(self: &Arc<Self>) -> Arc<Link> {
        let mut inner = self.inner.lock();
        inner.links += 1;
        Arc::new(Link { commons: Arc::clone(self), number: inner.links, way: Arc::new(Mutex::new(Way::Open)) })
    }

    /// Forgets everything, as after a restart.
    pub(crate) fn flush(&self) {
        let mut inner = self.inner.lock();
        inner.purges.clear();
        inner.answers.clear();
        inner.leads.clear();
    }

    /// Loses the answers, and nothing else.
    pub(crate) fn forget_answers(&self) {
        self.inner.lock().answers.clear();
    }

    /// Loses the latest that was made untrue, as a failover may, but not that it was told.
    pub(crate) fn forget_latest(&self, before: &Purges) {
        let mut inner = self.inner.lock();
        let known = inner.purges.values_mut().next().unwrap();
        known.purges = before.clone();
    }

    pub(crate) fn purges(&self) -> Purges {
        self.inner.lock().purges.values().next().unwrap().purges.clone()
    }

    pub(crate) fn fetches(&self) -> usize {
        self.inner.lock().fetches
    }

    /// How many values there are.
    pub(crate) fn count(&self) -> usize {
        self.inner.lock().answers.values().map(|answers| answers.values.len()).sum()
    }

    /// Changes each value.
    pub(crate) fn damage(&self, change: impl Fn(&mut Vec<u8>)) {
        for value in self.inner.lock().answers.values_mut().flat_map(|answers| answers.values.values_mut()) {
            let mut changed = value.to_vec();
            change(&mut changed);
            *value = changed.into();
        }
    }

    /// The only value.
    pub(crate) fn only(&self) -> Bytes {
        let inner = self.inner.lock();
        let mut values = inner.answers.values().flat_map(|answers| answers.values.values());
        let only = values.next().unwrap().clone();
        assert_eq!(values.next(), None);
        only
    }

    fn time(&self) -> u64 {
        BEGUN + u64::try_from((now() - self.begun).as_micros()).unwrap()
    }
}

impl Inner {
    fn tell(&mut self, notice: &Notice) {
        self.listeners.retain(|(_, listener)| listener.try_send(notice.clone()).is_ok());
    }

    fn answers(&mut self, of: Target) -> Option<&mut Answers> {
        self.answers.get_mut(&of).filter(|answers| answers.until > now())
    }

    fn answers_or_new(&mut self, of: Target) -> &mut Answers {
        let new = || Answers { values: BTreeMap::new(), gone: 0, until: now() };
        let answers = self.answers.entry(of).or_insert_with(new);
        if answers.until < now() {
            *answers = new();
        }
        answers
    }
}

impl Link {
    pub(crate) fn set(&self, way: Way) {
        *self.way.lock() = way;
        if way == Way::Cut {
            // What it has open is cut, too.
            self.commons.inner.lock().listeners.retain(|(number, _)| *number != self.number);
        }
    }

    /// Answers what there is, if that can be.
    fn reply<'a, T: Send + 'a>(&'a self, answer: impl FnOnce(&Commons, &mut Inner) -> T + Send + 'a) -> Reply<'a, T> {
        Box::pin(async move {
            let way = *self.way.lock();
            match way {
                Way::Open | Way::Deaf | Way::Late(_) => {}
                Way::Slow(span) => sleep(span).await,
                Way::Cut => return Err(CommonsError::Lost("the way is cut".to_owned())),
            }
            let answer = answer(&self.commons, &mut self.commons.inner.lock());
            if let Way::Late(span) = way {
                sleep(span).await;
            }
            Ok(answer)
        })
    }
}

impl CommonsServer for Link {
    fn listen(&self) -> Reply<'_, mpsc::Receiver<Notice>> {
        let deaf = Arc::clone(&self.way);
        self.reply(move |_, inner| {
            let (told, mut tells) = mpsc::channel::<Notice>(100);
            let (sender, heard) = mpsc::channel(100);
            inner.listeners.push((self.number, told));
            tokio::spawn(async move {
                while let Some(notice) = tells.recv().await {
                    if *deaf.lock() != Way::Deaf && sender.send(notice).await.is_err() {
                        return;
                    }
                }
                // One that is deaf does not hear that it is over either.
                if *deaf.lock() == Way::Deaf {
                    pending::<()>().await;
                }
            });
            heard
        })
    }

    fn catch_up<'a>(&'a self, known: &'a [Known]) -> Reply<'a, Vec<CaughtUp>> {
        self.reply(move |commons, inner| {
            let time = commons.time();
            let mut all = Vec::new();
            for known in known {
                let at = inner.purges.entry(known.tag).or_default();
                let before = at.purges.number;
                if before == 0 || before < known.number || known.is_in_doubt {
                    let number = time.max(known.number + 1).max(before + 1);
                    *at = State { purges: Purges { number, all: number, below: Vec::new() }, swept: number };
                    let (tag, step) = (known.tag, Step { before, number });
                    inner.tell(&Notice::Untrue { tag, by: 0, step, scope: Untrue::All });
                }
                all.push(CaughtUp { time, purges: inner.purges[&known.tag].purges.clone() });
            }
            all
        })
    }

    fn fetch<'a>(&'a self, of: Target, whose: &'a [Whose], lead: Option<Lead>) -> Reply<'a, Fetched> {
        self.reply(move |_, inner| {
            inner.fetches += 1;
            let values = inner.answers(of).map_or_else(Vec::new, |answers| {
                let all = answers.values.iter().map(|(slot, value)| (Slot(*slot), value.clone()));
                all.filter(|(slot, _)| whose.contains(&slot.whose())).collect()
            });
            match values.is_empty() {
                true => Fetched::Nothing(lead.map(|lead| lead_in(inner, of.tag, lead))),
                false => Fetched::Found(values),
            }
        })
    }

    fn lead(&self, tag: Tag, lead: Lead) -> Reply<'_, Led> {
        self.reply(move |_, inner| lead_in(inner, tag, lead))
    }

    fn let_go(&self, tag: Tag, lead: Lead) -> Reply<'_, ()> {
        self.reply(move |_, inner| {
            let leads = inner.leads.get(&(tag, lead.course)).filter(|leads| leads.until > now());
            if leads.is_some_and(|leads| leads.token == lead.token) {
                let is_awaited = inner.leads.remove(&(tag, lead.course)).unwrap().is_awaited;
                if is_awaited {
                    inner.tell(&Notice::LetGo(lead.course));
                }
            }
        })
    }

    fn put(&self, of: Target, put: Put) -> Reply<'_, bool> {
        self.reply(move |_, inner| {
            let Some(known) = inner.purges.get(&of.tag) else { return false };
            if put.number < known.swept {
                return false;
            }
            let answers = inner.answers_or_new(of);
            if put.number < answers.gone {
                return false;
            }
            put.replaces.iter().for_each(|Slot(slot)| drop(answers.values.remove(slot)));
            answers.values.insert(put.slot.0, put.value);
            answers.until = answers.until.max(now() + put.ttl);
            true
        })
    }

    fn remove<'a>(&'a self, of: Target, slots: &'a [Slot]) -> Reply<'a, ()> {
        self.reply(move |_, inner| {
            if let Some(answers) = inner.answers(of) {
                slots.iter().for_each(|Slot(slot)| drop(answers.values.remove(slot)));
            }
        })
    }

    fn make_untrue<'a>(&'a self, tag: Tag, by: u64, scope: &'a Untrue) -> Reply<'a, Step> {
        self.reply(move |commons, inner| {
            let time = commons.time();
            let before = inner.purges.get(&tag).map_or(0, |known| known.purges.number);
            let number = time.max(before + 1);
            if let Untrue::Target { name, .. } = scope {
                let answers = inner.answers_or_new(Target { tag, name: *name });
                *answers = Answers { values: BTreeMap::new(), gone: number, until: now() + UNTRUE_FOR };
            }
            let known = inner.purges.entry(tag).or_default();
            let mut scope = scope.clone();
            if let Untrue::Below(path) = &scope {
                known.purges.below.retain(|(other, _)| other != path);
                known.purges.below.push((path.clone(), number));
                known.swept = number;
            }
            if scope == Untrue::All || before == 0 || known.purges.below.len() > BELOW_MAX {
                scope = Untrue::All;
                *known = State { purges: Purges { number, all: number, below: Vec::new() }, swept: number };
            }
            known.purges.number = number;
            let step = Step { before, number };
            inner.tell(&Notice::Untrue { tag, by, step, scope });
            step
        })
    }
}

fn lead_in(inner: &mut Inner, tag: Tag, lead: Lead) -> Led {
    let key = (tag, lead.course);
    if let Some(leads) = inner.leads.get_mut(&key).filter(|leads| leads.until > now()) {
        leads.is_awaited = true;
        return Led::ByAnother(leads.until - now());
    }
    let leads = Leads { token: lead.token, until: now() + lead.ends_after, is_awaited: false };
    inner.leads.insert(key, leads);
    Led::ByMe
}
