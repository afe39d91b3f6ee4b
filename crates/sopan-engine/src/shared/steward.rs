//! The steward: one task that speaks with the store for all lanes of the program.
//!
//! A lane that wants something rings; the steward asks for it, one question of a lane at a time and as many lanes at once as
//! want it. It beats, hears what others let all know, and tells the lanes when the store is lost and when it is back. All of that
//! goes on side by side: nothing waits for anything else's answer.
//!
//! A Cluster can lose a part of itself. Then only the lanes of that part are cut off, each with a [`Contact`] of its own until
//! its part answers again. So is any lane whose ledger cannot be used for long while the store answers otherwise: another
//! version's, somebody else's value under its key, no right to it.

use std::sync::Arc;
use std::time::Duration;

use sopan_core::share::{ALONE_AFTER, Contact, HoldNews, Leased, Members, Mode, OnStoreFailure, TellHold};
use sopan_core::time::Instant;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::{Errand, Fault, Seated, Shared, StoreMode, Trip};

/// News of others that wait to be passed on to the lanes. What is lost of more a lane learns when it asks.
const HEARD_MAX: usize = 1024;
/// Listening that was lost begins anew after this.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);
/// The log does not tell sooner again that the store is gone.
const TELL_EVERY: Duration = Duration::from_secs(10);

pub(super) struct Steward {
    shared: Arc<Shared>,
    contact: Contact,
    lanes: Vec<Lane>,
    errands: Vec<(usize, Errand)>,
    trips: JoinSet<Done>,
    heard: mpsc::Receiver<(String, HoldNews)>,
    listener: JoinHandle<()>,
    trouble: Trouble,
    /// What was told to the lanes is no longer so.
    is_news: bool,
}

/// What the steward knows of a lane.
struct Lane {
    seated: Arc<Seated>,
    /// Where its part of a Cluster does not answer, or its ledger alone.
    contact: Option<Contact>,
    /// Since when none of its asks was answered, while beats were.
    unanswered: Option<Instant>,
    told: (Mode, Members),
    /// A pause of its own that the store has not been told of, as it stood then.
    untold: Option<(TellHold, Instant)>,
}

/// What was logged of a store that is gone.
#[derive(Default)]
struct Trouble {
    since: Option<Instant>,
    /// When the log told it last, and whether it told of the end of that.
    told: Option<(Instant, bool)>,
    is_long: bool,
}

/// What a question came to.
enum Done {
    Asked { lane: usize, answer: Result<Leased, Fault>, at: Instant },
    Beaten { sent: Instant, answer: Result<Members, Fault>, at: Instant },
    Probed { lane: usize, answer: Result<(), Fault>, at: Instant },
    Told { lane: usize, told: TellHold, since: Instant, answer: Result<(), Fault>, at: Instant },
}

