//! Which requests wait for the answer to another that asks the same?
//!
//! A *flight* is a request on its way to the upstream whose answer others may get too. The first of equal requests that the
//! store cannot answer leads it, the others follow and wait, also while the leader still waits for its turn. A leader that
//! leaves hands over to the one that has waited longest, which goes on as its own client, with its own deadline. When an
//! answer's head has come that others may have, they get on board: each is given a seat, as long as there are seats from
//! the body's beginning, until the answer has landed in the store. One that is for nobody else sends them on their own, and
//! is remembered for a while, since who comes next would wait in vain. One that may not be used unasked is for those alone who
//! came before it was asked for; of the others one leads, and they follow that.
//!
//! What an answer is, whether it is for who asked, and what a seat is, is the exchange's business: equal requests are only
//! those that may well be given the same answer.

mod course;
mod loners;

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use sopan_core::cache::vary::Selecting;
use sopan_core::cache::{Asked, Send as Sent};
use sopan_core::time::Instant;

use crate::clock::{Clock, Watchdog};
use crate::digest::ByDigest;
use course::{Course, digest};
use loners::Loners;

/// Locks that the flights are spread over, by their key.
const SHARDS: usize = 64;

/// All requests under way whose answers others may get. `K` is by what answers are found in the store, `T` a seat. There are
/// never more flights than exchanges, since each is held by one.
pub(crate) struct Flights<K, T> {
    shards: Box<[Mutex<Shard<K, T>>]>,
    /// The digests of courses on which the last answer was for nobody else.
    loners: Box<[Mutex<Loners<u64>>]>,
    hasher: RandomState,
    clock: Clock,
}

/// Those that newcomers may join.
type Shard<K, T> = HashMap<Course<K>, Arc<Flight<K, T>>, ByDigest>;

/// What becomes of a request that the store cannot answer.
pub(crate) enum Joined<K: Eq + Hash + Clone, T> {
    /// It goes to the upstream, and others may follow. The store may have got the answer since it was asked, so it is to be
    /// looked at once more.
    Lead(Leader<K, T>),
    /// It waits for another's answer.
    Follow(Follower<K, T>),
    /// It goes to the upstream by itself: the last answer was for nobody else.
    Alone,
}

/// What has become of a follower.
pub(crate) enum Led<K: Eq + Hash + Clone, T> {
    /// There is an answer, and a seat; whether the answer is for its request, it must see.
    Shared(T),
    /// The store has something new: it is to be looked at again.
    LookAgain,
    /// It goes to the upstream by itself.
    Alone,
    /// The leader has left: it leads now.
    Lead(Leader<K, T>),
    /// Its time is over.
    TooLate,
}

/// Gives seats, as long as there are any.
type Seats<T> = Box<dyn Fn() -> Option<T> + Send + Sync>;

struct Flight<K, T> {
    course: Course<K>,
    board: Mutex<Board<T>>,
}

/// Who waits for what.
struct Board<T> {
    phase: Phase<T>,
    /// Whether the answer is in the store, or will not come there.
    has_landed: bool,
    /// Who waits, the longest first.
    waiting: BTreeMap<u32, Option<Waker>>,
    /// Those before this number came before the request was sent.
    sent_at: u32,
    /// What followers were told that have not heard it yet.
    told: BTreeMap<u32, Told<T>>,
    next: u32,
}

enum Phase<T> {
    /// There is no answer yet.
    Asking,
    /// There is one, and its body is coming.
    Boarding(Seats<T>),
    /// Nobody joins any more.
    Over,
}

enum Told<T> {
    Shared(T),
    LookAgain,
    Alone,
    Lead,
}

