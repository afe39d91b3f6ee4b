//! How asks and answers are written for the scripts that keep the ledgers: as plain lists, of texts there and of numbers back.
//!
//! The scripts read them by position; this is the other half of that, and nothing else knows the positions.

use std::sync::Arc;
use std::time::Duration;

use super::terms::{QuotaTerm, micros};
use super::{Ask, DayNow, HORIZON, HoldNews, Leased, Members, Stamp, Terms, WANT_MAX};
use crate::bucket::Fill;
use crate::lane::HeldBy;

/// An answer that no ledger would give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the ledger's answer makes no sense")]
pub struct Nonsense;

/// What a clock is called that the script shall read itself.
const OWN_CLOCK: &str = "0";

impl Ask {
    /// What the script `ask` is given, for the instance of this name. The first one is the clock, zero for the server's.
    pub fn args(&self, instance: &str) -> Vec<String> {
        let Members { seen, counted } = self.members.sound();
        let mut args = vec![OWN_CLOCK.to_owned(), instance.to_owned()];
        let numbers = [self.number, self.heard, self.want.into(), self.cost.into(), seen.into(), counted.into()];
        args.extend(numbers.iter().map(ToString::to_string));
        args.push(micros(self.lapse).to_string());
        args.push(self.spent.map_or_else(|| "-1".to_owned(), |spent| spent.to_string()));
        args.extend([self.last, self.valid_until].map(|stamp| stamp.unwrap_or_default().0.to_string()));
        write_terms(&self.terms, &self.days, &mut args);
        args.push(self.returned.len().to_string());
        for granted in &self.returned {
            args.extend([granted.due.0.to_string(), granted.cost.to_string()]);
        }
        args
    }
}

/// A hold of which the ledger and the others must be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TellHold {
    /// What happened.
    pub news: HoldNews,
    /// The limits.
    pub terms: Arc<Terms>,
    /// The present day of each quota of the calendar among them.
    pub days: Vec<DayNow>,
    /// Who shares.
    pub members: Members,
}

impl TellHold {
    /// What the script `hold` is given. The first one is the clock, zero for the server's.
    pub fn args(&self) -> Vec<String> {
        let Members { seen, counted } = self.members.sound();
        let (remaining, by) = match self.news {
            HoldNews::Held { remaining, by } => (micros(remaining).max(1), by),
            HoldNews::Released => (0, HeldBy::Operator),
        };
        let mut args = vec![OWN_CLOCK.to_owned()];
        args.extend([u64::from(seen), u64::from(counted), remaining, by_number(by)].map(|number| number.to_string()));
        write_terms(&self.terms, &self.days, &mut args);
        args
    }
}

fn by_number(by: HeldBy) -> u64 {
    match by {
        HeldBy::Upstream => 0,
        HeldBy::Operator => 1,
    }
}

fn write_terms(terms: &Terms, days: &[DayNow], args: &mut Vec<String>) {
    args.push((terms.rates.len() + terms.quotas.len()).to_string());
    for rate in &terms.rates {
        args.push("r".to_owned());
        args.extend([rate.interval, rate.parts, rate.burst].map(|number| number.to_string()));
    }
    let mut days = days.iter();
    for quota in &terms.quotas {
        match quota {
            QuotaTerm::Sliding { count, span } => {
                args.push("s".to_owned());
                args.extend([*count, *span].map(|number| number.to_string()));
            }
            QuotaTerm::Calendar { count, name, .. } => {
                args.extend(["d".to_owned(), count.to_string(), name.clone()]);
                let Some(day) = days.next() else { return };
                let day = [day.before, day.today, day.after, day.begin.0, day.end.0];
                args.extend(day.map(|number| number.to_string()));
            }
        }
    }
}

impl Leased {
    /// Reads what the script answered to the ask of this number. An answer to another one would leave that one unanswered, and its
    /// lane waiting for it for ever.
    ///
    /// # Errors
    /// It is not what a ledger answers: something else has the key, or it is no such server.
    pub fn read(answer: &[i64], to: u64) -> Result<Self, Nonsense> {
        Self::parse(answer).filter(|leased| leased.number == to).ok_or(Nonsense)
    }

    fn parse(answer: &[i64]) -> Option<Self> {
        let mut numbers = answer.iter().copied();
        let mut next = || numbers.next();
        let (number, is_done) = (natural(next()?)?, next()? == 1);
        let at = Stamp(natural(next()?)?);
        let (next_in, again_in) = (span(next()?)?, next()?);
        let again_in = if again_in < 0 { None } else { Some(span(again_in)?) };
        let among = u32::try_from(next()?).ok().filter(|among| *among > 0)?;
        let (held, by) = (span(next()?)?, next()?);
        let by = if by == by_number(HeldBy::Operator) as i64 { HeldBy::Operator } else { HeldBy::Upstream };
        let fills = usize::try_from(next()?).ok().filter(|fills| *fills <= crate::policy::LIMITS_MAX)?;
        let mut fill = || Some(Fill { tokens: next()? as f64 / 1000.0, capacity: next()? as f64 });
        let fills = (0..fills).map(|_| fill()).collect::<Option<Vec<_>>>()?;
        // Nothing further away was ever asked for; a little more where the server's clock was set.
        let ahead_max = 2 * micros(HORIZON);
        let due = numbers.map(|ahead| Some(Stamp(at.0.checked_add(natural(ahead).filter(|n| *n <= ahead_max)?)?)));
        let due = due.take(WANT_MAX as usize + 1).collect::<Option<Vec<_>>>()?;
        if due.len() > WANT_MAX as usize {
            return None;
        }
        let hold = (!held.is_zero()).then_some((held, by));
        Some(Self { number, is_done, at, due, next_in, again_in, among, hold, fills })
    }
}

fn natural(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

fn span(micros: i64) -> Option<Duration> {
    natural(micros).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_nonsense_is_not() {
        let answer = [7, 1, 1_000_000, 2_500, -1, 3, 0, 0, 1, 1_500, 20, 0, 500, 200_000];
        let leased = Leased::read(&answer, 7).unwrap();
        assert_eq!((leased.number, leased.at, leased.among), (7, Stamp(1_000_000), 3));
        assert_eq!(leased.due, [Stamp(1_000_000), Stamp(1_000_500), Stamp(1_200_000)]);
        assert_eq!((leased.next_in, leased.again_in, leased.hold), (Duration::from_micros(2_500), None, None));
        assert_eq!(leased.fills, [Fill { tokens: 1.5, capacity: 20.0 }]);
        let held = Leased::read(&[7, 1, 1, 0, 4_000, 1, 9_000, 1, 0], 7).unwrap();
        assert_eq!(held.hold, Some((Duration::from_millis(9), HeldBy::Operator)));
        assert_eq!(held.again_in, Some(Duration::from_millis(4)));
        let mut long = answer.to_vec();
        long.extend([0; WANT_MAX as usize]);
        let far = [7, 1, 1, 0, -1, 1, 0, 0, 0, 9_000_000];
        for nonsense in [
            &[][..],
            &answer[..10],
            &[-1; 20],
            &long,
            &far,
            &[7, 1, 1, 0, 0, 0, 0, 0, 0],
            // To another ask.
            &[8, 1, 1, 0, 0, 1, 0, 0, 0],
            &[7, 1, 1, 0, 0, 1, 0, 0, i64::MAX],
        ] {
            assert_eq!(Leased::read(nonsense, 7), Err(Nonsense), "{nonsense:?}");
        }
    }
}