impl Steward {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let (tell, heard) = mpsc::channel(HEARD_MAX);
        let contact = shared.contact();
        let listener = tokio::spawn(listen(Arc::clone(&shared), tell));
        Self {
            shared,
            contact,
            lanes: Vec::new(),
            errands: Vec::new(),
            trips: JoinSet::new(),
            heard,
            listener,
            trouble: Trouble::default(),
            is_news: true,
        }
    }

    pub(super) async fn run(mut self) {
        let clock = self.shared.clock;
        while !self.shared.is_leaving() {
            // Before lanes are seated: one that has joined in between has none here yet, and what it wants waits.
            self.shared.take_errands(&mut self.errands);
            self.seat();
            let now = clock.now();
            let next = self.time(now);
            self.tell_lanes();
            self.errands();
            tokio::select! {
                Some(done) = self.trips.join_next(), if !self.trips.is_empty() => {
                    // One that panicked has said so, and ends what it was for.
                    if let Ok(done) = done {
                        self.done(done);
                    }
                }
                Some((lane, news)) = self.heard.recv() => self.hear(&lane, news),
                () = self.shared.bell.notified() => {}
                () = clock.sleep_until(next) => {}
            }
        }
    }

    /// Lanes that have joined since.
    fn seat(&mut self) {
        let new = self.shared.seats_from(self.lanes.len());
        self.is_news |= !new.is_empty();
        let told = (Mode::Silent, Members::ONE);
        self.lanes.extend(new.into_iter().map(|seated| Lane {
            seated,
            contact: None,
            unanswered: None,
            told,
            untold: None,
        }));
    }

    /// Does what time brings; answers when to look again.
    fn time(&mut self, now: Instant) -> Instant {
        let before = self.contact.mode();
        let mut next = self.contact.tick(now);
        if self.contact.beats(now) {
            self.beat(now);
            next = self.contact.tick(now);
        }
        self.is_news |= self.contact.mode() != before;
        for number in 0..self.lanes.len() {
            let Some(contact) = &mut self.lanes[number].contact else { continue };
            let before = contact.mode();
            let mut again = contact.tick(now);
            if contact.beats(now) {
                again = contact.tick(now);
                self.probe(number);
            }
            next = next.min(again);
            self.is_news |= self.lanes[number].contact.as_ref().is_some_and(|contact| contact.mode() != before);
        }
        self.trouble.grows(&self.contact, now);
        next
    }

    fn beat(&mut self, sent: Instant) {
        let (shared, known) = (Arc::clone(&self.shared), self.contact.members().counted);
        self.trips.spawn(async move {
            let (answer, at) = shared.trip(Trip::Beat, shared.ledgers.beat(known)).await;
            Done::Beaten { sent, answer, at }
        });
    }

    fn probe(&mut self, lane: usize) {
        let (shared, seated) = (Arc::clone(&self.shared), Arc::clone(&self.lanes[lane].seated));
        let Some(ask) = seated.dispatcher().and_then(|dispatcher| dispatcher.probe()) else {
            // Nobody is left who could be cut off.
            self.lanes[lane].contact = None;
            return;
        };
        self.trips.spawn(async move {
            let (answer, at) = shared.trip(Trip::Beat, shared.ledgers.probe(&seated.tag, &ask)).await;
            Done::Probed { lane, answer, at }
        });
    }

    /// Asks for all lanes that want something.
    fn errands(&mut self) {
        for (lane, Errand { tell, ask }) in std::mem::take(&mut self.errands) {
            if let Some(tell) = tell {
                self.tell_all(lane, tell);
            }
            if let Some(ask) = ask {
                let (shared, seated) = (Arc::clone(&self.shared), Arc::clone(&self.lanes[lane].seated));
                self.trips.spawn(async move {
                    let (answer, at) = shared.trip(Trip::Ask, shared.ledgers.ask(&seated.tag, &ask)).await;
                    Done::Asked { lane, answer, at }
                });
            }
        }
    }

    /// Lets everybody know of a lane's pause, at once or when it can be.
    fn tell_all(&mut self, lane: usize, told: TellHold) {
        let since = self.shared.clock.now();
        if self.mode_of(lane) != Mode::Shared {
            self.lanes[lane].untold = Some((told, since));
            return;
        }
        let (shared, seated) = (Arc::clone(&self.shared), Arc::clone(&self.lanes[lane].seated));
        self.trips.spawn(async move {
            let (answer, at) = shared.trip(Trip::Hold, shared.ledgers.hold(&seated.tag, &told)).await;
            Done::Told { lane, told, since, answer, at }
        });
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Asked { lane, answer, at } => {
                if let Some(dispatcher) = self.lanes[lane].seated.dispatcher() {
                    match &answer {
                        Ok(leased) => dispatcher.leased(leased, at),
                        Err(_) => dispatcher.unanswered(),
                    }
                }
                match answer {
                    Ok(_) => self.lanes[lane].unanswered = None,
                    Err(fault) => {
                        self.lanes[lane].unanswered.get_or_insert(at);
                        self.lost(Some(lane), &fault, at);
                    }
                }
            }
            Done::Beaten { sent, answer: Ok(members), at } => self.found(sent, members, at),
            Done::Beaten { answer: Err(fault), at, .. } => self.lost(None, &fault, at),
            Done::Probed { lane, answer: Ok(()), at } => self.mended(lane, at),
            Done::Probed { lane, answer: Err(fault), at } => self.lost(Some(lane), &fault, at),
            Done::Told { answer: Ok(()), .. } => {}
            Done::Told { lane, told, since, answer: Err(fault), at } => {
                let untold = &mut self.lanes[lane].untold;
                // Unless there is later news.
                if untold.as_ref().is_none_or(|(_, other)| *other <= since) {
                    *untold = Some((told, since));
                }
                self.lost(Some(lane), &fault, at);
            }
        }
    }

    /// The store does not answer, or a part of it that `lane` needs.
    fn lost(&mut self, lane: Option<usize>, fault: &Fault, now: Instant) {
        self.is_news = true;
        if let Some(lane) = lane.filter(|lane| self.is_alone_in_it(*lane, now)) {
            let Lane { seated, contact, unanswered, .. } = &mut self.lanes[lane];
            let contact = contact.get_or_insert_with(|| {
                let upstream = &*seated.upstream;
                tracing::warn!(upstream, why = fault.kind(), "of {upstream} Redis {fault}: {}", goes_on(&self.contact));
                let mut contact = self.contact.clone();
                if let Some(since) = unanswered {
                    contact.unanswered_since((*since).max(now.before(ALONE_AFTER)));
                }
                contact
            });
            return contact.failed(now);
        }
        self.contact.failed(now);
        self.trouble.begins(&self.contact, fault, now);
    }

    /// Whether what was not answered to a lane is no matter of the others. Where the store is in one piece, a failure is at first
    /// one of all of it.
    fn is_alone_in_it(&self, lane: usize, now: Instant) -> bool {
        let Lane { contact, unanswered, .. } = &self.lanes[lane];
        let is_long = || unanswered.is_some_and(|since| now.since(since) >= ALONE_AFTER);
        // A lane that is cut off already says nothing new of the rest, which may be gone too by now, and must go on to try.
        contact.is_some() || self.contact.mode() == Mode::Shared && (self.shared.ledgers.is_in_parts() || is_long())
    }

    fn found(&mut self, sent: Instant, members: Members, now: Instant) {
        let was_shared = self.contact.mode() == Mode::Shared;
        if !matches!(self.contact.mode(), Mode::Shared | Mode::Silent) {
            // Nobody was answered.
            self.lanes.iter_mut().for_each(|lane| lane.unanswered = None);
        }
        self.is_news |= !was_shared || self.contact.members() != members;
        let is_first = !self.contact.was_answered();
        self.contact.answered(sent, members, now);
        if !was_shared {
            self.trouble.ends(is_first, members, now);
            (0..self.lanes.len()).for_each(|lane| self.retell(lane));
        }
    }

    /// The part of the store that a lane needs answers again.
    fn mended(&mut self, lane: usize, _: Instant) {
        let Lane { seated, contact, unanswered, .. } = &mut self.lanes[lane];
        *unanswered = None;
        if contact.take().is_some() {
            let upstream = &*seated.upstream;
            tracing::info!(upstream, "of {upstream} Redis answers again: its limits are shared");
            self.is_news = true;
            self.retell(lane);
        }
    }

    /// Tells what could not be told while the store was gone.
    fn retell(&mut self, lane: usize) {
        let Some((mut told, since)) = self.lanes[lane].untold.take() else { return };
        if let HoldNews::Held { remaining, .. } = &mut told.news {
            *remaining = remaining.saturating_sub(self.shared.clock.now().since(since));
            if remaining.is_zero() {
                return;
            }
        }
        self.tell_all(lane, told);
    }

    /// What another instance let all know.
    fn hear(&self, lane: &str, news: HoldNews) {
        let known = self.lanes.iter().filter(|known| known.seated.tag == lane);
        known.filter_map(|lane| lane.seated.dispatcher()).for_each(|lane| lane.hear_hold(news));
    }

    /// What a lane goes by.
    fn mode_of(&self, lane: usize) -> Mode {
        match (self.contact.mode(), &self.lanes[lane].contact) {
            (Mode::Shared, Some(contact)) => contact.mode(),
            (mode, _) => mode,
        }
    }

    /// Tells every lane what it goes by, where that has changed.
    fn tell_lanes(&mut self) {
        if !std::mem::take(&mut self.is_news) {
            return;
        }
        let members = self.contact.members();
        for lane in 0..self.lanes.len() {
            let now = (self.mode_of(lane), members);
            let Lane { seated, told, .. } = &mut self.lanes[lane];
            if *told != now {
                *told = now;
                seated.dispatcher().iter().for_each(|dispatcher| dispatcher.set_contact(now.0, now.1));
            }
        }
        self.shared.show(StoreMode::of(self.contact.mode()), members, self.contact.share());
    }
}

