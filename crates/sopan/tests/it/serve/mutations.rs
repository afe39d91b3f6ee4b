//! Messages that nobody thinks of: thousands of good ones, each broken in a few places, through the real program.
//!
//! Nobody says what is right for each. What must hold of all: nothing malformed reaches either side, each is answered or
//! its connection closed, how it is cut into packets makes no difference, and the program serves on as before.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sopan_fake::conformance::mutate::{self, Mutant};
use sopan_fake::conformance::{Heard, hear, unclean};
use sopan_fake::script::{Answer, Request};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::door::{Scripted, Serve};
use crate::support::PATIENCE;

/// A message that breaks off is waited for this long, and many do.
const FLAGS: &[&str] = &[
    "--rate unlimited",
    "--max-retries 0",
    "--breaker off",
    "--max-hold 1ms",
    "--header-timeout 3s",
    "--idle-timeout 3s",
    "--attempt-timeout 6s",
];

/// Between two parts of a message, so that they are read apart.
const APART: Duration = Duration::from_millis(2);
/// So many connections are open at once.
const AT_ONCE: usize = 300;
/// The same messages in every run; the comparison with other proxies uses them too.
const SEED: u64 = 1;
/// More than the connections that are open at once can need, far less than a leak of 1 KiB a message would cost.
const GROWTH_MAX: u64 = 16 * 1024 * 1024;

#[test]
fn no_mutated_request_goes_on_malformed_and_each_is_answered_or_closed() {
    const REQUESTS: usize = 20_000;
    let upstream = Scripted::start(echo);
    let proxy = Serve::start(&upstream.url(), FLAGS);
    let mutants: Vec<_> = mutate::requests(SEED, &proxy.address.to_string()).take(REQUESTS).collect();
    let (first, rest) = mutants.split_at(REQUESTS / 4);
    let mut faults = judge_all(proxy.address, first);
    let memory = proxy.memory();
    faults.extend(judge_all(proxy.address, rest));
    let grown = proxy.memory().saturating_sub(memory);
    assert_eq!(faults, BTreeMap::new());
    assert_upstream_saw_only_clean(&upstream);
    assert_eq!(proxy.get("/last").status(), 200);
    assert!(grown < GROWTH_MAX, "{grown} bytes more than after the first quarter");
}

#[test]
fn no_mutated_answer_reaches_the_client_malformed_or_becomes_the_next_one() {
    const ANSWERS: usize = 10_000;
    let mutants: Arc<Vec<_>> = Arc::new(mutate::answers(SEED).take(ANSWERS).collect());
    let script = Arc::clone(&mutants);
    let upstream = Scripted::start(move |request| answer(&script, request));
    let proxy = Serve::start(&upstream.url(), FLAGS);
    let address = proxy.address;
    let all = each_of(ANSWERS, move |at| async move {
        let heard = ask(address, &format!("/mutant/{at}")).await;
        let next = ask(address, &format!("/plain/{at}")).await;
        (heard, next)
    });
    let mut faults = BTreeMap::new();
    for (at, (heard, next)) in all {
        let bad = fault(&heard).or_else(|| (heard.replies.len() > 1).then(|| "several answers".to_owned()));
        let is_right =
            next.replies.iter().any(|reply| reply.status == 200 && reply.body == format!("plain {at}").as_bytes());
        let bad = bad.or_else(|| (!is_right || next.replies.len() != 1).then(|| format!("the next answer: {next:?}")));
        if let Some(bad) = bad {
            faults.insert(shown(&mutants[at]), bad);
        }
    }
    assert_eq!(faults, BTreeMap::new());
    assert_upstream_saw_only_clean(&upstream);
}