impl<K: Eq + Hash + Clone, T> Flights<K, T> {
    pub(crate) fn new(clock: Clock) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let loners = (0..SHARDS).map(|_| Mutex::new(Loners::new(SHARDS))).collect();
        Self { shards, loners, hasher: RandomState::new(), clock }
    }

    /// A request that the store cannot answer, and that is to be sent like this. To be asked only where its answer may be
    /// shared ([`Sent::is_sharable`]). Who has waited for an answer that was chosen by other fields than its own says by which,
    /// and meets those alone that have the same there.
    pub(crate) fn join(
        self: &Arc<Self>,
        key: K,
        asked: &Asked<'_>,
        told_apart: Option<&Selecting>,
        sent: &Sent,
    ) -> Joined<K, T> {
        let course = Course { digest: digest(&self.hasher, &key, asked, told_apart, sent), key };
        if self.has_loner(course.digest) {
            return Joined::Alone;
        }
        let mut shard = self.shard(&course.key).lock();
        if let Some(flight) = shard.get(&course)
            && let Some(number) = flight.board.lock().enter()
        {
            return Joined::Follow(Follower { flights: Arc::clone(self), flight: Arc::clone(flight), number });
        }
        let flight = Arc::new(Flight::new(course.clone()));
        let full = shard.insert(course, Arc::clone(&flight));
        // What it holds may want this lock when it goes.
        drop(shard);
        drop(full);
        Joined::Lead(Leader { flights: Arc::clone(self), flight, has_told: false })
    }

    /// Whether such a request goes by itself, since the last answer was for nobody else.
    pub(crate) fn is_alone(&self, key: &K, asked: &Asked<'_>, told_apart: Option<&Selecting>, sent: &Sent) -> bool {
        self.has_loner(digest(&self.hasher, key, asked, told_apart, sent))
    }

    fn has_loner(&self, digest: u64) -> bool {
        self.loners(digest).lock().contains(&digest, || self.clock.now())
    }

    /// What is under way for this key is out of date: newcomers do not join it. That what it brings is not stored either is for
    /// the store to see to.
    pub(crate) fn doom(&self, key: &K) {
        self.doom_in(self.shard(key), |known| known == key);
    }

    /// The same for all keys of a kind.
    pub(crate) fn doom_where(&self, is_doomed: impl Fn(&K) -> bool) {
        for shard in &self.shards {
            self.doom_in(shard, &is_doomed);
        }
    }

    fn doom_in(&self, shard: &Mutex<Shard<K, T>>, is_doomed: impl Fn(&K) -> bool) {
        let doomed: Vec<_> = shard.lock().extract_if(|course, _| is_doomed(&course.key)).collect();
        // Not under the lock: a seat's giver may be the last to hold a body.
        drop(doomed);
    }

    /// How many flights newcomers may join.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    fn shard(&self, key: &K) -> &Mutex<Shard<K, T>> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    fn loners(&self, digest: u64) -> &Mutex<Loners<u64>> {
        &self.loners[(digest >> 32) as usize % SHARDS]
    }

    /// Nobody joins a flight any more, if it can be joined still.
    fn close(&self, flight: &Arc<Flight<K, T>>) {
        let mut shard = self.shard(&flight.course.key).lock();
        self.close_in(&mut shard, flight);
        drop(shard);
        let seats = std::mem::replace(&mut flight.board.lock().phase, Phase::Over);
        // Not under a lock: a seat's giver may be the last to hold a body.
        drop(seats);
    }

    fn close_in(&self, shard: &mut Shard<K, T>, flight: &Arc<Flight<K, T>>) {
        // Another may have taken its place.
        if shard.get(&flight.course).is_some_and(|known| Arc::ptr_eq(known, flight)) {
            shard.remove(&flight.course);
        }
    }
}

impl<K, T> Flight<K, T> {
    fn new(course: Course<K>) -> Self {
        let (waiting, told) = (BTreeMap::new(), BTreeMap::new());
        let board = Board { phase: Phase::Asking, has_landed: false, waiting, sent_at: 0, told, next: 0 };
        Self { course, board: Mutex::new(board) }
    }

    /// Ends the wait of all that wait, with the same news for each.
    fn tell_all(&self, news: impl Fn() -> Told<T>) {
        let mut board = self.board.lock();
        let waiting = std::mem::take(&mut board.waiting);
        board.told.extend(waiting.keys().map(|number| (*number, news())));
        drop(board);
        waiting.into_values().flatten().for_each(Waker::wake);
    }
}

impl<T> Board<T> {
    /// The number of a newcomer that follows, if it can.
    fn enter(&mut self) -> Option<u32> {
        let number = self.next;
        let next = number.checked_add(1)?;
        match &self.phase {
            Phase::Asking => drop(self.waiting.insert(number, None)),
            Phase::Boarding(seats) => drop(self.told.insert(number, Told::Shared(seats()?))),
            Phase::Over => return None,
        }
        self.next = next;
        Some(number)
    }
}

/// The request of a flight that goes to the upstream. Dropped before it has said what came of it, another leads.
pub(crate) struct Leader<K: Eq + Hash + Clone, T> {
    flights: Arc<Flights<K, T>>,
    flight: Arc<Flight<K, T>>,
    has_told: bool,
}

impl<K: Eq + Hash + Clone, T> Leader<K, T> {
    /// For whoever stores the answer of [`Leader::shared`]: to be dropped when it is in the store, or will not come there.
    pub(crate) fn landing(&self) -> Landing<K, T> {
        Landing { flights: Arc::clone(&self.flights), flight: Arc::clone(&self.flight) }
    }

    /// There is an answer that others may have. Who waits gets a seat, and who comes until it has landed, as long as there
    /// are some; `seats` is asked under a lock and must not come back here.
    pub(crate) fn shared(mut self, seats: impl Fn() -> Option<T> + Send + Sync + 'static) {
        self.has_told = true;
        let mut board = self.flight.board.lock();
        let waiting = std::mem::take(&mut board.waiting);
        board.told.extend(waiting.keys().map(|number| (*number, seats().map_or(Told::Alone, Told::Shared))));
        board.phase = Phase::Boarding(Box::new(seats));
        let has_landed = board.has_landed;
        drop(board);
        waiting.into_values().flatten().for_each(Waker::wake);
        if has_landed {
            self.flights.close(&self.flight);
        }
    }

