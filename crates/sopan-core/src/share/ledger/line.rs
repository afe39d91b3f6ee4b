//! Which instance gets the next turn, where they want more than there is?
//!
//! Each has a count of what it was served. Of those who got less than they wanted, one may be served at most a *lead* more than
//! the one that was served least: a lead is its part of what a horizon holds. Whoever is further ahead gets only what is due
//! within half of the horizon, a lead at once: so nothing is left unused for the sake of one who does not come, and who comes in
//! time finds room in the other half. One that was satisfied, or was away, starts where those are who were served least, so
//! nobody saves turns up, and nobody pays for what was left over.
//!
//! Who asks in vain is told when it is worth to ask again: when there will be room for half a lead, behind those who were
//! served less. So where turns are rarer than instances, they come in order instead of all at once.

use std::collections::{BTreeMap, BTreeSet};

use super::KEPT_MIN;
use crate::share::terms::HORIZON_MICROS;
use crate::share::{Ask, Granted, Stamp};

/// Who has not asked for this long, after it was worth to, wants nothing any more.
const AWAY: u64 = 2 * HORIZON_MICROS;
/// So many are forgotten with one ask.
const FORGOTTEN_MAX: usize = 100;

#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    /// What whoever comes is taken to have been served.
    least: u64,
    records: BTreeMap<String, Record>,
    /// Who got less than it wanted, by what it was served.
    hungry: BTreeSet<(u64, String)>,
    /// Who is remembered, until when.
    known: BTreeSet<(u64, String)>,
}

#[derive(Debug, Clone, Default)]
struct Record {
    served: u64,
    /// The last ask, and what it was leased.
    number: u64,
    cost: u32,
    due: Vec<Stamp>,
    until: u64,
}

/// Where an instance stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// How many want more than they get, this one included.
    pub(super) among: u32,
    /// What it may be served more before it has a lead over all others; none if there are no others.
    rest: Option<u64>,
    lead: u64,
    /// How many were served less.
    rank: u64,
    pace: u64,
}

impl Line {
    /// The number of the instance's last ask.
    pub(super) fn heard(&self, instance: &str) -> u64 {
        self.records.get(instance).map_or(0, |record| record.number)
    }

    /// What the instance was leased and has not heard of, if `heard` is the last answer that it got.
    pub(super) fn unheard(&self, instance: &str, heard: u64) -> Vec<Granted> {
        let record = self.records.get(instance).filter(|record| record.number > heard);
        record.map_or_else(Vec::new, |record| {
            record.due.iter().map(|due| Granted { due: *due, cost: record.cost }).collect()
        })
    }

    /// Who is away wants nothing any more; after a while it is forgotten.
    pub(super) fn forget_away(&mut self, now: u64) {
        let away: Vec<_> =
            self.known.iter().take_while(|(until, _)| *until <= now).take(FORGOTTEN_MAX).cloned().collect();
        for (until, instance) in away {
            self.known.remove(&(until, instance.clone()));
            let Some(record) = self.records.get(&instance) else { continue };
            self.hungry.remove(&(record.served, instance.clone()));
            let forgotten = record.until + KEPT_MIN;
            if now < forgotten {
                self.known.insert((forgotten, instance));
            } else {
                self.records.remove(&instance);
            }
        }
    }

    /// The place of an instance that wants so many; from one turn to the next it is `pace` microseconds.
    pub(super) fn place(&mut self, instance: &str, want: u32, pace: u64) -> Place {
        let served = self.records.get(instance).map_or(0, |record| record.served);
        self.hungry.remove(&(served, instance.to_owned()));
        let served = served.max(self.least);
        if want > 0 {
            self.records.entry(instance.to_owned()).or_default().served = served;
        }
        let among = self.hungry.len() as u64 + 1;
        let lead = HORIZON_MICROS.div_ceil(pace * among);
        let rest = self.hungry.first().map(|(least, _)| (least + lead).saturating_sub(served));
        let rank = self.hungry.range(..(served, instance.to_owned())).count() as u64;
        Place { among: u32::try_from(among).unwrap_or(u32::MAX), rest, lead, rank, pace }
    }

    /// It was leased this, and asks again after so long if it got less than it wanted.
    pub(super) fn served(
        &mut self,
        instance: &str,
        place: &Place,
        ask: &Ask,
        due: &[Stamp],
        again: Option<u64>,
        now: u64,
    ) {
        let Some(record) = self.records.get_mut(instance).filter(|_| ask.want > 0) else {
            // Who only gives something back is not one of those who ask.
            if let Some(record) = self.records.get_mut(instance) {
                (record.number, record.due) = (ask.number, Vec::new());
            }
            return;
        };
        record.served += due.len() as u64 * u64::from(ask.cost);
        if let Some((least, _)) = self.hungry.first() {
            // What was left over by the others is not held against it for long.
            record.served = record.served.min(least + 2 * place.lead);
        }
        let name = instance.to_owned();
        self.known.remove(&(record.until, name.clone()));
        self.known.remove(&(record.until + KEPT_MIN, name.clone()));
        record.until = now + again.unwrap_or(0) + AWAY;
        (record.number, record.cost, record.due) = (ask.number, ask.cost, due.to_vec());
        self.known.insert((record.until, name.clone()));
        if again.is_some() {
            self.hungry.insert((record.served, name));
        }
        let least = self.hungry.first().map_or(record.served, |(least, _)| *least);
        self.least = self.least.max(least);
    }
}

impl Place {
    /// How far ahead it may be served when it was served so much already now; none if it is served no more.
    pub(super) fn horizon(&self, served: u64) -> Option<u64> {
        let Some(rest) = self.rest else { return Some(HORIZON_MICROS) };
        if served < rest {
            return Some(HORIZON_MICROS);
        }
        (served < rest + self.lead).then_some(HORIZON_MICROS / 2)
    }

    /// How long it takes, from when there is a first turn for it, until there are enough of those that it misses to ask.
    pub(super) fn wait(&self, missing: u64) -> u64 {
        let enough = missing.min(self.lead.div_ceil(2)).max(1);
        ((enough - 1) * u64::from(self.among) + self.rank) * self.pace
    }
}
