//! How do answers of other instances come into this one?
//!
//! Who finds no answer at hand asks once for those that are for it. What comes is taken into memory beside what is there, so that
//! those who ask next find it; not where something has made it untrue meanwhile, or where what is there is as young.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sopan_core::cache::vary::Selecting;
use sopan_core::cache::{Owner, Stored, Times};
use sopan_core::policy::PathTreatment;

use super::lead::{Awaited, CommonLead};
use super::part::Part;
use super::server::{Fetched, Led};
use super::value::{Unread, Written};
use super::work::{Work, target};
use super::{Commons, Name, Slot, Whose, count};
use crate::store::entry::{Body, Entry, Variant};
use crate::store::{Cache, Epoch, Key};

/// An answer takes the place of another only if it came so much later: what came at once is the same, and the clocks of two
/// machines are known no better.
const LATER: Duration = Duration::from_millis(100);

/// More than this is not unpacked for one request: compressed, a reply may hold very much.
const READ_MAX: usize = 16 << 20;

/// Requests that may be given the same answer.
#[derive(Debug)]
pub(crate) struct Course<'a> {
    pub(crate) key: &'a Key,
    pub(crate) host: &'a [u8],
    pub(crate) owner: Option<Owner>,
    /// By what they are told apart that ask the same.
    pub(crate) told_apart: Option<&'a Selecting>,
    /// Whether nobody else is asked (`only-if-cached`), so that it is worth it in any case.
    pub(crate) is_last_resort: bool,
}

/// What there is in common for a request.
#[derive(Debug)]
pub(crate) enum InCommon {
    /// More than was at hand: all that there is now.
    Found(Arc<Entry>),
    /// Nothing new. Who wanted to lead does, if somebody can.
    Nothing(Option<CommonLead>),
    /// Nothing new yet: another instance has asked.
    Awaited(Awaited),
}

impl Cache {
    /// Asks for what other instances have stored for such requests. `at_hand` is all that is here. Who goes to the upstream for
    /// want of it, and may do so for others too, says for how long that may last at most.
    pub(crate) async fn ask_in_common(
        &self,
        course: &Course<'_>,
        at_hand: Option<&Arc<Entry>>,
        rule: Option<PathTreatment>,
        leads_for: Option<Duration>,
    ) -> InCommon {
        let Some(There { commons, part }) = self.there(course.key) else { return InCommon::Nothing(None) };
        if !course.is_last_resort && !part.is_worth_asking() {
            return InCommon::Nothing(None);
        }
        let mut whose = vec![Whose::of(course.host, None)];
        if course.owner.is_some() {
            whose.push(Whose::of(course.host, course.owner));
        }
        let of = target(&part, course.key);
        let would_lead = leads_for.map(|ends_after| {
            let name = Name::of_course(course.key, whose[whose.len() - 1], course.told_apart);
            CommonLead::asked(&commons, of, name, ends_after)
        });
        let lead = would_lead.as_ref().map(CommonLead::wish);
        // From before it is asked, lest that end between the answer and the wait for it.
        let expecting = lead.map(|lead| commons.waiting.expect(lead.course));
        let since = self.epoch();
        let Some(fetched) = commons.ask(commons.server.fetch(of, &whose, lead)).await else {
            return InCommon::Nothing(None);
        };
        let led = match fetched {
            Fetched::Nothing(led) => {
                count(&commons.counts.missed);
                led
            }
            Fetched::Found(values) => {
                let read = commons.read(&part, course.key, values, rule);
                if let Some(entry) = self.take(course.key, at_hand, read, since) {
                    count(&commons.counts.found);
                    part.is_of_use();
                    would_lead.into_iter().for_each(CommonLead::does_not);
                    return InCommon::Found(entry);
                }
                count(&commons.counts.missed);
                match lead {
                    Some(lead) => commons.ask(commons.server.lead(part.tag, lead)).await,
                    None => None,
                }
            }
        };
        match (led, would_lead, expecting) {
            (Some(Led::ByMe), Some(lead), _) => InCommon::Nothing(Some(lead)),
            (Some(Led::ByAnother(ends_after)), Some(lead), Some(expecting)) => {
                lead.does_not();
                InCommon::Awaited(Awaited { commons, expecting, ends_after })
            }
            _ => InCommon::Nothing(None),
        }
    }

