//! Which of a name's addresses takes a connection first?
//!
//! Happy Eyeballs (RFC 8305) in its simple form: the families take turns, beginning with the one that the system
//! prefers; while nobody has answered, the next address is tried beside those before it, at once where one fails. The
//! first success wins and the others are dropped. So an address that swallows everything costs a quarter of a second,
//! not the whole `connect_timeout`, which the caller keeps to. What connecting is, the caller says too.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::timeout;

/// How long an address has before the next is tried beside it: what RFC 8305 §8 recommends.
const HEAD_START: Duration = Duration::from_millis(250);
/// The most addresses that are tried. Each may hold a socket, and `connect_timeout` is over sooner.
const ADDRESSES_MAX: usize = 32;

/// The first connection that comes about, or else the last error; `none` where there is no address.
pub(super) async fn race<T, F>(
    addresses: impl IntoIterator<Item = SocketAddr>,
    none: io::Error,
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    let mut waiting = in_turn(addresses).into_iter();
    let (mut running, mut error) = (Vec::new(), none);
    loop {
        running.extend(waiting.next().map(|address| Box::pin(connect(address))));
        if running.is_empty() {
            return Err(error);
        }
        let ended = first_to_end(&mut running);
        let result = if waiting.len() == 0 { Ok(ended.await) } else { timeout(HEAD_START, ended).await };
        match result {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(failed)) => error = failed,
            Err(_) => {}
        }
    }
}

/// One address of each family after the other, each family in its own order.
fn in_turn(addresses: impl IntoIterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut addresses = addresses.into_iter().take(ADDRESSES_MAX).peekable();
    let begins_with_v6 = addresses.peek().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addresses.partition(|address| address.is_ipv6() == begins_with_v6);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut all = Vec::with_capacity(first.len() + second.len());
    while first.len() + second.len() > 0 {
        all.extend(first.next());
        all.extend(second.next());
    }
    all
}

/// What becomes of the first that ends, which is taken out.
async fn first_to_end<F: Future>(running: &mut Vec<Pin<Box<F>>>) -> F::Output {
    poll_fn(|cx| {
        for at in 0..running.len() {
            if let Poll::Ready(output) = running[at].as_mut().poll(cx) {
                drop(running.remove(at));
                return Poll::Ready(output);
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tokio::time::{Instant, sleep};

    use super::*;

    /// What becomes of connecting to an address, after so many milliseconds.
    #[derive(Clone, Copy)]
    enum Fate {
        Connects(u64),
        Fails(u64),
        /// Nobody answers.
        Hangs,
    }
    use Fate::{Connects, Fails, Hangs};

    fn none() -> io::Error {
        io::ErrorKind::NotFound.into()
    }

    /// Races addresses with these fates, told apart by their ports; answers which won or the error, after how many
    /// milliseconds, and how many had been begun.
    #[allow(clippy::disallowed_methods, reason = "the paused clock of the test")]
    async fn run(fates: &[Fate]) -> (Result<u16, io::ErrorKind>, u128, usize) {
        let begun_at = Instant::now();
        let begun = Mutex::new(0);
        let addresses = (0..fates.len()).map(|port| SocketAddr::from(([127, 0, 0, 1], port as u16)));
        let result = race(addresses, none(), |address| {
            *begun.lock() += 1;
            let fate = fates[usize::from(address.port())];
            async move {
                match fate {
                    Connects(millis) => sleep(Duration::from_millis(millis)).await,
                    Fails(millis) => {
                        sleep(Duration::from_millis(millis)).await;
                        return Err(io::ErrorKind::ConnectionRefused.into());
                    }
                    Hangs => std::future::pending().await,
                }
                Ok(address.port())
            }
        });
        let result = result.await.map_err(|error| error.kind());
        (result, begun_at.elapsed().as_millis(), begun.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_that_answers_wins() {
        let refused = Err(io::ErrorKind::ConnectionRefused);
        for (fates, expected) in [
            (&[][..], (Err(io::ErrorKind::NotFound), 0, 0)),
            (&[Connects(10), Connects(1)], (Ok(0), 10, 1)),
            // A head start of 250 ms, and no more.
            (&[Hangs, Connects(10)], (Ok(1), 260, 2)),
            (&[Hangs, Hangs, Connects(10), Connects(10)], (Ok(2), 510, 3)),
            (&[Connects(300), Connects(10)], (Ok(1), 260, 2)),
            (&[Connects(300), Connects(100)], (Ok(0), 300, 2)),
            // A failure lets the next begin at once.
            (&[Fails(10), Connects(10)], (Ok(1), 20, 2)),
            (&[Fails(10), Fails(10), Fails(20)], (refused, 40, 3)),
            (&[Connects(400), Fails(10), Hangs, Hangs], (Ok(0), 400, 3)),
            (&[Fails(900), Fails(10)], (refused, 900, 2)),
        ] {
            assert_eq!(run(fates).await, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_lose_are_dropped() {
        let running = Arc::new(());
        let addresses = [SocketAddr::from(([127, 0, 0, 1], 0)), SocketAddr::from(([127, 0, 0, 1], 1))];
        race(addresses, none(), |address| {
            let running = Arc::clone(&running);
            async move {
                if address.port() == 0 {
                    std::future::pending::<()>().await;
                }
                drop(running);
                Ok(())
            }
        })
        .await
        .unwrap();
        assert_eq!(Arc::strong_count(&running), 1);
    }

    #[test]
    fn families_take_turns() {
        for (addresses, expected) in [
            (&["[::1]:1", "[::1]:2", "[::1]:3", "1.1.1.1:4"][..], &[1, 4, 2, 3][..]),
            (&["1.1.1.1:1", "1.1.1.1:2", "[::1]:3", "[::1]:4"], &[1, 3, 2, 4]),
            (&["1.1.1.1:1", "1.1.1.1:2"], &[1, 2]),
        ] {
            let ports: Vec<_> =
                in_turn(addresses.iter().map(|a| a.parse().unwrap())).iter().map(|a| a.port()).collect();
            assert_eq!(ports, expected);
        }
    }
}
