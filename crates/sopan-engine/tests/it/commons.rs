//! The server of answers in common that the tests of the cache have in memory does what scripts do in Redis: both are played
//! the same random histories, and have to answer the same.
//!
//! In real time, since a server has no other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sopan_engine::CommonsSettings;
use sopan_engine::commons::{
    CaughtUp, CommonsServer, Fetched, Known, Lead, Led, Name, Notice, Purges, Put, Slot, Step, Tag, Target, Untrue,
    Whose,
};
use sopan_engine::shared::RedisSettings;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::support::commons::Commons;
use crate::support::redis::Server;
use crate::support::{ms, s};

/// Who answers, what it has told, and the numbers that it has given, in the order in which they were seen: what they are
/// differs, and which are the same does not.
struct Player {
    server: Arc<dyn CommonsServer>,
    told: mpsc::Receiver<Notice>,
    numbers: Vec<u64>,
}

/// What is asked; a number is one that was seen before, by its place.
#[derive(Debug, Clone)]
enum Ask {
    CatchUp { number: usize, is_in_doubt: bool },
    Fetch { name: Name, whose: Vec<Whose>, lead: Option<Lead> },
    Lead(Lead),
    LetGo(Lead),
    Put { name: Name, slot: Slot, number: usize, replaces: Vec<Slot> },
    Remove { name: Name, slots: Vec<Slot> },
    MakeUntrue(Untrue),
}

impl Player {
    async fn new(server: Arc<dyn CommonsServer>) -> Self {
        let told = server.listen().await.unwrap();
        Self { server, told, numbers: vec![0] }
    }

    /// By its place among those that were seen.
    fn place(&mut self, number: u64) -> usize {
        self.numbers.iter().position(|seen| *seen == number).unwrap_or_else(|| {
            self.numbers.push(number);
            self.numbers.len() - 1
        })
    }

    fn purges(&mut self, purges: Purges) -> String {
        let (number, all) = (self.place(purges.number), self.place(purges.all));
        let mut below: Vec<_> = purges.below.into_iter().map(|(path, number)| (path, self.place(number))).collect();
        below.sort();
        format!("{number} {all} {below:?}")
    }

    fn step(&mut self, Step { before, number }: Step) -> String {
        assert!(number > before);
        format!("{} to {}", self.place(before), self.place(number))
    }

    /// What it answers, in words.
    async fn ask(&mut self, tag: Tag, ask: &Ask) -> String {
        let server = Arc::clone(&self.server);
        match ask.clone() {
            Ask::CatchUp { number, is_in_doubt } => {
                let known = [Known { tag, number: self.numbers[number], is_in_doubt }];
                let [CaughtUp { time, purges }] = server.catch_up(&known).await.unwrap().try_into().unwrap();
                assert!(time > 1_700_000_000_000_000);
                self.purges(purges)
            }
            Ask::Fetch { name, whose, lead } => match server.fetch(Target { tag, name }, &whose, lead).await.unwrap() {
                Fetched::Found(mut values) => {
                    values.sort_by_key(|(slot, _)| slot.0);
                    values
                        .iter()
                        .fold("found".to_owned(), |told, (slot, value)| format!("{told} {:?}={value:?}", slot.0))
                }
                Fetched::Nothing(led) => format!("nothing {:?}", led.map(kind)),
            },
            Ask::Lead(lead) => format!("{:?}", kind(server.lead(tag, lead).await.unwrap())),
            Ask::LetGo(lead) => format!("{:?}", server.let_go(tag, lead).await),
            Ask::Put { name, slot, number, replaces } => {
                let (number, value) = (self.numbers[number], Bytes::from(format!("{number}\r\n\0")));
                let put = Put { slot, value, replaces, number, ttl: s(60) };
                format!("{:?}", server.put(Target { tag, name }, put).await)
            }
            Ask::Remove { name, slots } => format!("{:?}", server.remove(Target { tag, name }, &slots).await),
            Ask::MakeUntrue(scope) => {
                let step = server.make_untrue(tag, 7, &scope).await.unwrap();
                self.step(step)
            }
        }
    }

    /// What was told, so many times.
    async fn told(&mut self, count: usize) -> Vec<String> {
        let mut told = Vec::new();
        while told.len() < count {
            let notice = timeout(s(10), self.told.recv()).await.expect("more is told").unwrap();
            told.push(match notice {
                Notice::LetGo(course) => format!("{course} is let go"),
                Notice::Untrue { tag, step, scope, .. } => format!("{tag} {} {scope:?}", self.step(step)),
            });
        }
        told
    }
}