/// A message to 2 KiB is cut at every byte, a longer one at 200; what comes of it is what came of the whole.
#[test]
fn how_a_message_is_cut_makes_no_difference() {
    let upstream = Scripted::start(echo);
    let proxy = Serve::start(&upstream.url(), FLAGS);
    let host = proxy.address.to_string();
    let mut messages: Vec<_> = mutate::requests(SEED + 1, &host).take(150).map(|mutant| mutant.bytes).collect();
    messages.extend(long_messages(&host));
    let address = proxy.address;
    let messages = Arc::new(messages);
    let (of_whole, of_cut) = (Arc::clone(&messages), Arc::clone(&messages));
    let whole = each_of(messages.len(), move |at| {
        let messages = Arc::clone(&of_whole);
        async move { hear(address, &messages[at], None, PATIENCE).await.unwrap() }
    });
    // One that breaks off is waited for, so that cutting it anywhere would only take time.
    let is_waited_for =
        |heard: &Heard| heard.replies.is_empty() || heard.replies.iter().any(|reply| reply.status == 408);
    let cuts: Vec<_> = (0..messages.len())
        .filter(|at| !is_waited_for(&whole[at]))
        .flat_map(|at| places_in(messages[at].len()).into_iter().map(move |cut| (at, cut)))
        .collect();
    assert!(cuts.len() > 10_000, "{} places are no test", cuts.len());
    let places = cuts.clone();
    let all = each_of(cuts.len(), move |number| {
        let (messages, (at, cut)) = (Arc::clone(&of_cut), places[number]);
        async move { hear(address, &messages[at], Some(cut), PATIENCE).await.unwrap() }
    });
    let mut faults = BTreeMap::new();
    for (number, heard) in all {
        let (at, cut) = cuts[number];
        let (cut_up, together) = (outcome(&heard), outcome(&whole[&at]));
        if cut_up != together {
            let (first, second) = messages[at].split_at(cut);
            let shown = format!("{} | {}", first.escape_ascii(), second.escape_ascii());
            faults.insert(shown, format!("{cut_up:?} and not {together:?}"));
        }
    }
    assert_eq!(faults, BTreeMap::new());
    assert_upstream_saw_only_clean(&upstream);
}

/// Where a message is cut: everywhere to 2 KiB, else at 200 places that are drawn, the same in every run.
fn places_in(length: usize) -> Vec<usize> {
    if length <= 2048 {
        return (1..length).collect();
    }
    let mut drawn = SEED;
    let draw = |_| {
        // Knuth's generator, MMIX's numbers; its high bits are the better ones.
        drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1 + (drawn >> 33) as usize % (length - 1)
    };
    (0..200).map(draw).collect()
}

/// The same of answers. What comes of one cut in two is what comes of it in one piece.
#[test]
fn how_an_answer_is_cut_makes_no_difference() {
    let long = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\n", "v".repeat(3000));
    let chunks: String = (1..60).map(|size| format!("{size:x}\r\n{}\r\n", "c".repeat(size))).collect();
    let mut answers: Vec<_> = mutate::answers(SEED + 1).take(60).map(|mutant| mutant.bytes).collect();
    answers.extend([
        format!("{long}Content-Length: 3000\r\n\r\n{}", "b".repeat(3000)).into_bytes(),
        format!("{long}Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\nX-Sum: 7\r\n\r\n").into_bytes(),
        format!("{long}Transfer-Encoding: chunked\r\n\r\n{chunks}+1\r\nx\r\n0\r\n\r\n").into_bytes(),
    ]);
    let answers = Arc::new(answers);
    let script = Arc::clone(&answers);
    let upstream = Scripted::start(move |request| {
        let mut numbers = request.target.split('/').filter_map(|number| number.parse::<usize>().ok());
        let (at, cut) = (numbers.next().unwrap(), numbers.next().unwrap());
        let (first, second) = script[at].split_at(cut);
        Answer::raw(first.to_vec()).sleep(APART).send(second.to_vec()).close()
    });
    let proxy = Serve::start(&upstream.url(), FLAGS);
    let places: Vec<_> = (0..answers.len())
        .flat_map(|at| {
            // In one piece first.
            std::iter::once(0).chain(places_in(answers[at].len())).map(move |cut| (at, cut))
        })
        .collect();
    assert!(places.len() > 5_000, "{} places are no test", places.len());
    let all = ask_until_seen(proxy.address, &upstream, &places);
    // The words of sopan's own answers may tell how far it came.
    let outcome = |heard: &Heard| {
        let body =
            |reply: &sopan_fake::conformance::Reply| if reply.status == 502 { vec![] } else { reply.body.clone() };
        heard.replies.iter().map(|reply| (reply.status, reply.is_whole, body(reply))).collect::<Vec<_>>()
    };
    let mut whole = BTreeMap::new();
    let mut faults = BTreeMap::new();
    for (number, heard) in all {
        let (at, cut) = places[number];
        // The first of each is not cut at all.
        let together = whole.entry(at).or_insert_with(|| outcome(&heard));
        if *together != outcome(&heard) {
            let (first, second) = answers[at].split_at(cut);
            let shown = format!("{} | {}", first.escape_ascii(), second.escape_ascii());
            faults.insert(shown, format!("{:?} and not {together:?}", outcome(&heard)));
        }
    }
    assert_eq!(faults, BTreeMap::new());
}

