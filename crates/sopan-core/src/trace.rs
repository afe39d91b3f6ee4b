//! Which trace does a request belong to, and what is the next one told of it?
//!
//! By W3C Trace Context: `traceparent` names the trace, the span that asked, and whether somebody records it. What cannot be
//! read begins a new trace ([`begin`]); in one that is recorded the upstream is told of a span of ours in its place
//! ([`Trace::told`]). How a recorded trace is drawn and where it is sent is for others.

use std::fmt;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

/// `traceparent`
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// `tracestate`: what those before have to say to those of their kind behind, passed on as it is.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// A trace, by its number; never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(u128);

/// A span of it; never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(u64);

/// What one who asks says of the trace that it is in: the value of a `traceparent`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The trace.
    pub trace: TraceId,
    /// The span that asks.
    pub span: SpanId,
    /// [`SAMPLED`] and [`RANDOM`]; no other means anything yet.
    pub flags: u8,
}

/// Somebody before records the trace.
pub const SAMPLED: u8 = 1;
/// At least the right half of the trace's number was rolled (Trace Context, level 2).
pub const RANDOM: u8 = 2;

/// The length of the only version there is, and of the beginning of all that will be.
const LENGTH: usize = 55;

impl Context {
    /// Reads a value; none where the rules have it ignored (Trace Context §2.2.2, §4.3).
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (known, rest) = value.split_at_checked(LENGTH)?;
        let [version, trace, span, flags] = parts(known)?;
        let version = hex(version)?;
        // What a later version adds stands behind another dash. 255 is none.
        let is_whole = if version == 0 { rest.is_empty() } else { rest.is_empty() || rest[0] == b'-' };
        if version == 0xff || !is_whole {
            return None;
        }
        let flags = hex(flags)? as u8 & (SAMPLED | RANDOM);
        Some(Self { trace: TraceId::new(hex(trace)?)?, span: SpanId::new(hex(span)? as u64)?, flags })
    }

    /// The one that these fields say; none where there is none, or not just one.
    pub fn of(fields: &HeaderMap) -> Option<Self> {
        let mut lines = fields.get_all(TRACEPARENT).iter();
        let line = lines.next().filter(|_| lines.next().is_none())?;
        Self::parse(line.as_bytes())
    }

    /// Whether somebody records the trace.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// As a field has it.
    pub fn value(self) -> HeaderValue {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write_hex(&mut text[3..35], self.trace.0);
        write_hex(&mut text[36..52], self.span.0.into());
        write_hex(&mut text[53..55], self.flags.into());
        HeaderValue::from_bytes(&text).expect("digits and dashes make a value")
    }
}

/// What stands between the dashes.
fn parts(known: &[u8]) -> Option<[&[u8]; 4]> {
    let is_dashed = [2, 35, 52].into_iter().all(|at| known[at] == b'-');
    is_dashed.then(|| [&known[..2], &known[3..35], &known[36..52], &known[53..]])
}

/// Small letters only (§2.2.2).
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number: u128, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

fn write_hex(place: &mut [u8], mut number: u128) {
    for digit in place.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
}

impl TraceId {
    /// Zero is none.
    pub fn new(number: u128) -> Option<Self> {
        (number != 0).then_some(Self(number))
    }

    /// As it goes over a wire.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl SpanId {
    /// Zero is none.
    pub fn new(number: u64) -> Option<Self> {
        (number != 0).then_some(Self(number))
    }

    /// One of those within it, by its number there. Whoever knows this one can say what it is, so that nothing need be
    /// kept of each.
    pub fn within(self, number: u64) -> Self {
        // The finisher of splitmix64: different numbers become different spans, but for the one that becomes zero.
        let mut mixed = self.0.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        Self(mixed.max(1))
    }

    /// As it goes over a wire.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

/// How many of the traces that begin here are recorded. One that somebody before records is in any case, and one that
/// nobody before records is not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// Those are recorded whose number is as large as this in its last 56 bits, which is how others decide it too
    /// (OpenTelemetry, `TraceState: probability sampling`).
    from: u64,
}

const RANDOM_BITS: u64 = (1 << 56) - 1;

impl Sampler {
    /// Of all traces this share, from 0 to 1.
    pub fn new(share: f64) -> Option<Self> {
        let is_share = (0.0..=1.0).contains(&share);
        is_share.then_some(Self { from: ((1.0 - share) * (RANDOM_BITS + 1) as f64) as u64 })
    }

    fn takes(self, trace: TraceId) -> bool {
        trace.0 as u64 & RANDOM_BITS >= self.from
    }
}

/// What an exchange is in its trace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    /// The trace.
    pub id: TraceId,
    /// Who asked, if it said so.
    pub parent: Option<SpanId>,
    /// The exchange.
    pub span: SpanId,
    /// As they came.
    pub flags: u8,
}

/// What follows from what a request says of its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// The exchange is recorded.
    Recorded(Trace),
    /// It is not, and what it says is passed on as it is.
    PassedOn,
    /// It is not, and the upstream is told so, since what it says of itself is nothing, or nothing that can be read.
    Told(Context),
}