fn kind(led: Led) -> bool {
    match led {
        Led::ByMe => true,
        Led::ByAnother(left) => {
            assert!(!left.is_zero() && left <= s(10));
            false
        }
    }
}

/// splitmix64
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn name(&mut self) -> Name {
        Name([self.roll(3) as u8; 16])
    }

    /// Bytes of every kind: a slot is no text.
    fn slot(&mut self) -> Slot {
        let (whose, which) = (self.roll(3) as u8 * 127, self.roll(2) as u8 * 13);
        Slot(std::array::from_fn(|at| if at < 8 { whose } else { which }))
    }

    fn lead(&mut self) -> Lead {
        Lead { course: self.name(), token: self.roll(3).into(), ends_after: s(10) }
    }

    fn scope(&mut self) -> Untrue {
        match self.roll(6) {
            0 => Untrue::All,
            1 | 2 => Untrue::Below(format!("/v{} x", self.roll(3))),
            _ => Untrue::Target { name: self.name(), target: "/v1/a b?c=ü".to_owned() },
        }
    }

    fn ask(&mut self, numbers: usize) -> Ask {
        // Mostly the latest.
        let number = match self.roll(3) {
            0 => self.roll(numbers as u64) as usize,
            _ => numbers - 1,
        };
        match self.roll(16) {
            0 => Ask::CatchUp { number, is_in_doubt: self.roll(8) == 0 },
            1..=4 => {
                let lead = (self.roll(2) == 0).then(|| self.lead());
                let whose = (0..self.roll(3)).map(|_| self.slot().whose()).collect();
                Ask::Fetch { name: self.name(), whose, lead }
            }
            5 => Ask::Lead(self.lead()),
            6 => Ask::LetGo(self.lead()),
            7 => Ask::Remove { name: self.name(), slots: vec![self.slot()] },
            8 | 9 => Ask::MakeUntrue(self.scope()),
            _ => {
                let replaces = (0..self.roll(2)).map(|_| self.slot()).collect();
                Ask::Put { name: self.name(), slot: self.slot(), number, replaces }
            }
        }
    }
}

fn redis(server: &Server) -> Arc<dyn CommonsServer> {
    let mut settings = RedisSettings::new(server.url().parse().unwrap());
    // The machine may have others to serve.
    settings.timeout = s(10);
    CommonsSettings::redis(settings, "test", 1 << 20).unwrap().server
}

#[tokio::test]
async fn redis_keeps_answers_as_the_tests_believe() {
    let Some(server) = Server::start() else { return };
    let mut real = Player::new(redis(&server)).await;
    let mut ours = Player::new(Commons::new().link()).await;
    for seed in 0..300_u64 {
        let (tag, mut dice) = (Tag(seed.to_be_bytes()), Dice(seed));
        (real.numbers, ours.numbers) = (vec![0], vec![0]);
        let mut history = Vec::new();
        for _ in 0..60 {
            let ask = dice.ask(ours.numbers.len());
            history.push(ask.clone());
            let (told, expected) = (real.ask(tag, &ask).await, ours.ask(tag, &ask).await);
            assert_eq!(told, expected, "seed {seed}, after {history:#?}");
        }
        // What was told comes in the order in which it was done.
        let count = ours.told.len();
        assert_eq!(real.told(count).await, ours.told(count).await, "seed {seed}");
    }
}

#[tokio::test]
async fn what_lasts_for_a_while_ends_in_redis_too() {
    let Some(server) = Server::start() else { return };
    for server in [redis(&server), Commons::new().link() as _] {
        let (tag, name) = (Tag([1; 8]), Name([2; 16]));
        let [CaughtUp { purges, .. }] =
            server.catch_up(&[Known { tag, number: 0, is_in_doubt: false }]).await.unwrap().try_into().unwrap();
        let lead = |token, ends_after| Lead { course: name, token, ends_after };
        assert_eq!(server.lead(tag, lead(1, ms(200))).await, Ok(Led::ByMe));
        assert!(matches!(server.lead(tag, lead(2, s(10))).await, Ok(Led::ByAnother(left)) if left <= ms(200)));
        let (of, slot) = (Target { tag, name }, Slot([3; 16]));
        let put = Put { slot, value: "x".into(), replaces: Vec::new(), number: purges.number, ttl: ms(200) };
        assert_eq!(server.put(of, put).await, Ok(true));
        sleep(Duration::from_millis(300)).await;
        assert_eq!(server.lead(tag, lead(3, s(10))).await, Ok(Led::ByMe));
        assert_eq!(server.fetch(of, &[slot.whose()], None).await, Ok(Fetched::Nothing(None)));
        // Who was too late has nothing to let go of.
        assert_eq!(server.let_go(tag, lead(1, s(1))).await, Ok(()));
        assert!(matches!(server.lead(tag, lead(2, s(10))).await, Ok(Led::ByAnother(_))));
    }
}

