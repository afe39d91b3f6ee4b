use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, SystemTime};

use http::header::{ACCEPT, IF_NONE_MATCH, IF_RANGE, RANGE, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use sopan_core::cache::conditional::Conditions;
use sopan_core::cache::directives::RequestDirectives;
use sopan_core::cache::range::Span;
use sopan_core::cache::status::Forward;
use sopan_core::cache::{Ask, Marks, Owner};

use super::loners::{ALONE_FOR, LONERS_MAX};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A seat is only counted here: who holds none has let go of it.
type Seat = Arc<()>;
type Air = Arc<Flights<&'static str, Seat>>;
type Wait = Pin<Box<dyn Future<Output = Led<&'static str, Seat>> + Send>>;

fn air() -> Air {
    Arc::new(Flights::new(Clock::paused(SystemTime::UNIX_EPOCH)))
}

/// What distinguishes a request, for its flight.
#[derive(Clone)]
struct Request {
    method: Method,
    host: &'static [u8],
    headers: HeaderMap,
    owner: Option<Owner>,
    ask: Option<Ask>,
}

impl Default for Request {
    fn default() -> Self {
        Self { method: Method::GET, host: b"sopan", headers: HeaderMap::new(), owner: None, ask: None }
    }
}

impl Request {
    fn with(field: HeaderName, value: &'static str) -> Self {
        Self { headers: HeaderMap::from_iter([(field, HeaderValue::from_static(value))]), ..Self::default() }
    }

    fn join(&self, air: &Air, key: &'static str) -> Joined<&'static str, Seat> {
        let asked = Asked {
            method: &self.method,
            target: "/",
            host: self.host,
            headers: &self.headers,
            marks: Marks::of(&self.headers),
            owner: self.owner,
            has_body: false,
            directives: RequestDirectives::default(),
            rule: None,
        };
        let ask = self.ask.clone().map(Box::new);
        let sent = Sent { forward: Forward::UriMiss, ask, fallback: None, is_sharable: true, may_store: true };
        air.join(key, &asked, None, &sent)
    }
}

fn join(air: &Air, key: &'static str) -> Joined<&'static str, Seat> {
    Request::default().join(air, key)
}

#[track_caller]
fn lead(air: &Air, key: &'static str) -> Leader<&'static str, Seat> {
    match join(air, key) {
        Joined::Lead(leader) => leader,
        Joined::Follow(_) => panic!("it follows"),
        Joined::Alone => panic!("it goes alone"),
    }
}

#[track_caller]
fn follow(air: &Air, key: &'static str) -> Follower<&'static str, Seat> {
    match join(air, key) {
        Joined::Follow(follower) => follower,
        Joined::Lead(_) => panic!("it leads"),
        Joined::Alone => panic!("it goes alone"),
    }
}

fn name(joined: &Joined<&'static str, Seat>) -> &'static str {
    match joined {
        Joined::Lead(_) => "lead",
        Joined::Follow(_) => "follow",
        Joined::Alone => "alone",
    }
}

fn news(led: &Led<&'static str, Seat>) -> &'static str {
    match led {
        Led::Shared(_) => "shared",
        Led::LookAgain => "look again",
        Led::Alone => "alone",
        Led::Lead(_) => "lead",
        Led::TooLate => "too late",
    }
}

/// Seats without end, each a clone of one.
fn seats(seat: &Seat) -> impl Fn() -> Option<Seat> + Send + Sync + 'static {
    let seat = Arc::clone(seat);
    move || Some(Arc::clone(&seat))
}

/// What it has been told, if it has.
fn told(wait: &mut Wait) -> Option<Led<&'static str, Seat>> {
    match wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(led) => Some(led),
        Poll::Pending => None,
    }
}

#[tokio::test(start_paused = true)]
async fn five_hundred_followers_get_what_one_leader_brings() {
    type End = fn(Leader<&'static str, Seat>, &Seat);
    let ends: [(&str, End); 4] = [
        ("shared", |leader, seat| leader.shared(seats(seat))),
        ("look again", |leader, _| leader.stored()),
        ("alone", |leader, _| leader.alone()),
        ("alone", |leader, _| leader.failed()),
    ];
    for (expected, end) in ends {
        let (air, seat) = (air(), Seat::default());
        let leader = lead(&air, "a");
        let landing = leader.landing();
        let waits: Vec<_> = (0..500).map(|_| tokio::spawn(follow(&air, "a").wait(None))).collect();
        tokio::task::yield_now().await;
        end(leader, &seat);
        for wait in waits {
            assert_eq!(news(&wait.await.unwrap()), expected);
        }
        drop(landing);
        assert_eq!((air.count(), Arc::strong_count(&seat)), (0, 1), "{expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_one_that_has_waited_longest_leads_when_the_leader_leaves() {
    let (air, seat) = (air(), Seat::default());
    let leader = lead(&air, "a");
    let mut waits: Vec<Wait> = (0..5).map(|_| Box::pin(follow(&air, "a").wait(None)) as Wait).collect();
    // One leaves while it waits, one is chosen and leaves before it knows.
    drop(waits.remove(1));
    drop(leader);
    drop(waits.remove(0));
    assert_eq!(name(&join(&air, "a")), "follow");
    let Some(Led::Lead(second)) = told(&mut waits[0]) else { panic!("nobody leads") };
    assert!(waits[1..].iter_mut().all(|wait| told(wait).is_none()));
    let landing = second.landing();
    second.shared(seats(&seat));
    for wait in &mut waits[1..] {
        assert_eq!(news(&told(wait).unwrap()), "shared");
    }
    // The seat of one that never hears of it is given back, too.
    let unheard = follow(&air, "a");
    assert_eq!(Arc::strong_count(&seat), 3);
    drop(unheard);
    assert_eq!(Arc::strong_count(&seat), 2);
    drop((landing, waits));
    assert_eq!((air.count(), Arc::strong_count(&seat)), (0, 1));
    drop(lead(&air, "a"));
    assert_eq!(air.count(), 0);
}

/// What has to be asked about each time is older than nobody who gets it.
#[tokio::test(start_paused = true)]
async fn those_who_came_before_it_was_asked_for_get_it_and_the_others_ask_once_more() {
    let (air, seat) = (air(), Seat::default());
    let wait = || Box::pin(follow(&air, "a").wait(None)) as Wait;
    let leader = lead(&air, "a");
    let mut before = [wait(), wait()];
    leader.sends();
    let mut between = [wait(), wait()];
    // The last time counts: it was sent again.
    leader.sends();
    let mut later = [wait(), wait(), wait()];
    leader.answers_those_before(seats(&seat));
    for wait in before.iter_mut().chain(&mut between) {
        assert_eq!(news(&told(wait).unwrap()), "shared");
    }
    let Some(Led::Lead(second)) = told(&mut later[0]) else { panic!("nobody leads") };
    assert!(later[1..].iter_mut().all(|wait| told(wait).is_none()));
    let mut latest = wait();
    second.sends();
    second.answers_those_before(seats(&seat));
    for wait in later[1..].iter_mut().chain([&mut latest]) {
        assert_eq!(news(&told(wait).unwrap()), "shared");
    }
    assert_eq!((air.count(), Arc::strong_count(&seat)), (0, 1));
    // Nobody has come since it was sent, and there is no seat.
    let leader = lead(&air, "a");
    let mut before = wait();
    leader.sends();
    leader.answers_those_before(|| None);
    assert_eq!((news(&told(&mut before).unwrap()), air.count()), ("alone", 0));
}

#[tokio::test(start_paused = true)]
async fn a_chosen_follower_is_woken() {
    let air = air();
    let leader = lead(&air, "a");
    let first = tokio::spawn(follow(&air, "a").wait(None));
    let second = tokio::spawn(follow(&air, "a").wait(None));
    tokio::task::yield_now().await;
    drop(leader);
    let Led::Lead(leader) = first.await.unwrap() else { panic!("it does not lead") };
    drop(leader);
    assert_eq!(news(&second.await.unwrap()), "lead");
    assert_eq!(air.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_flight_is_joined_until_it_has_landed_or_has_no_seats() {
    let (air, seat, left) = (air(), Seat::default(), Arc::new(AtomicUsize::new(2)));
    let leader = lead(&air, "a");
    let (landing, seats, count) = (leader.landing(), seats(&seat), Arc::clone(&left));
    leader.shared(move || {
        count.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).ok()?;
        seats()
    });
    for _ in 0..2 {
        assert_eq!(news(&follow(&air, "a").wait(None).await), "shared");
    }
    // A new flight takes its place, and is not ended by its landing.
    let second = lead(&air, "a");
    drop(landing);
    assert_eq!((name(&join(&air, "a")), Arc::strong_count(&seat)), ("follow", 1));
    drop(second);
    assert_eq!(air.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_landed_before_it_was_shared_is_shared_with_who_waits_and_nobody_else() {
    let (air, seat) = (air(), Seat::default());
    let leader = lead(&air, "a");
    let follower = follow(&air, "a");
    drop(leader.landing());
    leader.shared(seats(&seat));
    assert_eq!(news(&follower.wait(None).await), "shared");
    assert_eq!((air.count(), Arc::strong_count(&seat)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_beyond_its_deadline() {
    let air = air();
    let leader = lead(&air, "a");
    let deadline = air.clock.now().after(3 * SECOND);
    let begun = air.clock.now();
    assert_eq!(news(&follow(&air, "a").wait(Some(deadline)).await), "too late");
    assert!(air.clock.now().since(begun) >= 3 * SECOND);
    let next = follow(&air, "a");
    drop(leader);
    // What has come counts, though its time is over as well.
    assert_eq!(news(&next.wait(Some(begun)).await), "lead");
    assert_eq!(air.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_came_in_vain_is_not_joined_for_a_minute() {
    let air = air();
    lead(&air, "a").alone();
    assert_eq!((name(&join(&air, "a")), name(&join(&air, "b"))), ("alone", "lead"));
    tokio::time::sleep(ALONE_FOR - SECOND).await;
    assert_eq!(name(&join(&air, "a")), "alone");
    tokio::time::sleep(SECOND).await;
    lead(&air, "a").failed();
    assert_eq!(name(&join(&air, "a")), "lead");
}

#[test]
fn loners_are_bounded_and_forgotten() {
    let mut loners = Loners::new(10);
    let at = |second: u64| Instant::ORIGIN.after(second as u32 * SECOND / 1_000);
    for number in 0..5_000 {
        loners.add(number, at(number));
    }
    let kept = LONERS_MAX / 10;
    assert_eq!(loners.count(), kept);
    assert_eq!((loners.contains(&3_999, || at(5_000)), loners.contains(&4_000, || at(5_000))), (false, true));
    // Added once more, it is remembered from then.
    loners.add(4_000, at(30_000));
    loners.add(0, at(30_000 + 59_999));
    assert_eq!((loners.count(), loners.contains(&4_000, || at(89_999))), (2, true));
    assert!(!loners.contains(&4_000, || at(90_000)));
}

#[tokio::test(start_paused = true)]
async fn what_is_doomed_is_not_joined() {
    let (air, seat) = (air(), Seat::default());
    let old = lead(&air, "a");
    let landing = old.landing();
    let follower = follow(&air, "a");
    air.doom(&"b");
    assert_eq!(name(&join(&air, "a")), "follow");
    air.doom(&"a");
    let new = lead(&air, "a");
    // Who asked before may have the old one.
    old.shared(seats(&seat));
    assert_eq!(news(&follower.wait(None).await), "shared");
    drop(landing);
    assert_eq!(name(&join(&air, "a")), "follow");
    let other = lead(&air, "b");
    air.doom_where(|key| *key != "b");
    let newer = lead(&air, "a");
    assert_eq!(name(&join(&air, "b")), "follow");
    drop((new, newer, other));
    assert_eq!((air.count(), Arc::strong_count(&seat)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn only_what_may_have_the_same_answer_flies_together() {
    let air = air();
    let ask = |tag: &'static str, missing: Option<Span>| {
        let conditions = Conditions { none_match: Some(HeaderValue::from_static(tag)), modified_since: None };
        Some(Ask { index: 0, conditions, missing })
    };
    let tail = Some(Span { first: 5, last: 9 });
    let plain = Request::default;
    let owner = |byte| Some(Owner([byte; 16]));
    let distinct = [
        plain(),
        Request { method: Method::HEAD, ..plain() },
        Request { host: b"other", ..plain() },
        Request { owner: owner(1), ..plain() },
        Request { owner: owner(2), ..plain() },
        Request::with(RANGE, "bytes=0-5"),
        Request::with(RANGE, "bytes=0-6"),
        Request::with(IF_NONE_MATCH, "\"a\""),
        Request::with(IF_RANGE, "\"a\""),
        Request::with(VIA, "1.1 sopan"),
        Request::with(VIA, "1.1 sopan, 1.1 other, 1.1 sopan"),
        Request { ask: ask("\"a\"", None), ..plain() },
        Request { ask: ask("\"b\"", None), ..plain() },
        Request { ask: ask("\"a\"", tail), ..plain() },
    ];
    let leaders: Vec<_> = distinct.iter().map(|request| request.join(&air, "a")).collect();
    assert!(leaders.iter().all(|joined| name(joined) == "lead"));
    for request in &distinct {
        assert_eq!(name(&request.join(&air, "a")), "follow");
    }
    // Through whose hands it has gone is all the same, if it is not sopan's.
    assert_eq!(name(&Request::with(VIA, "1.1 other").join(&air, "a")), "follow");
    // Where it is asked about what is stored, what the client has already makes no difference; nor do fields that an answer
    // has not named yet.
    let has_some = Request { ask: ask("\"a\"", None), ..Request::with(IF_NONE_MATCH, "\"mine\"") };
    assert_eq!(name(&has_some.join(&air, "a")), "follow");
    assert_eq!(name(&Request::with(ACCEPT, "text/html").join(&air, "a")), "follow");
    assert_eq!(air.count(), distinct.len());
    air.doom(&"a");
    assert_eq!(air.count(), 0);
}

/// Everybody leaves at any moment, flights end in all ways: nothing is left, and nobody waits for what never comes.
#[tokio::test(start_paused = true)]
async fn after_a_storm_nothing_is_left() {
    const KEYS: [&str; 3] = ["a", "b", "c"];
    for seed in 0..60 {
        let (air, seat, mut rng) = (air(), Seat::default(), StdRng::seed_from_u64(seed));
        let mut leaders: Vec<Leader<&str, Seat>> = Vec::new();
        let (mut waits, mut landings, mut held) = (Vec::<Wait>::new(), Vec::new(), Vec::new());
        for _ in 0..2_000 {
            match rng.random_range(0..12) {
                0..5 => match join(&air, KEYS.choose(&mut rng).unwrap()) {
                    Joined::Lead(leader) => leaders.push(leader),
                    Joined::Follow(follower) => waits.push(Box::pin(follower.wait(None))),
                    Joined::Alone => tokio::time::advance(20 * SECOND).await,
                },
                5 if !waits.is_empty() => drop(waits.swap_remove(rng.random_range(0..waits.len()))),
                6 if !landings.is_empty() => drop(landings.swap_remove(rng.random_range(0..landings.len()))),
                7..10 if !leaders.is_empty() => {
                    let leader = leaders.swap_remove(rng.random_range(0..leaders.len()));
                    match rng.random_range(0..6) {
                        0 => leader.stored(),
                        1 => leader.alone(),
                        2 => leader.failed(),
                        3 => {
                            landings.push(leader.landing());
                            leader.shared(seats(&seat));
                        }
                        _ => drop(leader),
                    }
                }
                10 => {
                    held.clear();
                    if rng.random_bool(0.1) {
                        air.doom(KEYS.choose(&mut rng).unwrap());
                    }
                }
                _ => {
                    if let Some(at) = (!waits.is_empty()).then(|| rng.random_range(0..waits.len()))
                        && let Some(led) = told(&mut waits[at])
                    {
                        drop(waits.swap_remove(at));
                        match led {
                            Led::Lead(leader) => leaders.push(leader),
                            led => held.push(led),
                        }
                    }
                }
            }
        }
        // Whoever waits still has a leader that can tell it something.
        drop((landings, held));
        loop {
            leaders.pop();
            waits.retain_mut(|wait| match told(wait) {
                None => true,
                Some(led) => {
                    leaders.extend(if let Led::Lead(leader) = led { Some(leader) } else { None });
                    false
                }
            });
            if leaders.is_empty() {
                break;
            }
        }
        assert_eq!((waits.len(), air.count(), Arc::strong_count(&seat)), (0, 0, 1), "seed {seed}");
    }
}

/// The same from several threads: whoever waits is told something in the end, or would wait here for ever.
#[test]
fn a_storm_on_several_threads_leaves_nobody_waiting() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (air, seat) = (Arc::new(Flights::new(Clock::system())), Seat::default());
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let (air, seat, runtime) = (&air, &seat, runtime());
            threads.spawn(move || {
                let mut rng = StdRng::seed_from_u64(thread);
                for _ in 0..20_000 {
                    let lead = match join(air, ["a", "b"].choose(&mut rng).unwrap()) {
                        Joined::Lead(leader) => Some(leader),
                        Joined::Follow(follower) if rng.random_bool(0.3) => {
                            drop(follower);
                            None
                        }
                        Joined::Follow(follower) => {
                            let wait = async { tokio::time::timeout(60 * SECOND, follower.wait(None)).await };
                            match runtime.block_on(wait).expect("it waits for nobody") {
                                Led::Lead(leader) => Some(leader),
                                _ => None,
                            }
                        }
                        Joined::Alone => panic!("nobody was for itself"),
                    };
                    let Some(leader) = lead else { continue };
                    match rng.random_range(0..6) {
                        0 => leader.stored(),
                        1 => leader.failed(),
                        3 => {
                            leader.sends();
                            leader.answers_those_before(seats(seat));
                        }
                        2 => {
                            let landing = leader.landing();
                            leader.shared(seats(seat));
                            std::thread::yield_now();
                            drop(landing);
                        }
                        _ => drop(leader),
                    }
                }
            });
        }
    });
    assert_eq!((air.count(), Arc::strong_count(&seat)), (0, 1));
}
