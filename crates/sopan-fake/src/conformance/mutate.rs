//! Bad messages made out of good ones: what nobody thinks of, many thousands of it, and the same from every seed.
//!
//! A message of a small collection, some of which are bad to begin with, is changed in one to three places: a byte
//! flipped, deleted or put in, a line doubled, moved or dropped, another field put in, a chunk's size tampered with, the
//! rest cut off. Nobody knows here what is right for the outcome; that is up to whoever sends it.

use crate::dice::Dice;

/// A changed message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// The message.
    pub bytes: Vec<u8>,
    /// What was done to it, in words: `put NUL into a field line, dropped a line`.
    pub how: String,
}

/// What requests are made of; each asks for the end of its connection, so that it can be told when all is over. `{host}`
/// is the proxy.
const REQUESTS: [&str; 14] = [
    "GET /m HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n",
    "GET /m/a%2Fb;c?d=e&f HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\nX-A: 1, 2\r\nx-a: 3\r\nConnection: close\r\n\r\n",
    "GET http://{host}/m HTTP/1.1\r\nHost: {host}\r\nCookie: a=b; c=d\r\nConnection: close\r\n\r\n",
    "DELETE /m/7 HTTP/1.0\r\nHost: {host}\r\nUser-Agent: test\r\n\r\n",
    "POST /m HTTP/1.1\r\nHost: {host}\r\nContent-Type: text/plain\r\nContent-Length: 9\r\nConnection: close\r\n\r\nsome body",
    "PUT /m HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n4\r\nsome\r\n5;a=b\r\n body\r\n0\r\n\r\n",
    "PATCH /m HTTP/1.1\r\nHost: {host}\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n\
        0\r\nX-Sum: 45\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: {host}\r\nMax-Forwards: 3\r\nConnection: close\r\n\r\n",
    "GET /m/1 HTTP/1.1\r\nHost: {host}\r\n\r\nGET /m/2 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n",
    "POST /m HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\n\r\nbodyGET /m/2 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n",
    "POST /m HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n",
    "GET /m HTTP/1.1\r\nHost: {host}\r\nX-A: 1\r\n folded\r\nConnection: close\r\n\r\n",
    "POST /m HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello!",
    "GET /m HTTP/1.1\r\nHost : {host}\r\nConnection: close\r\n\r\n",
];

/// What answers are made of.
const ANSWERS: [&str; 11] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Type: text/plain\r\n\r\nsome body",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n5;a=b\r\n body\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\nA\r\n0123456789\r\n0\r\nX-Sum: 45\r\n\r\n",
    "HTTP/1.1 204 No Content\r\nETag: \"a\"\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 9\r\n\r\n",
    "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\nno",
    "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nto the end",
    "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
];

/// What is put in, and what it is called.
const SPECIAL: [(&[u8], &str); 14] = [
    (b"\r\n", "a line end"),
    (b"\r", "CR"),
    (b"\n", "LF"),
    (b"\0", "NUL"),
    (b" ", "a space"),
    (b"\t", "a tab"),
    (b":", "a colon"),
    (b",", "a comma"),
    (b"\x0b", "a vertical tab"),
    (b"\x7f", "DEL"),
    (b"\xe9", "a byte above 0x7F"),
    (b"0", "a zero"),
    (b"\r\n ", "a fold"),
    (b"\r\n\r\n", "an end of a head"),
];

/// Lines that are put in.
const LINES: [&str; 12] = [
    "Content-Length: 5",
    "Content-Length: 0",
    "Content-Length: +4",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding : chunked",
    "Content_Length: 4",
    "Host: other.example",
    "Connection: content-length, host",
    "Upgrade: websocket",
    "X-Long: 0123456789012345678901234567890123456789012345678901234567890123456789",
    "HTTP/1.1 200 OK",
];

/// What a chunk's size becomes.
const SIZES: [&str; 10] =
    ["0", "00", "+4", "-1", "0x4", "4 ", "ffffffffffffffff", "10000000000000000", "", "4;a=\"\r\n\""];

/// Changed requests for a proxy at `host`, without end.
pub fn requests(seed: u64, host: &str) -> impl Iterator<Item = Mutant> {
    mutants(seed, REQUESTS.iter().map(|text| text.replace("{host}", host).into_bytes()).collect())
}

/// Changed answers, without end.
pub fn answers(seed: u64) -> impl Iterator<Item = Mutant> {
    mutants(seed, ANSWERS.iter().map(|text| text.as_bytes().to_vec()).collect())
}