    /// The request is about to be sent: who comes from now on comes after that.
    pub(crate) fn sends(&self) {
        let mut board = self.flight.board.lock();
        board.sent_at = board.next;
    }

    /// There is an answer that those may have who came before it was asked for, each by a seat. Of the others one leads.
    pub(crate) fn answers_those_before(self, seats: impl Fn() -> Option<T>) {
        let mut board = self.flight.board.lock();
        let sent_at = board.sent_at;
        let later = board.waiting.split_off(&sent_at);
        let before = std::mem::replace(&mut board.waiting, later);
        board.told.extend(before.keys().map(|number| (*number, seats().map_or(Told::Alone, Told::Shared))));
        drop(board);
        before.into_values().flatten().for_each(Waker::wake);
        // The drop hands over.
    }

    /// The store has what the others need.
    pub(crate) fn stored(self) {
        self.end(|| Told::LookAgain);
    }

    /// There is an answer, and it is for nobody else; nor will the next ones be.
    pub(crate) fn alone(self) {
        let (flights, digest) = (&self.flights, self.flight.course.digest);
        flights.loners(digest).lock().add(digest, flights.clock.now());
        self.end(|| Told::Alone);
    }

    /// There is no answer, or one that says nothing of the next: everybody tries by itself.
    pub(crate) fn failed(self) {
        self.end(|| Told::Alone);
    }

    fn end(mut self, news: impl Fn() -> Told<T>) {
        self.has_told = true;
        self.flights.close(&self.flight);
        self.flight.tell_all(news);
    }
}

impl<K: Eq + Hash + Clone, T> Drop for Leader<K, T> {
    fn drop(&mut self) {
        if self.has_told {
            return;
        }
        // Nobody may join between the look whether somebody waits and the end.
        let mut shard = self.flights.shard(&self.flight.course.key).lock();
        let mut board = self.flight.board.lock();
        let Some((number, waker)) = board.waiting.pop_first() else {
            board.phase = Phase::Over;
            drop(board);
            return self.flights.close_in(&mut shard, &self.flight);
        };
        board.told.insert(number, Told::Lead);
        drop((board, shard));
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Ends a shared flight when it is dropped: what it brought is in the store, or will not come there.
pub(crate) struct Landing<K: Eq + Hash + Clone, T> {
    flights: Arc<Flights<K, T>>,
    flight: Arc<Flight<K, T>>,
}

impl<K: Eq + Hash + Clone, T> Drop for Landing<K, T> {
    fn drop(&mut self) {
        let mut board = self.flight.board.lock();
        board.has_landed = true;
        let is_joinable = matches!(board.phase, Phase::Boarding(_));
        drop(board);
        if is_joinable {
            self.flights.close(&self.flight);
        }
    }
}

/// A request that waits for another's answer. It leaves when it is dropped.
pub(crate) struct Follower<K: Eq + Hash + Clone, T> {
    flights: Arc<Flights<K, T>>,
    flight: Arc<Flight<K, T>>,
    number: u32,
}

impl<K: Eq + Hash + Clone, T> Follower<K, T> {
    /// Waits for what becomes of it, at most until its deadline.
    pub(crate) async fn wait(self, deadline: Option<Instant>) -> Led<K, T> {
        let mut timer = Watchdog::default();
        let (clock, deadline) = (self.flights.clock, deadline.unwrap_or(Instant::NEVER));
        poll_fn(|cx| match self.poll_told(cx) {
            Poll::Ready(led) => Poll::Ready(led),
            Poll::Pending => timer.poll(clock, deadline, cx).map(|()| Led::TooLate),
        })
        .await
    }

    fn poll_told(&self, cx: &mut Context<'_>) -> Poll<Led<K, T>> {
        let mut board = self.flight.board.lock();
        if let Some(told) = board.told.remove(&self.number) {
            return Poll::Ready(match told {
                Told::Shared(seat) => Led::Shared(seat),
                Told::LookAgain => Led::LookAgain,
                Told::Alone => Led::Alone,
                Told::Lead => Led::Lead(self.lead()),
            });
        }
        if let Some(waker) = board.waiting.get_mut(&self.number)
            && !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    fn lead(&self) -> Leader<K, T> {
        Leader { flights: Arc::clone(&self.flights), flight: Arc::clone(&self.flight), has_told: false }
    }
}

impl<K: Eq + Hash + Clone, T> Drop for Follower<K, T> {
    fn drop(&mut self) {
        let mut board = self.flight.board.lock();
        board.waiting.remove(&self.number);
        let told = board.told.remove(&self.number);
        drop(board);
        // Chosen, and gone before it knew: the next one is.
        if let Some(Told::Lead) = told {
            drop(self.lead());
        }
    }
}

#[cfg(test)]
mod tests;
