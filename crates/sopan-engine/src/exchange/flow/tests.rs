mod place;

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use http::{Method, Uri};
use http_body::Body as _;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use sopan_core::cache;
use sopan_core::queue::ClientId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::super::answer::{AnswerBody, Sharing};
use super::super::story::{Story, Told};
use super::kept::Done;
use super::*;
use crate::budget::ByteBudget;
use crate::coalesce::{Flights, Joined, Led};
use place::{KIB, Meanwhile, Place, Read, SECOND, chunked, frame, here, length, noise, pour, read, settled};

#[tokio::test(start_paused = true)]
async fn five_hundred_readers_get_the_body_that_the_store_gets() {
    let (place, body) = (Place::new(), noise(300 * KIB));
    for (head, sent) in [
        (length(300 * KIB), body.clone()),
        ("Transfer-Encoding: chunked".to_owned(), chunked(&body, "")),
        ("Transfer-Encoding: chunked".to_owned(), chunked(&body, "X-Sum: 7\r\n")),
    ] {
        let has_trailers = sent.ends_with(b"7\r\n\r\n");
        let (flow, first, theirs) = place.flow(&head, Some(place.keep())).await;
        let mut readers = vec![tokio::spawn(read(first))];
        readers.extend((1..250).map(|_| tokio::spawn(read(flow.reader().unwrap()))));
        settled().await;
        let pouring = pour(theirs, sent);
        readers.extend((250..500).map(|_| tokio::spawn(read(flow.reader().unwrap()))));
        for reader in readers {
            let read = reader.await.unwrap();
            read.is(&body);
            let told = read.trailers.map(|trailers| trailers["x-sum"].clone());
            assert_eq!(told.is_some(), has_trailers);
        }
        assert_eq!(place.handed_on(), [&body[..]]);
        assert!(place.whole.lock().pop().unwrap().try_into_mut().is_err(), "who comes still reads it");
        // Also who comes when it has ended, as long as the flow is known.
        let late = flow.reader().unwrap();
        assert_eq!((late.size_hint().exact(), late.is_end_stream()), (Some(300 * KIB), false));
        read(late).await.is(&body);
        drop((flow, pouring.await.unwrap()));
        place.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_store_gets_keeps_no_other_memory_alive() {
    let place = Place::new();
    let (flow, reader, theirs) = place.flow("Transfer-Encoding: chunked", Some(place.keep())).await;
    let _pouring = pour(theirs, chunked(b"short", ""));
    read(reader).await.is(b"short");
    drop(flow);
    let whole = place.whole.lock().pop().unwrap();
    let whole = whole.try_into_mut().expect("nobody else holds it");
    assert_eq!((&whole[..], whole.capacity()), (&b"short"[..], 5));
}

#[tokio::test(start_paused = true)]
async fn a_body_is_handed_on_before_anybody_hears_of_its_end() {
    let place = Place::new();
    let (_flow, mut reader, mut theirs) = place.flow(&length(5), Some(place.keep())).await;
    theirs.write_all(b"hel").await.unwrap();
    assert_eq!((frame(&mut reader).unwrap(), place.handed_on().len()), (Bytes::from_static(b"hel"), 0));
    assert_eq!((reader.size_hint().exact(), reader.is_end_stream()), (Some(2), false));
    theirs.write_all(b"lo").await.unwrap();
    assert_eq!((frame(&mut reader).unwrap(), place.handed_on().len()), (Bytes::from_static(b"lo"), 1));
    assert!(reader.is_end_stream());
}

#[tokio::test(start_paused = true)]
async fn a_body_without_bytes_is_whole_at_once() {
    let place = Place::new();
    let (flow, reader, _theirs) = place.flow(&length(0), Some(place.keep())).await;
    assert!(reader.is_end_stream());
    assert_eq!(reader.size_hint().exact(), Some(0));
    read(reader).await.is(b"");
    read(flow.reader().unwrap()).await.is(b"");
    assert_eq!(place.handed_on(), [""]);
    place.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_off_is_handed_to_nobody() {
    let place = Place::new();
    for (head, sent, closes, why) in [
        (length(9), &b"hello"[..], true, "the upstream broke off its answer"),
        ("Transfer-Encoding: chunked".to_owned(), b"5\r\nhello\r\nzz\r\n", false, "the upstream broke off its answer"),
        (length(9), b"hello", false, "the upstream fell silent in the middle of its answer"),
    ] {
        let (flow, first, mut theirs) = place.flow(&head, Some(place.keep())).await;
        let readers = [tokio::spawn(read(first)), tokio::spawn(read(flow.reader().unwrap()))];
        settled().await;
        theirs.write_all(sent).await.unwrap();
        let theirs = (!closes).then_some(theirs);
        for reader in readers {
            reader.await.unwrap().broke_off(b"hello", why);
        }
        assert!(flow.reader().is_none(), "it can be joined");
        drop((flow, theirs));
        assert_eq!(place.handed_on().len(), 0);
        place.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_of_what_is_kept_holds_nobody_up() {
    let (place, body) = (Place::new(), noise(2_000 * KIB));
    let (flow, mut slow, theirs) = place.flow(&length(2_000 * KIB), Some(place.keep())).await;
    assert!(frame(&mut slow).is_none());
    let pouring = pour(theirs, body.clone());
    read(flow.reader().unwrap()).await.is(&body);
    assert_eq!((place.handed_on().len(), place.upstream.snapshot().in_flight), (1, 0));
    tokio::time::sleep(100 * SECOND).await;
    read(slow).await.is(&body);
    drop((flow, pouring.await.unwrap()));
    place.is_at_rest();
}

/// A task that has asked last and then has no time for it must not be the only one that is told of more.
#[tokio::test(start_paused = true)]
async fn nobody_depends_on_the_reader_that_asked_last() {
    let (place, body) = (Place::new(), noise(100 * KIB));
    let (flow, mut first, mut theirs) = place.flow(&length(100 * KIB), Some(place.keep())).await;
    let others = [tokio::spawn(read(flow.reader().unwrap())), tokio::spawn(read(flow.reader().unwrap()))];
    settled().await;
    theirs.write_all(&body[..10]).await.unwrap();
    // It asks before the others, takes what there is, asks once more, and is not heard of again.
    assert_eq!(here(&mut first).bytes, body[..10]);
    let pouring = pour(theirs, body[10..].to_vec());
    for other in others {
        other.await.unwrap().is(&body);
    }
    drop((first, flow, pouring));
    place.is_at_rest();
}

/// What comes between a look and the wait for more is not waited for.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_what_has_come_since_it_looked() {
    let place = Place::new();
    let (flow, mut first, mut theirs) = place.flow(&length(9), None).await;
    let mut second = flow.reader().unwrap();
    theirs.write_all(b"hello").await.unwrap();
    assert_eq!(frame(&mut first).unwrap(), "hello");
    let mut cx = Context::from_waker(Waker::noop());
    assert!(second.flow.poll_more(second.number, &mut second.timer, &mut cx).is_ready());
    drop(theirs);
    assert!(matches!(here(&mut first).end, Some(Err(AnswerError::Broken(_)))));
    assert!(first.flow.poll_more(first.number, &mut first.timer, &mut cx).is_ready());
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A reader that comes while another asks, with what has happened to it since.
struct Second {
    reader: Arc<Mutex<Option<Reader>>>,
    woken: Arc<Woken>,
}

impl Second {
    fn comes(flow: &Flow, meanwhile: &Mutex<Option<Meanwhile>>, stirs: bool) -> Self {
        let (reader, woken) = (Arc::<Mutex<_>>::default(), Arc::<Woken>::default());
        let (mut second, waker) = (flow.reader().unwrap(), Waker::from(Arc::clone(&woken)));
        let (out, told) = (Arc::clone(&reader), Arc::clone(&woken));
        *meanwhile.lock() = Some(Box::new(move |cx: &mut Context<'_>| {
            if stirs {
                cx.waker().wake_by_ref();
            }
            assert!(second.poll_frame(&mut Context::from_waker(&waker)).is_pending());
            assert_eq!(told.0.load(SeqCst), 0);
            *out.lock() = Some(second);
        }));
        Self { reader, woken }
    }

    fn woken(&self) -> usize {
        self.woken.0.load(SeqCst)
    }

    fn reader(&self) -> Reader {
        self.reader.lock().take().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn who_comes_while_another_asks_is_told_to_ask_again() {
    let (place, meanwhile) = (Place::new(), Arc::default());
    let (flow, mut first, mut theirs) = place.stirring(&length(9), Arc::clone(&meanwhile)).await;
    let second = Second::comes(&flow, &meanwhile, true);
    assert!(frame(&mut first).is_none());
    assert_eq!(second.woken(), 1);
    theirs.write_all(b"hello").await.unwrap();
    assert_eq!(frame(&mut second.reader()).unwrap(), "hello");
}

#[tokio::test(start_paused = true)]
async fn another_sees_to_the_silence_when_the_one_leaves_that_did() {
    let (place, meanwhile) = (Place::new(), Arc::default());
    let (flow, mut first, _theirs) = place.stirring(&length(9), Arc::clone(&meanwhile)).await;
    let second = Second::comes(&flow, &meanwhile, false);
    assert!(frame(&mut first).is_none());
    assert_eq!(second.woken(), 0);
    drop(first);
    assert_eq!(second.woken(), 1);
    read(second.reader()).await.broke_off(b"", "the upstream fell silent in the middle of its answer");
}

/// What is too large, or for which there is no room, is read through a window; and the same where nothing is kept at all.
#[tokio::test(start_paused = true)]
async fn readers_of_what_is_not_kept_share_a_window() {
    let place = Place::new();
    let total = 4_000 * KIB;
    let body = noise(total);
    let small = |place: &Place| Keep { entry_bytes_max: 1_000 * KIB, ..place.keep() };
    let poor = |place: &Place| Keep { budget: Arc::new(ByteBudget::new(1_000 * KIB)), ..place.keep() };
    // `kept`: how much is kept, and so may be read at any pace, before it turns out to be too much.
    for (head, keep, kept) in [
        (length(total), None, 0),
        (length(total), Some(small(&place)), 0),
        ("Transfer-Encoding: chunked".to_owned(), Some(small(&place)), 1_000 * KIB),
        (length(total), Some(poor(&place)), 1_000 * KIB),
    ] {
        let budget = keep.as_ref().map(|keep| Arc::clone(&keep.budget));
        let (flow, mut slow, theirs) = place.flow(&head, keep).await;
        let sent = if head == length(total) { body.clone() } else { chunked(&body, "") };
        let pouring = pour(theirs, sent);
        let progress = Arc::<AtomicUsize>::default();
        let (mut fast, count) = (flow.reader().unwrap(), Arc::clone(&progress));
        let reading = tokio::spawn(async move {
            let mut read = Read::default();
            std::future::poll_fn(|cx| {
                let poll = read.take(&mut fast, cx);
                count.store(read.bytes.len(), SeqCst);
                poll
            })
            .await;
            read
        });
        let mut last = 0;
        // The slow one comes along each time before it is too late.
        let mut slow_read = Vec::new();
        for _ in 0..3 {
            tokio::time::sleep(LAG_MAX - SECOND).await;
            let at = progress.load(SeqCst) as u64;
            assert!(at > last && at < last.max(kept) + 2 * WINDOW_BYTES, "{at} after {last} of {head}");
            last = at;
            while (slow_read.len() as u64) < at {
                slow_read.extend_from_slice(&frame(&mut slow).unwrap());
            }
            settled().await;
        }
        assert!(flow.reader().is_none(), "who comes now has missed the beginning");
        // Then it does not, and the others go on without it.
        tokio::time::sleep(LAG_MAX + SECOND).await;
        reading.await.unwrap().is(&body);
        let read = here(&mut slow);
        read.broke_off(&[], "its client fell behind others that get the same answer");
        assert!(slow_read == body[..slow_read.len()]);
        drop((slow, flow, pouring.await.unwrap()));
        assert_eq!((place.handed_on().len(), budget.map_or(0, |budget| budget.used())), (0, 0));
        place.is_at_rest();
    }
}

/// It is quick enough each time, and yet it does not set the pace.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_holds_others_up_for_a_bounded_time_in_all() {
    let (place, body) = (Place::new(), noise(8_000 * KIB));
    let (flow, mut slow, theirs) = place.flow(&length(8_000 * KIB), None).await;
    let pouring = pour(theirs, body.clone());
    let clock = place.upstream.clock;
    let began = clock.now();
    let elapsed = || clock.now().since(began);
    let reading = tokio::spawn(read(flow.reader().unwrap()));
    let mut slow_read = Vec::new();
    // A window in less than the time that it has for one.
    while !reading.is_finished() && elapsed() < 10 * LAGS_MAX {
        tokio::time::sleep(LAG_MAX / 2).await;
        let goal = slow_read.len() as u64 + 2 * WINDOW_BYTES;
        while (slow_read.len() as u64) < goal
            && let Some(bytes) = frame(&mut slow)
        {
            slow_read.extend_from_slice(&bytes);
        }
    }
    assert!(elapsed() < LAGS_MAX + 2 * LAG_MAX, "{:?}", elapsed());
    reading.await.unwrap().is(&body);
    assert!(slow_read == body[..slow_read.len()] && slow_read.len() < body.len());
    here(&mut slow).broke_off(&[], "its client fell behind others that get the same answer");
    drop((slow, flow, pouring.await.unwrap()));
    place.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn one_reader_of_what_is_not_kept_takes_its_time() {
    let (place, body) = (Place::new(), noise(1_000 * KIB));
    let (flow, mut reader, theirs) = place.flow(&length(1_000 * KIB), None).await;
    let pouring = pour(theirs, body.clone());
    let mut read = Read::default();
    while read.end.is_none() {
        tokio::time::sleep(100 * SECOND).await;
        let _ = read.take(&mut reader, &mut Context::from_waker(Waker::noop()));
    }
    read.is(&body);
    drop((flow, reader, pouring));
    place.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_that_leaves_lets_the_others_go_on_at_once() {
    let (place, body) = (Place::new(), noise(1_000 * KIB));
    let (flow, slow, theirs) = place.flow(&length(1_000 * KIB), None).await;
    let pouring = pour(theirs, body.clone());
    let reading = tokio::spawn(read(flow.reader().unwrap()));
    settled().await;
    let begun = place.upstream.clock.now();
    drop(slow);
    reading.await.unwrap().is(&body);
    assert!(place.upstream.clock.now().since(begun) < SECOND);
    drop((flow, pouring));
    place.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn a_little_that_is_left_is_read_for_the_store_and_much_is_not() {
    let place = Place::new();
    for (total, read_before, sends_rest, is_stored) in [
        (500 * KIB, 1, true, true),
        (3_000 * KIB, 2_500 * KIB, true, true),
        (3_000 * KIB, 1, true, false),
        // An upstream that never ends is not waited for.
        (500 * KIB, 1, false, false),
    ] {
        let body = noise(total);
        let (flow, mut reader, theirs) = place.flow(&length(total), Some(place.keep())).await;
        let sent = if sends_rest { body.clone() } else { body[..1_000].to_vec() };
        let pouring = pour(theirs, sent);
        let mut at = 0;
        while at < read_before {
            settled().await;
            at += here(&mut reader).bytes.len() as u64;
        }
        drop(reader);
        settled().await;
        if !sends_rest {
            assert_eq!(place.upstream.snapshot().in_flight, 1, "it is waited for a while");
            tokio::time::sleep(FINISH_TIME_MAX).await;
            settled().await;
        }
        let mut theirs = pouring.await.unwrap();
        assert_eq!(place.handed_on().len(), usize::from(is_stored), "{total} {read_before}");
        assert_eq!(flow.reader().is_some(), is_stored);
        if let Some(stored) = place.whole.lock().pop() {
            assert!(stored == body);
        } else {
            // What was sent as request, and then the end.
            theirs.read_to_end(&mut Vec::new()).await.unwrap();
        }
        drop(flow);
        place.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_wants_ends_with_its_last_reader() {
    let place = Place::new();
    let unknown = "Transfer-Encoding: chunked".to_owned();
    for (head, keep) in [(length(1_000), None), (unknown, Some(place.keep()))] {
        let (flow, reader, _theirs) = place.flow(&head, keep).await;
        let other = flow.reader().unwrap();
        drop(reader);
        assert_eq!(place.upstream.snapshot().in_flight, 1);
        drop(other);
        assert!(flow.reader().is_none());
        place.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn who_comes_while_the_rest_is_read_for_the_store_gets_all_of_it() {
    let (place, body) = (Place::new(), noise(200 * KIB));
    let (flow, mut reader, mut theirs) = place.flow(&length(200 * KIB), Some(place.keep())).await;
    theirs.write_all(&body[..5_000]).await.unwrap();
    assert_eq!(here(&mut reader).bytes.len(), 5_000);
    drop(reader);
    settled().await;
    let late = tokio::spawn(read(flow.reader().unwrap()));
    // Longer than it would be waited for if nobody had come.
    tokio::time::sleep(FINISH_TIME_MAX + SECOND).await;
    let pouring = pour(theirs, body[5_000..].to_vec());
    late.await.unwrap().is(&body);
    assert_eq!(place.handed_on(), [body]);
    drop((flow, pouring));
    place.is_at_rest();
}

/// A disk that takes so many bytes at once, and then none until it is told to.
struct Disk {
    room: Arc<AtomicUsize>,
    written: Vec<u8>,
    finished: Arc<Mutex<Option<Vec<u8>>>>,
}

impl Spill for Disk {
    fn write(&mut self, piece: &Bytes) -> bool {
        let has_room = self.room.fetch_update(SeqCst, SeqCst, |room| room.checked_sub(piece.len())).is_ok();
        if has_room {
            self.written.extend_from_slice(piece);
        }
        has_room
    }

    fn finish(self: Box<Self>) {
        *self.finished.lock() = Some(self.written);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_for_memory_is_written_on_while_it_comes() {
    let place = Place::new();
    let total = 5_000 * KIB;
    let body = noise(total);
    let (all, some) = (total as usize, 3_000 * 1024);
    let unknown = || "Transfer-Encoding: chunked".to_owned();
    for (head, entry_bytes_max, room, is_stored) in [
        (length(total), 8 << 20, all, true),
        (unknown(), 8 << 20, all, true),
        // A disk that is too slow, or full, and one that must not have it.
        (length(total), 8 << 20, some, false),
        (unknown(), 8 << 20, 0, false),
        (length(total), 4 << 20, all, false),
        (unknown(), 4 << 20, all, false),
    ] {
        let (room, finished) = (Arc::new(AtomicUsize::new(room)), Arc::default());
        let disk = Disk { room, written: Vec::new(), finished: Arc::clone(&finished) };
        let spill: Option<Box<dyn Spill>> = Some(Box::new(disk));
        let keep = Keep { entry_bytes_max, memory_bytes_max: 1_000 * KIB, spill, ..place.keep() };
        let (flow, reader, theirs) = place.flow(&head, Some(keep)).await;
        let sent = if head == length(total) { body.clone() } else { chunked(&body, "") };
        let pouring = pour(theirs, sent);
        let other = tokio::spawn(read(flow.reader().unwrap()));
        read(reader).await.is(&body);
        other.await.unwrap().is(&body);
        let finished = finished.lock().take();
        assert_eq!(finished.is_some(), is_stored, "{head} {entry_bytes_max}");
        assert!(finished.is_none_or(|written| written == body));
        assert!(flow.reader().is_none());
        drop((flow, pouring.await.unwrap()));
        assert_eq!(place.handed_on().len(), 0);
        place.is_at_rest();
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_late_for_a_while_gets_all_of_it_in_order() {
    let (place, body) = (Place::new(), noise(3_000 * KIB));
    let (room, finished) = (Arc::new(AtomicUsize::new(0)), Arc::default());
    let disk = Disk { room: Arc::clone(&room), written: Vec::new(), finished: Arc::clone(&finished) };
    let keep = Keep { memory_bytes_max: 1_000 * KIB, spill: Some(Box::new(disk)), ..place.keep() };
    let (flow, mut reader, mut theirs) = place.flow(&length(3_000 * KIB), Some(keep)).await;
    for (number, part) in body.chunks(50 * 1024).enumerate() {
        theirs.write_all(part).await.unwrap();
        assert!(here(&mut reader).bytes == part);
        if number % 10 == 9 {
            room.store(600 * 1024, SeqCst);
        }
    }
    drop((reader, flow));
    assert!(finished.lock().take().expect("it has been finished") == body);
    place.is_at_rest();
}

#[tokio::test(start_paused = true)]
async fn each_client_is_told_of_what_it_got() {
    let (place, body) = (Place::new(), noise(10 * KIB));
    let client = |reader| {
        let (story, method, uri) = (Story::new(place.upstream.clock.now()), Method::GET, Uri::from_static("/"));
        AnswerBody::Sharing(Box::new(Sharing::new(reader, Told { client: ClientId(1), story, method, uri })))
    };
    let (flow, reader, mut theirs) = place.flow(&length(10 * KIB), Some(place.keep())).await;
    let (mut stays, mut leaves) = (client(reader), client(flow.reader().unwrap()));
    theirs.write_all(&body[..4_000]).await.unwrap();
    let next = async |body: &mut AnswerBody| {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await;
        frame.map(|frame| frame.map(|frame| frame.into_data().unwrap().len()).map_err(|error| error.to_string()))
    };
    assert_eq!((next(&mut stays).await, next(&mut leaves).await), (Some(Ok(4_000)), Some(Ok(4_000))));
    assert_eq!(format!("{stays:?}"), "Sharing(4000 bytes passed on)");
    drop(leaves);
    theirs.write_all(&body[4_000..]).await.unwrap();
    assert_eq!((stays.size_hint().exact(), next(&mut stays).await), (Some(6_240), Some(Ok(6_240))));
    let mut late = client(flow.reader().unwrap());
    assert_eq!((stays.is_end_stream(), late.is_end_stream()), (true, false));
    assert_eq!((next(&mut late).await, next(&mut late).await), (Some(Ok(10_240)), None));
    drop((stays, late));
    assert_eq!(std::mem::take(&mut *place.ends.0.lock()), [(4_000, false), (10_240, true), (10_240, true)]);

    let (flow, reader, theirs) = place.flow(&length(10), Some(place.keep())).await;
    let mut clients = [client(reader), client(flow.reader().unwrap())];
    drop(theirs);
    for client in &mut clients {
        // What it was sent before must have left when its server hears of this.
        let first = Pin::new(&mut *client).poll_frame(&mut Context::from_waker(Waker::noop()));
        assert!(first.is_pending());
        assert_eq!(next(client).await, Some(Err("the upstream broke off its answer".to_owned())));
    }
    drop(clients);
    assert_eq!(*place.ends.0.lock(), [(0, false), (0, false)]);
}

/// The whole way of equal misses: one answer, all get it, also when the client leaves that asked for it.
#[tokio::test(start_paused = true)]
async fn followers_get_on_board_whatever_becomes_of_their_leader() {
    let (place, body) = (Place::new(), noise(3_000 * KIB));
    let flights = Arc::new(Flights::<&str, Reader>::new(place.upstream.clock));
    let headers = http::HeaderMap::new();
    let asked = cache::Asked {
        method: &Method::GET,
        target: "/",
        host: b"sopan",
        headers: &headers,
        marks: cache::Marks::default(),
        owner: None,
        has_body: false,
        directives: cache::directives::RequestDirectives::default(),
        rule: None,
    };
    let forward = cache::status::Forward::UriMiss;
    let sent = cache::Send { forward, ask: None, fallback: None, is_sharable: true, may_store: true };
    let join = || flights.join("/", &asked, None, &sent);
    let Joined::Lead(leader) = join() else { panic!("it does not lead") };
    let follow = || {
        let Joined::Follow(follower) = join() else { panic!("it does not follow") };
        tokio::spawn(async move {
            let Led::Shared(reader) = follower.wait(None).await else { panic!("it has no seat") };
            read(reader).await
        })
    };
    let mut reads: Vec<_> = (0..500).map(|_| follow()).collect();
    settled().await;

    let (landing, whole) = (leader.landing(), Arc::clone(&place.whole));
    let done: Done = Box::new(move |body| {
        whole.lock().extend(if let Whole::Memory(bytes) = body { Some(bytes) } else { None });
        drop(landing);
    });
    let (flow, own, mut theirs) = place.flow(&length(3_000 * KIB), Some(Keep { done, ..place.keep() })).await;
    leader.shared(move || flow.reader());
    drop(own);
    theirs.write_all(&body[..1_000]).await.unwrap();
    settled().await;
    reads.push(follow());
    let pouring = pour(theirs, body[1_000..].to_vec());
    for read in reads {
        read.await.unwrap().is(&body);
    }
    assert_eq!((place.handed_on(), flights.count()), (vec![Bytes::from(body)], 0));
    drop(pouring);
    place.is_at_rest();
}

/// Each thread has a runtime of its own, as workers do; one that misses a wake-up would wait for ever.
#[test]
fn readers_on_several_threads_miss_nothing() {
    const THREADS: usize = 4;
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let upstream = runtime();
    let place = upstream.block_on(async { Place::new() });
    for round in 0..150 {
        let body = noise(1 + round * 977);
        let keep = (round % 3 > 0).then(|| place.keep());
        let (flow, first, mut theirs) = upstream.block_on(place.flow(&length(body.len() as u64), keep));
        let mut readers = vec![first];
        readers.extend((1..THREADS).map(|_| flow.reader().unwrap()));
        std::thread::scope(|threads| {
            for reader in readers {
                let (runtime, body) = (runtime(), &body);
                threads.spawn(move || {
                    let reading = async { tokio::time::timeout(60 * SECOND, read(reader)).await };
                    runtime.block_on(reading).expect("it waits for what has come").is(body);
                });
            }
            upstream.block_on(async {
                for piece in body.chunks(1 + body.len() / 50) {
                    theirs.write_all(piece).await.unwrap();
                    tokio::task::yield_now().await;
                }
            });
        });
        assert_eq!(place.whole.lock().drain(..).count(), usize::from(round % 3 > 0));
    }
    place.is_at_rest();
}

/// Readers come, go and dawdle at random, upstreams end well or not: everybody gets the beginning of the body, all who stay
/// hear how it ended, and nothing is held afterwards.
#[tokio::test(start_paused = true)]
async fn after_a_storm_nothing_is_left() {
    let place = Place::new();
    for seed in 0..80 {
        let mut rng = StdRng::seed_from_u64(seed);
        let total = rng.random_range(0..2_000 * KIB);
        let (body, is_told) = (noise(total), rng.random_bool(0.5));
        let head = if is_told { length(total) } else { "Transfer-Encoding: chunked".to_owned() };
        let finished = Arc::<Mutex<Option<Vec<u8>>>>::default();
        let room = Arc::new(AtomicUsize::new(rng.random_range(0..3_000_000)));
        let disk = Disk { room, written: Vec::new(), finished: Arc::clone(&finished) };
        let mut keep = place.keep();
        keep.memory_bytes_max = rng.random_range(1..2_000 * KIB);
        keep.entry_bytes_max = rng.random_range(1..4_000 * KIB);
        keep.spill = rng.random_bool(0.5).then(|| Box::new(disk) as _);
        let (flow, first, theirs) = place.flow(&head, rng.random_bool(0.9).then_some(keep)).await;
        let mut sent = if is_told { body.clone() } else { chunked(&body, "") };
        let breaks = rng.random_bool(0.2) && total > 0;
        if breaks {
            sent.truncate(rng.random_range(0..sent.len()));
        }
        let pouring = tokio::spawn(async move { drop(pour(theirs, sent).await) });
        let client = |mut reader: Reader, seed| async move {
            let mut rng = StdRng::seed_from_u64(seed);
            let (patience, pause) = (rng.random_range(0..200), rng.random_range(0..300));
            let mut read = Read::default();
            for _ in 0..patience {
                let next = std::future::poll_fn(|cx| reader.poll_frame(cx)).await;
                match next {
                    None => read.end = Some(Ok(())),
                    Some(Err(error)) => read.end = Some(Err(error)),
                    Some(Ok(frame)) => {
                        read.bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
                        if rng.random_bool(0.2) {
                            tokio::time::sleep(Duration::from_millis(pause)).await;
                        }
                        continue;
                    }
                }
                break;
            }
            read
        };
        let mut clients = vec![tokio::spawn(client(first, seed))];
        for number in 1..rng.random_range(1..12) {
            tokio::time::sleep(Duration::from_millis(rng.random_range(0..100))).await;
            clients.extend(flow.reader().map(|reader| tokio::spawn(client(reader, seed * 100 + number))));
            if clients.len() > 1 && rng.random_bool(0.2) {
                clients.swap_remove(rng.random_range(0..clients.len())).abort();
            }
        }
        drop(flow);
        for reading in clients {
            let read = reading.await.unwrap();
            assert!(body.starts_with(&read.bytes), "seed {seed}");
            match read.end {
                Some(Ok(())) => assert!(read.bytes.len() == body.len() && !breaks, "seed {seed}"),
                Some(Err(AnswerError::Behind)) | None => {}
                Some(Err(error)) => assert!(breaks, "seed {seed}: {error}"),
            }
        }
        pouring.await.unwrap();
        tokio::time::sleep(FINISH_TIME_MAX + SECOND).await;
        let stored = place.whole.lock().pop().map(|bytes| bytes.to_vec()).or_else(|| finished.lock().take());
        assert!(stored.is_none_or(|stored| stored == body && !breaks), "seed {seed}");
        place.is_at_rest();
    }
}