fn mutants(seed: u64, good: Vec<Vec<u8>>) -> impl Iterator<Item = Mutant> {
    let mut dice = Dice::new(seed);
    std::iter::from_fn(move || {
        let mut bytes = good[index(&mut dice, good.len())].clone();
        // One change alone is what a reader gets wrong most often, so it is the most frequent.
        let changes = 1 + dice.below(2) * dice.below(3);
        let how: Vec<_> = (0..changes).map(|_| change(&mut bytes, &mut dice)).collect();
        Some(Mutant { bytes, how: how.join(", ") })
    })
}

/// Changes one place, and says what was done where.
fn change(bytes: &mut Vec<u8>, dice: &mut Dice) -> String {
    let at = index(dice, bytes.len() + 1);
    let place = place(bytes, at);
    match dice.below(13) {
        0 | 1 if at < bytes.len() => {
            bytes[at] ^= 1 << dice.below(8);
            format!("flipped a bit of {place}")
        }
        2 | 3 if at < bytes.len() => {
            bytes.remove(at);
            format!("deleted a byte of {place}")
        }
        4 if at < bytes.len() => {
            let (piece, name) = SPECIAL[index(dice, SPECIAL.len())];
            bytes.splice(at..=at, piece.iter().copied());
            format!("replaced a byte of {place} by {name}")
        }
        5 => {
            bytes.truncate(at);
            format!("cut off in {place}")
        }
        6 => change_lines(bytes, dice, "doubled a line", |lines, a, _| lines.insert(a, lines[a].clone())),
        7 => change_lines(bytes, dice, "exchanged two lines", |lines, a, b| lines.swap(a, b)),
        8 => change_lines(bytes, dice, "dropped a line", |lines, a, _| drop(lines.remove(a))),
        9 => {
            let line = LINES[index(dice, LINES.len())];
            let how = format!("put in the line \"{line}\"");
            change_lines(bytes, dice, &how, |lines, a, _| lines.insert(a + 1, line.as_bytes().to_vec()))
        }
        10 => {
            let size = SIZES[index(dice, SIZES.len())];
            let is_size = |line: &Vec<u8>| !line.is_empty() && line.len() < 6 && line[0].is_ascii_hexdigit();
            let how = format!("made \"{}\" of a chunk's size", size.escape_default());
            change_lines(bytes, dice, &how, |lines, a, _| {
                let found = lines.iter().skip(a).position(is_size).map(|found| found + a);
                let first = lines.iter().position(is_size);
                if let Some(found) = found.or(first) {
                    lines[found] = size.as_bytes().to_vec();
                }
            })
        }
        _ => {
            let (piece, name) = SPECIAL[index(dice, SPECIAL.len())];
            bytes.splice(at..at, piece.iter().copied());
            format!("put {name} into {place}")
        }
    }
}

/// Takes the lines apart, changes them at two places that chance chooses, and joins them again.
fn change_lines(
    bytes: &mut Vec<u8>,
    dice: &mut Dice,
    how: &str,
    change: impl FnOnce(&mut Vec<Vec<u8>>, usize, usize),
) -> String {
    let text = std::mem::take(bytes);
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut rest = &text[..];
    while let Some(end) = super::reply::find(rest, b"\r\n") {
        lines.push(rest[..end].to_vec());
        rest = &rest[end + 2..];
    }
    lines.push(rest.to_vec());
    let (a, b) = (index(dice, lines.len()), index(dice, lines.len()));
    change(&mut lines, a, b);
    *bytes = lines.join(&b"\r\n"[..]);
    how.to_owned()
}

/// In which part of a message an index lies.
fn place(bytes: &[u8], at: usize) -> &'static str {
    let head = super::reply::find(bytes, b"\r\n\r\n").map_or(bytes.len(), |end| end + 4);
    let first = super::reply::find(bytes, b"\r\n").map_or(bytes.len(), |end| end + 2);
    match at {
        _ if at < first => "the first line",
        _ if at < head => "a field line",
        _ => "the body",
    }
}

/// An index below `len`, or 0 where there is none.
fn index(dice: &mut Dice, len: usize) -> usize {
    dice.below(len as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_messages_again_and_another_gives_others() {
        let first = |seed| requests(seed, "a:1").take(200).collect::<Vec<_>>();
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }

    #[test]
    fn messages_differ_and_stay_small() {
        for mutants in [requests(3, "127.0.0.1:8000").take(3000).collect::<Vec<_>>(), answers(3).take(3000).collect()] {
            let different: BTreeSet<_> = mutants.iter().map(|mutant| &mutant.bytes).collect();
            assert!(different.len() > 2000, "{}", different.len());
            assert!(mutants.iter().all(|mutant| mutant.bytes.len() <= 2048 && !mutant.how.is_empty()));
        }
    }
}