/// Asks for every answer, cut at its place, until the upstream has seen the request.
///
/// Where the cut lies just behind what the proxy takes for the end of an answer, the second piece belongs to nobody. Until
/// it comes the connection is as good as any, so another request may go out on it, and finds that piece where its answer
/// should be. Nothing in the protocol tells the two apart. The upstream closes then and never looks at that request. So
/// there is one such request at most for each answer, and more would be the proxy's fault.
fn ask_until_seen(address: SocketAddr, upstream: &Scripted, places: &[(usize, usize)]) -> BTreeMap<usize, Heard> {
    let name = |(number, (at, cut)): (usize, &(usize, usize))| format!("/{at}/{cut}/{number}");
    let targets: Arc<Vec<_>> = Arc::new(places.iter().enumerate().map(name).collect());
    let answers = places.iter().filter(|(_, cut)| *cut == 0).count();
    let (mut left, mut unseen, mut all) = ((0..targets.len()).collect::<Vec<_>>(), 0, BTreeMap::new());
    while !left.is_empty() {
        let (targets_asked, numbers) = (Arc::clone(&targets), left.clone());
        let heard = each_of(left.len(), move |at| {
            let (targets, number) = (Arc::clone(&targets_asked), numbers[at]);
            async move { ask(address, &targets[number]).await }
        });
        let seen: HashSet<_> = upstream.requests().into_iter().map(|request| request.target).collect();
        let asked = left.into_iter().zip(heard.into_values());
        let (answered, others): (Vec<_>, Vec<_>) = asked.partition(|(number, _)| seen.contains(&targets[*number]));
        all.extend(answered);
        unseen += others.len();
        assert!(unseen <= answers, "{unseen} requests did not reach the upstream, at last {others:?}");
        left = others.into_iter().map(|(number, _)| number).collect();
    }
    all
}

/// Tells in its body what arrived, so that the client sees whether it is the same.
fn echo(request: &Request) -> Answer {
    let seen = request
        .head
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let answer = Answer::status(200).header("X-Upstream", "1").body(format!("{seen:x}"));
    if request.field("expect").is_some() {
        return Answer::raw("HTTP/1.1 100 Continue\r\n\r\n").early().then(answer);
    }
    answer
}

/// A mutated answer, after which every second connection stays open for others; or a plain one.
fn answer(mutants: &[Mutant], request: &Request) -> Answer {
    let number = |kind| request.target.strip_prefix(kind).and_then(|number| number.parse::<usize>().ok());
    let Some(at) = number("/mutant/") else {
        return Answer::status(200).body(format!("plain {}", number("/plain/").unwrap_or_default()));
    };
    let answer = Answer::raw(mutants[at].bytes.clone());
    if at % 2 == 0 { answer.close() } else { answer }
}