impl Drop for Steward {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Trouble {
    fn begins(&mut self, contact: &Contact, fault: &Fault, now: Instant) {
        if self.since.is_some() {
            return;
        }
        self.since = Some(now);
        if self.told.is_some_and(|(told, _)| now.since(told) < TELL_EVERY) {
            return;
        }
        self.told = Some((now, false));
        let (why, share) = (fault.kind(), contact.share());
        tracing::warn!(why, share, "Redis {fault}: {}", goes_on(contact));
    }

    /// What was said of a while may not be so any more.
    fn grows(&mut self, contact: &Contact, now: Instant) {
        let Mode::After { policy, share } = contact.mode() else { return };
        let Some(since) = self.since.filter(|_| !self.is_long) else { return };
        self.is_long = true;
        let goes_on = match policy {
            OnStoreFailure::Share => return,
            OnStoreFailure::Refuse => "requests are refused (on_store_failure: refuse)",
            OnStoreFailure::Ignore => "this instance takes the whole of each limit (on_store_failure: ignore)",
        };
        let gone_s = now.since(since).as_secs_f64();
        tracing::warn!(gone_s, share, "Redis has not answered for {gone_s:.0} s: {goes_on}");
    }

    fn ends(&mut self, is_first: bool, members: Members, now: Instant) {
        let Members { seen, counted } = members;
        let since = self.since.take();
        self.is_long = false;
        let was_told = self.told.as_mut().map(|(_, is_over)| std::mem::replace(is_over, true));
        let shared = match counted {
            1 => "this instance is the only one that uses the limits".to_owned(),
            _ => format!("limits are shared by {counted} instances, {seen} of them seen"),
        };
        match since {
            Some(since) if was_told == Some(false) => {
                let gone_s = now.since(since).as_secs_f64();
                tracing::info!(gone_s, seen, counted, "Redis answers again after {gone_s:.1} s: {shared}");
            }
            None if is_first => tracing::info!(seen, counted, "{shared}"),
            _ => {}
        }
    }
}

/// What follows from a store that is gone.
fn goes_on(contact: &Contact) -> String {
    match (contact.share(), contact.was_answered()) {
        (1, false) => "it has never been reached, and this instance takes itself for the only one until it is; write \
                       `instances` where there are others"
            .to_owned(),
        (1, true) => "this instance, which was the only one, goes on by itself".to_owned(),
        (share, _) => format!("this instance goes on at 1 of {share} parts of each limit"),
    }
}

/// Listens for as long as there is a steward.
async fn listen(shared: Arc<Shared>, tell: mpsc::Sender<(String, HoldNews)>) {
    loop {
        let tell = tell.clone();
        let hear = Arc::new(move |lane, news| drop(tell.try_send((lane, news))));
        let why = shared.ledgers.listen(hear).await;
        tracing::debug!(why = why.kind(), "Redis {why}: pauses of others are heard of later");
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}