/// Whoever else writes there costs what was stored, and not that answers are shared from then on.
#[tokio::test]
async fn what_others_have_written_under_the_keys_is_dropped() {
    let Some(server) = Server::start() else { return };
    let (mut hand, server) = (server.connect(), redis(&server));
    let (tag, name, slot) = (Tag([1; 8]), Name([2; 16]), Slot([3; 16]));
    let key = |what: &str| format!("test:{{{tag}}}:{what}");
    let (purges, answers) = (key("purges"), key(&format!("answer:{name}")));
    let (lead, of) = (Lead { course: name, token: 1, ends_after: s(10) }, Target { tag, name });
    let mut number = 0;
    let mut is_shared = async |what: &[&str]| {
        let caught = server.catch_up(&[Known { tag, number, is_in_doubt: false }]).await;
        let CaughtUp { purges, .. } = caught.unwrap_or_else(|why| panic!("{what:?}: {why}")).remove(0);
        assert!(purges.number >= number && purges.number < 1 << 52, "{what:?}: {purges:?}");
        number = purges.number;
        let fetched = server.fetch(of, &[slot.whose()], Some(lead)).await;
        assert!(fetched.is_ok(), "{what:?}: {fetched:?}");
        let put = Put { slot, value: "x".into(), replaces: Vec::new(), number, ttl: s(60) };
        assert_eq!(server.put(of, put).await, Ok(true), "{what:?}");
        let found = server.fetch(of, &[slot.whose()], None).await;
        assert_eq!(found, Ok(Fetched::Found(vec![(slot, "x".into())])), "{what:?}");
        assert_eq!(server.let_go(tag, lead).await, Ok(()), "{what:?}");
    };
    is_shared(&[]).await;
    for (field, value) in [
        ("number", "18446744073709551616"),
        ("number", "9007199254740992"),
        ("number", "nan"),
        ("number", "inf"),
        ("number", "1.5"),
        ("number", ""),
        ("swept", "x"),
        ("all", "-1"),
        ("/orders", "1e99"),
    ] {
        let command = ["HSET", &*purges, field, value];
        hand.call(&command);
        is_shared(&command).await;
    }
    for key in [purges, answers, key(&format!("lead:{name}"))] {
        hand.call(&["DEL", &key]);
        for command in [&["SET", &*key, "x"][..], &["LPUSH", &*key, "x"]] {
            hand.call(command);
            is_shared(command).await;
            hand.call(&["DEL", &key]);
        }
    }
}

/// A target has no more answers than in memory, and the latest is among them; of very many paths it is all.
#[tokio::test]
async fn what_redis_keeps_is_bounded() {
    let Some(server) = Server::start() else { return };
    let server = redis(&server);
    let (tag, name) = (Tag([1; 8]), Name([2; 16]));
    let known = [Known { tag, number: 0, is_in_doubt: false }];
    let caught = server.catch_up(&known).await.unwrap();
    let of = Target { tag, name };
    let slot = |i: u32| {
        let mut slot = [0; 16];
        slot[12..].copy_from_slice(&i.to_be_bytes());
        Slot(slot)
    };
    for i in 0..200 {
        let number = caught[0].purges.number;
        let put = Put { slot: slot(i), value: vec![b'x'; 10_000].into(), replaces: Vec::new(), number, ttl: s(60) };
        assert_eq!(server.put(of, put).await, Ok(true));
        let Fetched::Found(found) = server.fetch(of, &[slot(i).whose()], None).await.unwrap() else { panic!() };
        // A megabyte is enough for one reply.
        assert!(found.len() <= 106, "{}", found.len());
        assert!(i > 100 || found.iter().any(|(found, _)| *found == slot(i)), "{i}");
    }
    for i in 0..65 {
        server.make_untrue(tag, 1, &Untrue::Below(format!("/{i}"))).await.unwrap();
    }
    let caught = server.catch_up(&known).await.unwrap();
    let Purges { number, all, below } = &caught[0].purges;
    assert!(number == all && below.is_empty(), "{caught:?}");
}
