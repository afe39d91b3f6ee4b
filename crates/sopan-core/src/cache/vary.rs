//! Which requests is an answer for (`Vary`, RFC 9111 §4.1)?
//!
//! Those that have the same in all the fields that it names. What is the same is decided in a *normal form*, which leaves the
//! meaning as it is: the lines of a field are one list; of the fields by which content is negotiated white space, empty
//! members and case are taken out where RFC 9110 §12.5 has them mean nothing; of any other field white space around commas,
//! but only where all its members are tokens, since nobody here knows its grammar; nothing where a quoted string may begin.
//! The order of members stays: it may be a preference (RFC 9110 §12.5.4). A credential has no form at all, since secrets are
//! not to be kept: what was chosen by one is for its [`Owner`](super::Owner) alone, and that tells credentials apart.
//!
//! The form is written when an answer is stored, and never for a comparison, which goes along it byte by byte. Whose an
//! answer is, is for [`Owner`](super::Owner) to say.

#[cfg(test)]
mod tests;

use std::fmt;

use http::header::{ACCEPT, ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_ENCODING, GetAll, VARY};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::list::{is_token, members};
use crate::headers::{is_credential, is_secret};

/// An answer that depends on more fields than this is as good as one that depends on everything, and what is kept of a
/// request has to end somewhere.
const FIELDS_MAX: usize = 32;
/// A longer value is hardly anybody else's, and whoever looks for an answer compares it with that of each variant.
const FIELD_BYTES_MAX: usize = 4096;

/// What an answer was chosen by: the fields that its `Vary` names, and what its request had in them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Selecting {
    /// Whether it was chosen by what no field shows (`Vary: *`), or what cannot be read, so that it is for no other request.
    pub is_beyond_fields: bool,
    /// Each field, in the order of names.
    pub fields: Box<[Selector]>,
}

/// A field, and its lines joined and made comparable, or nothing of a credential; none where the request had none.
pub type Selector = (HeaderName, Option<Box<[u8]>>);

impl Selecting {
    /// By what an answer with these fields was chosen, for a request with those.
    ///
    /// ```
    /// use http::{HeaderMap, HeaderValue};
    /// use sopan_core::cache::vary::Selecting;
    ///
    /// let with = |name: &'static str, value| {
    ///     let mut headers = HeaderMap::new();
    ///     headers.insert(name, HeaderValue::from_static(value));
    ///     headers
    /// };
    /// let answer = with("vary", "Accept-Language");
    /// let selecting = Selecting::of(&answer, &with("accept-language", "en,DE"));
    /// assert!(selecting.is_for(&with("accept-language", "en, de")));
    /// assert!(!selecting.is_for(&with("accept-language", "de, en")));
    /// assert!(!selecting.is_for(&HeaderMap::new()));
    /// ```
    pub fn of(answer: &HeaderMap, request: &HeaderMap) -> Self {
        Self::also_of(&[], answer, request)
    }

    /// The same, if it was chosen by these fields too, though it does not say so.
    pub(super) fn also_of(also: &[HeaderName], answer: &HeaderMap, request: &HeaderMap) -> Self {
        let lines = answer.get_all(VARY).iter();
        let names = lines.flat_map(|line| members(line.as_bytes(), b','));
        // `*` is a token, and so would be the name of a field.
        let names = names.map(|name| HeaderName::from_bytes(name).ok().filter(|name| name.as_str() != "*"));
        // Many upstreams compress for who takes it, and forget to say so: who does not would get what it cannot read.
        let coded = answer.contains_key(CONTENT_ENCODING).then_some(Some(ACCEPT_ENCODING));
        let names = names.chain(coded).chain(also.iter().cloned().map(Some));
        let Some(mut names) = names.collect::<Option<Vec<_>>>() else { return Self::beyond_fields() };
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        let is_short = |name: &HeaderName| Field::of(request, name).is_none_or(|field| field.is_short());
        if names.len() > FIELDS_MAX || !names.iter().all(is_short) {
            return Self::beyond_fields();
        }
        let fields = names.into_iter().map(|name| {
            let value = Field::of(request, &name).map(Field::written);
            (name, value)
        });
        Self { is_beyond_fields: false, fields: fields.collect() }
    }

    /// Whether a request would have been answered with it too.
    pub fn is_for(&self, request: &HeaderMap) -> bool {
        !self.is_beyond_fields
            && self.fields.iter().all(|(name, kept)| match (Field::of(request, name), kept) {
                (Some(field), Some(kept)) => field.is_short() && field.is(kept),
                (None, None) => true,
                _ => false,
            })
    }

    /// Whether it was chosen by a credential that its request had.
    pub(super) fn is_by_credential(&self) -> bool {
        self.fields.iter().any(|(name, value)| value.is_some() && is_credential(name))
    }

