//! A lane whose limits are shared: what it wants of the ledger is passed on, and what comes of that is told to it.
//!
//! Whatever happens to such a lane, it may want turns or have news of a pause afterwards. That is taken under its lock and
//! handed to the steward ([`crate::shared`]); an answer steps the lane like any other event. For a lane that shares nothing all of
//! this is one look at nothing.

use std::sync::Arc;

use sopan_core::share::{Ask, HoldNews, Leased, Members, Mode};
use sopan_core::time::Instant;

use super::{Dispatcher, Shared};
use crate::shared::Errand;

impl Dispatcher {
    /// What the lane wants after what has just happened. A lane that shares nothing, as most do, is not held up by it.
    #[inline]
    pub(super) fn errand(&self, shared: &mut Shared, now: Instant) -> Option<Box<Errand>> {
        self.seat.as_ref()?;
        errand_of(shared, now)
    }

    /// Has that seen to.
    #[inline]
    pub(super) fn want(&self, errand: Option<Box<Errand>>) {
        if let (Some(errand), Some(seat)) = (errand, &self.seat) {
            seat.want(*errand);
        }
    }

    /// Takes its seat, where it is to be told of answers.
    pub(crate) fn sit(self: &Arc<Self>) {
        self.seat.iter().for_each(|seat| seat.take(self));
    }

    /// Whether its limits are shared.
    pub(crate) fn is_shared(&self) -> bool {
        self.seat.is_some()
    }

    /// The ledger has answered; that came at `received`.
    pub(crate) fn leased(&self, leased: &Leased, received: Instant) {
        self.act(|shared, _| shared.lane.lease(leased, received));
    }

    /// It has not, and will not.
    pub(crate) fn unanswered(&self) {
        self.act(|shared, now| shared.lane.unanswered(now));
    }

    /// What the lane goes by from now on, and who shares.
    pub(crate) fn set_contact(&self, mode: Mode, members: Members) {
        self.act(|shared, now| shared.lane.set_contact(mode, members, now));
    }

    /// Another instance tells of a pause.
    pub(crate) fn hear_hold(&self, news: HoldNews) {
        self.act(|shared, now| shared.lane.hear_hold(news, now));
    }

    /// By which it is found out whether the lane's ledger can be asked.
    pub(crate) fn probe(&self) -> Option<Ask> {
        let mut shared = self.shared.lock();
        let now = shared.now(self.clock);
        shared.lane.probe(now)
    }

    /// What the lane gives back, for a process that ends in order.
    pub(crate) fn take_back(&self) -> Option<Ask> {
        let mut shared = self.shared.lock();
        let now = shared.now(self.clock);
        shared.lane.take_back(now)
    }
}

#[inline(never)]
fn errand_of(shared: &mut Shared, now: Instant) -> Option<Box<Errand>> {
    let (tell, ask) = (shared.lane.hold_to_tell(now), shared.lane.ask(now));
    (tell.is_some() || ask.is_some()).then(|| Box::new(Errand { tell, ask }))
}