/// Takes a request up into its trace, or begins one. `number` must be rolled anew for each.
pub fn begin(fields: &HeaderMap, sampler: Sampler, number: u128) -> Begun {
    // Both halves, so that the span says nothing of a trace's number.
    let span = SpanId((number as u64 ^ (number >> 64) as u64).max(1)).within(0);
    match Context::of(fields) {
        Some(came) if came.is_sampled() => {
            Begun::Recorded(Trace { id: came.trace, parent: Some(came.span), span, flags: came.flags })
        }
        Some(_) => Begun::PassedOn,
        None => {
            let id = TraceId(number.max(1));
            match sampler.takes(id) {
                true => Begun::Recorded(Trace { id, parent: None, span, flags: SAMPLED | RANDOM }),
                false => Begun::Told(Context { trace: id, span, flags: RANDOM }),
            }
        }
    }
}

impl Trace {
    /// The span of an attempt, counted from 1.
    pub fn attempt(self, attempt: u32) -> SpanId {
        self.span.within(attempt.into())
    }

    /// The span of anything else within the exchange, counted from 0.
    pub fn other(self, number: u32) -> SpanId {
        self.span.within(1 << 32 | u64::from(number))
    }

    /// What the upstream is told with an attempt.
    pub fn told(self, attempt: u32) -> Context {
        Context { trace: self.id, span: self.attempt(attempt), flags: self.flags }
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:?}-{:?}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in {:?} of {:?}", self.span, self.parent, self.id)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_is_read_by_the_rules() {
        for (value, flags) in [
            (GOOD, Some(1)),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", Some(0)),
            // Flags that mean nothing are not passed on.
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff", Some(3)),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-08", Some(0)),
            // A later version is read as far as it is known.
            ("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Some(1)),
            ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-is-to-come", Some(1)),
            ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-", Some(1)),
            ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01what", None),
            ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
            // Too long and too short.
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-", None),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", None),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0", None),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", None),
            ("00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01", None),
            ("0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
            ("", None),
            // Nothing that is nobody.
            ("00-00000000000000000000000000000000-b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", None),
            // Other letters and other dashes.
            ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c80319c-B7AD6B7169203331-01", None),
            ("0.-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c80319.-b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-.1", None),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-A1", None),
            ("00 0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 01", None),
            (" 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
        ] {
            let read = Context::parse(value.as_bytes());
            assert_eq!(read.map(|context| context.flags), flags, "{value}");
            let expected = read.map(|_| "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331".to_owned());
            assert_eq!(read.map(|context| format!("{:?} {:?}", context.trace, context.span)), expected, "{value}");
        }
    }

    fn fields(values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (TRACEPARENT, value.parse().unwrap())).collect()
    }

    #[test]
    fn what_somebody_records_goes_on_and_what_nobody_does_is_left_alone() {
        let (none, all) = (Sampler::new(0.0).unwrap(), Sampler::new(1.0).unwrap());
        let off = GOOD.replace("-01", "-00");
        for sampler in [none, all] {
            let Begun::Recorded(trace) = begin(&fields(&[GOOD]), sampler, 7) else { panic!("not recorded") };
            let Trace { id, parent, span, flags } = trace;
            assert_eq!((id, parent, flags), {
                let came = Context::parse(GOOD.as_bytes()).unwrap();
                (came.trace, Some(came.span), SAMPLED)
            });
            let told = trace.told(2);
            assert_eq!((told.trace, told.span, told.flags), (id, trace.attempt(2), SAMPLED));
            let spans = [span, trace.attempt(1), trace.attempt(2), trace.other(0), trace.other(1)];
            assert_eq!(spans.into_iter().chain(parent).collect::<HashSet<_>>().len(), 6);
            assert_eq!(begin(&fields(&[&off]), sampler, 7), Begun::PassedOn);
        }
    }

    #[test]
    fn what_cannot_be_read_begins_a_new_trace() {
        let broken = GOOD.replace("00-", "ff-");
        for came in [&[] as &[&str], &[&broken], &[GOOD, GOOD]] {
            let number = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;
            let Begun::Recorded(trace) = begin(&fields(came), Sampler::new(1.0).unwrap(), number) else {
                panic!("{came:?}")
            };
            assert_eq!((format!("{:x}", trace.id.0), trace.parent, trace.flags), (format!("{number:x}"), None, 3));
            let Begun::Told(told) = begin(&fields(came), Sampler::new(0.0).unwrap(), number) else {
                panic!("{came:?}")
            };
            assert_eq!((told.trace, told.flags), (trace.id, RANDOM));
            assert!(begin(&fields(came), Sampler::new(0.0).unwrap(), 0) != Begun::PassedOn);
        }
    }

    #[test]
    fn a_share_of_new_traces_is_recorded() {
        for share in [0.0, 0.1, 0.5, 1.0] {
            let sampler = Sampler::new(share).unwrap();
            let mut number = SpanId(1);
            let taken = (0..10_000).filter(|_| {
                number = number.within(1);
                sampler.takes(TraceId(number.0.into()))
            });
            let taken = taken.count() as f64 / 10_000.0;
            assert!((taken - share).abs() < 0.02, "{taken} instead of {share}");
        }
        assert!([-0.1, 1.1, f64::NAN].into_iter().all(|share| Sampler::new(share).is_none()));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(trace in 1_u128.., span in 1_u64.., flags in 0..4_u8) {
            let context = Context { trace: TraceId(trace), span: SpanId(span), flags };
            prop_assert_eq!(Context::parse(context.value().as_bytes()), Some(context));
        }

        #[test]
        fn no_bytes_make_it_panic(value in proptest::collection::vec(any::<u8>(), 0..80)) {
            Context::parse(&value);
        }
    }
}