/// Messages of more than 2 KiB, good and bad.
fn long_messages(host: &str) -> Vec<Vec<u8>> {
    let chunks: String = (1..60).map(|size| format!("{size:x}\r\n{}\r\n", "c".repeat(size))).collect();
    let head = format!("POST /long HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nX-Long: {}\r\n", "v".repeat(3000));
    vec![
        format!("{head}Content-Length: 3000\r\n\r\n{}", "b".repeat(3000)).into_bytes(),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\nX-Sum: 7\r\n\r\n").into_bytes(),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunks}+1\r\nx\r\n0\r\n\r\n").into_bytes(),
        format!("{head}X-Bad: a\0b\r\n\r\n").into_bytes(),
    ]
}

/// Does something so many times, many at once.
fn each_of<T, F>(count: usize, one: impl Fn(usize) -> F) -> BTreeMap<usize, T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (places, mut running, mut done) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new(), BTreeMap::new());
        for number in 0..count {
            let place = Arc::clone(&places).acquire_owned().await.unwrap();
            let one = one(number);
            running.spawn(async move {
                let result = one.await;
                drop(place);
                (number, result)
            });
            while let Some(ended) = running.try_join_next() {
                done.extend([ended.unwrap()]);
            }
        }
        while let Some(ended) = running.join_next().await {
            done.extend([ended.unwrap()]);
        }
        done
    })
}

/// What was wrong, by message.
fn judge_all(proxy: SocketAddr, mutants: &[Mutant]) -> BTreeMap<String, String> {
    let messages: Arc<Vec<_>> = Arc::new(mutants.iter().map(|mutant| mutant.bytes.clone()).collect());
    let all = each_of(mutants.len(), move |at| {
        let messages = Arc::clone(&messages);
        async move { hear(proxy, &messages[at], None, PATIENCE).await.unwrap() }
    });
    all.into_iter().filter_map(|(at, heard)| Some((shown(&mutants[at]), fault(&heard)?))).collect()
}

/// What no message may lead to.
fn fault(heard: &Heard) -> Option<String> {
    let malformed: Vec<_> = heard.replies.iter().flat_map(|reply| &reply.unclean).collect();
    if heard.ended.is_none() {
        Some(format!("neither answered to its end nor closed: {heard:?}"))
    } else if !malformed.is_empty() {
        Some(format!("malformed: {malformed:?}"))
    } else if !heard.rest.is_empty() {
        Some(format!("no answer: {:?}", heard.rest.escape_ascii().to_string()))
    } else {
        None
    }
}

/// All answers, each as its status, whether it is whole, and what the upstream says that arrived.
fn outcome(heard: &Heard) -> Vec<(u16, bool, Vec<u8>)> {
    let from_upstream = |reply: &sopan_fake::conformance::Reply| !reply.fields_named("x-upstream").is_empty();
    let body =
        |reply: &sopan_fake::conformance::Reply| if from_upstream(reply) { reply.body.clone() } else { Vec::new() };
    heard.replies.iter().map(|reply| (reply.status, reply.is_whole, body(reply))).collect()
}

async fn ask(proxy: SocketAddr, target: &str) -> Heard {
    let request = format!("GET {target} HTTP/1.1\r\nHost: {proxy}\r\nConnection: close\r\n\r\n");
    hear(proxy, request.as_bytes(), None, PATIENCE).await.unwrap()
}

fn shown(mutant: &Mutant) -> String {
    format!("{} [{}]", mutant.bytes.escape_ascii(), mutant.how)
}

#[track_caller]
fn assert_upstream_saw_only_clean(upstream: &Scripted) {
    let requests = upstream.requests();
    assert!(requests.len() > 1000, "only {} requests arrived, so this says nothing", requests.len());
    let bad: Vec<_> =
        requests.iter().map(|request| (request, unclean(request))).filter(|(_, bad)| !bad.is_empty()).collect();
    let bad: Vec<_> = bad.iter().map(|(request, bad)| format!("{bad:?}: {}", request.head.escape_ascii())).collect();
    assert_eq!(bad, [""; 0]);
    let cut: Vec<_> = upstream.connections().iter().flat_map(|connection| connection.unclean.clone()).collect();
    assert_eq!(cut, [""; 0]);
}