    /// The same for one who has found more, and that will not do either: it may lead.
    pub(crate) async fn lead_in_common(&self, course: &Course<'_>, leads_for: Duration) -> InCommon {
        let Some(There { commons, part }) = self.there(course.key) else { return InCommon::Nothing(None) };
        let whose = Whose::of(course.host, course.owner);
        let name = Name::of_course(course.key, whose, course.told_apart);
        let lead = CommonLead::asked(&commons, target(&part, course.key), name, leads_for);
        let expecting = commons.waiting.expect(name);
        match commons.ask(commons.server.lead(part.tag, lead.wish())).await {
            Some(Led::ByMe) => InCommon::Nothing(Some(lead)),
            Some(Led::ByAnother(ends_after)) => {
                lead.does_not();
                InCommon::Awaited(Awaited { commons, expecting, ends_after })
            }
            None => InCommon::Nothing(None),
        }
    }

    /// Where answers for this key are in common, if they are.
    fn there(&self, key: &Key) -> Option<There> {
        let commons = self.commons.as_ref().filter(|commons| commons.is_in_step())?;
        Some(There { commons: Arc::clone(commons), part: commons.part_of(key)? })
    }

    /// Takes those of these answers into memory that are new, as far as they fit; all that there is then, if there are some.
    fn take(
        &self,
        key: &Key,
        at_hand: Option<&Arc<Entry>>,
        read: Vec<(Stored, Bytes)>,
        since: Epoch,
    ) -> Option<Arc<Entry>> {
        let mut held = self.epochs.hold(key);
        if !held.is_current(key, since) {
            return None;
        }
        let known = self.memory.peek(key);
        let is_whole = known.as_ref().map_or_else(|| !self.may_be_on_disk(key), |known| known.is_whole);
        let known = known.map_or_else(Entry::default, |known| Entry::clone(&known));
        let mut in_memory = Entry { is_whole, ..known };
        let mut all = at_hand.map_or_else(|| in_memory.clone(), |entry| Entry::clone(entry));
        let mut is_changed = false;
        for (stored, body) in read {
            let is_older = |known: &&Arc<Variant>| {
                known.is_covered_by(&stored) && known.stored.times.received + LATER >= stored.times.received
            };
            if all.variants.iter().chain(&in_memory.variants).any(|known| is_older(&known)) {
                continue;
            }
            is_changed = true;
            let variant = Variant::new(self.next_id(), stored, Body::Memory(body));
            let (with, gone) = all.with(&variant, &[]);
            all = with;
            self.disk.iter().for_each(|disk| disk.remove(key, gone.clone()));
            let (with, _) = in_memory.with(&variant, &[]);
            if with.weight <= self.memory.weight_max(key) {
                in_memory = with;
            }
        }
        if !is_changed {
            return None;
        }
        held.note_change(key);
        self.memory.set(key, in_memory);
        Some(Arc::new(all))
    }
}

/// Where an upstream's answers are in common.
struct There {
    commons: Arc<Commons>,
    part: Arc<Part>,
}

impl Commons {
    /// What these values say; those that are not what was written, or have been made untrue, are dropped at the server.
    fn read(
        &self,
        part: &Arc<Part>,
        key: &Key,
        values: Vec<(Slot, Bytes)>,
        rule: Option<PathTreatment>,
    ) -> Vec<(Stored, Bytes)> {
        let (mut read, mut useless, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (slot, value) in values {
            if bytes > READ_MAX {
                break;
            }
            match self.read_one(part, key, slot, &value, rule) {
                Ok(Some(one)) => {
                    bytes += one.1.len();
                    read.push(one);
                }
                // By other settings it is of use.
                Ok(None) | Err(Unread::NotByThese) => {}
                Err(Unread::Damaged) => {
                    count(&self.counts.damaged);
                    useless.push(slot);
                }
            }
        }
        if !useless.is_empty() {
            self.send(Work::Remove { part: Arc::clone(part), key: key.clone(), slots: useless });
        }
        read
    }

    fn read_one(
        &self,
        part: &Part,
        key: &Key,
        slot: Slot,
        value: &[u8],
        rule: Option<PathTreatment>,
    ) -> Result<Option<(Stored, Bytes)>, Unread> {
        let written = Written::read(key.as_bytes(), value, self.entry_bytes_max.max(part.policy.entry_bytes_max))?;
        let stored = written.stored(&part.policy, rule)?;
        if Slot::of(&stored) != slot {
            return Err(Unread::Damaged);
        }
        let Some(received) = self.received_here(part, written.received).filter(|_| part.counts(key, written.number))
        else {
            return Ok(None);
        };
        let took = stored.times.received.duration_since(stored.times.requested).unwrap_or_default();
        let requested = received.checked_sub(took).unwrap_or(received);
        Ok(Some((Stored { times: Times { requested, received }, ..stored }, written.body)))
    }
}
