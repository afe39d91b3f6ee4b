//! What does a field say that speaks to one cache alone (RFC 9213)?
//!
//! It is a Structured Dictionary (RFC 9651), and all or nothing: where any of it cannot be parsed, a directive has a value
//! of the wrong type, or nothing is there, it counts as absent. Names are in lower case, and of a name that is there twice
//! the last one counts.
//!
//! What the directives mean is what they mean in `Cache-Control`.

use std::borrow::Cow;
use std::convert::Infallible;

use http::HeaderValue;
use http::header::GetAll;
use sfv::visitor::{DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor, ParameterVisitor};
use sfv::{BareItemFromInput, Integer, KeyRef, Parser};

use super::{Place, ResponseDirectives, SECONDS_MAX, Scope};

/// The directives of the lines of such a field; none if it counts as absent.
pub(super) fn read(lines: &GetAll<'_, HeaderValue>) -> Option<ResponseDirectives> {
    let mut lines = lines.iter().map(HeaderValue::as_bytes);
    let first = lines.next()?;
    let rest: Vec<_> = lines.collect();
    let whole = if rest.is_empty() { first.into() } else { Cow::from([&[first], &*rest].concat().join(&b", "[..])) };
    Parser::new(&*whole).parse_dictionary_with_visitor(Reading::default()).ok()?
}

/// What has been read so far.
#[derive(Default)]
struct Reading<'a> {
    directives: ResponseDirectives,
    /// Those whose value has the wrong type, as long as no later one takes their place.
    wrong: Vec<&'a str>,
}

impl<'a> DictionaryVisitor<'a> for Reading<'a> {
    type Out = Option<ResponseDirectives>;
    type Error = Infallible;

    fn entry(&mut self, key: &'a KeyRef) -> Result<impl EntryVisitor<'a>, Infallible> {
        let name = key.as_str();
        self.directives.is_targeted = true;
        let is_known = self.directives.place(name.as_bytes()).map(Place::clear).is_some();
        self.wrong.retain(|wrong| *wrong != name);
        Ok(is_known.then_some(Entry { reading: self, name }))
    }

    fn finish(self) -> Result<Self::Out, Infallible> {
        Ok((self.directives.is_targeted && self.wrong.is_empty()).then_some(self.directives))
    }
}

/// A directive that is known.
struct Entry<'r, 'a> {
    reading: &'r mut Reading<'a>,
    name: &'a str,
}

impl<'a> EntryVisitor<'a> for Entry<'_, 'a> {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'a>, Infallible> {
        Ok(self)
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'a>, Infallible> {
        self.reading.wrong.push(self.name);
        Ok(Ignored)
    }
}

impl<'a> ItemVisitor<'a> for Entry<'_, 'a> {
    type Out = ();
    type Error = Infallible;

    fn bare_item(self, value: BareItemFromInput<'a>) -> Result<impl ParameterVisitor<'a, Out = Self::Out>, Infallible> {
        let place = self.reading.directives.place(self.name.as_bytes());
        if place.is_some_and(|place| !place.fill(&value)) {
            self.reading.wrong.push(self.name);
        }
        Ok(Ignored)
    }
}

impl Place<'_> {
    /// As if the directive had not been there.
    fn clear(self) {
        match self {
            Self::Restriction(is_there) | Self::Permission(is_there) => *is_there = false,
            Self::Lifetime(seconds) | Self::Window(seconds) => *seconds = None,
            Self::Scope(scope) => *scope = Scope::None,
        }
    }

    /// Puts a value there; whether it is one of the right type.
    fn fill(self, value: &BareItemFromInput<'_>) -> bool {
        match (self, value) {
            (Self::Restriction(is_there) | Self::Permission(is_there), BareItemFromInput::Boolean(value)) => {
                *is_there = *value;
            }
            (Self::Lifetime(lifetime), BareItemFromInput::Integer(value)) => *lifetime = seconds(*value).or(Some(0)),
            (Self::Window(window), BareItemFromInput::Integer(value)) => *window = seconds(*value),
            (Self::Scope(scope), BareItemFromInput::Boolean(true)) => *scope = Scope::All,
            (Self::Scope(_), BareItemFromInput::Boolean(false)) => {}
            (Self::Scope(scope), BareItemFromInput::String(list)) => scope.widen(Some(list.as_str().as_bytes())),
            (Self::Scope(scope), BareItemFromInput::Token(name)) => scope.widen(Some(name.as_str().as_bytes())),
            _ => return false,
        }
        true
    }
}

/// Seconds, as many as are counted; none below 0.
fn seconds(value: Integer) -> Option<u32> {
    u32::try_from(i64::from(value).min(SECONDS_MAX.into())).ok()
}