    fn beyond_fields() -> Self {
        Self { is_beyond_fields: true, fields: Box::default() }
    }
}

/// What a request has in a field.
struct Field<'a> {
    lines: GetAll<'a, HeaderValue>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Negotiated,
    Credential,
    Other,
}

/// What its normal form is.
enum Form {
    /// Members with parameters, all in lower case but the values of parameters.
    Negotiated,
    /// Nothing at all.
    Hidden,
    /// Tokens and nothing else.
    Tokens,
    /// The bytes as they are.
    Opaque,
}

/// Takes the normal form byte by byte, and says whether it wants more.
type Put<'p> = &'p mut dyn FnMut(u8) -> bool;

impl<'a> Field<'a> {
    fn of(request: &'a HeaderMap, name: &HeaderName) -> Option<Self> {
        let lines = request.get_all(name);
        lines.iter().next()?;
        let kind = match *name {
            ACCEPT | ACCEPT_CHARSET | ACCEPT_ENCODING | ACCEPT_LANGUAGE => Kind::Negotiated,
            _ if is_credential(name) => Kind::Credential,
            _ => Kind::Other,
        };
        Some(Self { lines, kind })
    }

    /// Whether it is looked at at all.
    fn is_short(&self) -> bool {
        self.lines.iter().map(HeaderValue::len).sum::<usize>() <= FIELD_BYTES_MAX
    }

    /// Its normal form.
    fn written(self) -> Box<[u8]> {
        let mut written = Vec::new();
        self.walk(&mut |byte| {
            written.push(byte);
            true
        });
        written.into()
    }

    /// Whether this is its normal form. What most requests have is one line of just these bytes.
    fn is(&self, mut normal: &[u8]) -> bool {
        let mut lines = self.lines();
        let is_so_written = lines.next() == Some(normal) && lines.next().is_none();
        is_so_written || self.walk(&mut |byte| normal.split_off_first() == Some(&byte)) && normal.is_empty()
    }

    fn walk(&self, put: Put<'_>) -> bool {
        let lists = self.lines();
        match self.form() {
            Form::Negotiated => joined(lists.flat_map(|list| members(list, b',')), b", ", negotiated, put),
            Form::Hidden => true,
            // A member that is empty is one here: nobody knows that it means nothing.
            Form::Tokens => joined(lists.flat_map(each_token), b", ", plain, put),
            Form::Opaque => joined(lists, b", ", plain, put),
        }
    }

    fn form(&self) -> Form {
        match self.kind {
            Kind::Negotiated if !self.lines().any(|line| line.contains(&b'"')) => return Form::Negotiated,
            Kind::Credential => return Form::Hidden,
            Kind::Negotiated | Kind::Other => {}
        }
        let are_tokens = self.lines().flat_map(each_token).all(|member| member.is_empty() || is_token(member));
        if are_tokens { Form::Tokens } else { Form::Opaque }
    }

    fn lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.lines.iter().map(|line| line.as_bytes().trim_ascii())
    }
}

/// What stands between commas.
fn each_token(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

fn joined<'a>(
    members: impl Iterator<Item = &'a [u8]>,
    separator: &[u8],
    write: fn(&[u8], Put<'_>) -> bool,
    put: Put<'_>,
) -> bool {
    let mut before: &[u8] = b"";
    for member in members {
        if !plain(before, put) || !write(member, put) {
            return false;
        }
        before = separator;
    }
    true
}

/// A member with its parameters (RFC 9110 §5.6.6, §12.4.2).
fn negotiated(member: &[u8], put: Put<'_>) -> bool {
    joined(members(member, b';'), b";", parameter, put)
}

/// Only the name: whether case means anything in the value is for each to say (RFC 9110 §8.3.1).
fn parameter(text: &[u8], put: Put<'_>) -> bool {
    let (name, value) = text.split_at(text.iter().position(|&byte| byte == b'=').unwrap_or(text.len()));
    name.iter().all(|byte| put(byte.to_ascii_lowercase())) && plain(value, put)
}

fn plain(bytes: &[u8], put: Put<'_>) -> bool {
    bytes.iter().all(|&byte| put(byte))
}

/// Shows no secret: an answer may have been chosen by `Authorization` or `Cookie`.
impl fmt::Debug for Selecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        if self.is_beyond_fields {
            map.entry(&"*", &"*");
        }
        for (name, value) in &self.fields {
            let shown = value.as_deref().map(String::from_utf8_lossy);
            map.entry(&name.as_str(), &shown.map(|value| if is_secret(name) { "…".into() } else { value }));
        }
        map.finish()
    }
}
