//! How do people say how the pages of a collection follow each other?
//!
//! In two words, as flags and files have them: where the next page is told, and the parameter that takes what stands there.
//! What was found can be said so too, to be kept and to be told.

use super::select::Select;
use super::walk::{Paging, Place};

impl Paging {
    /// How they follow each other, by where the next one is told (`/next`, `link`, `header:NAME`, `page`, `offset`, `last:/id`,
    /// `none`) and the parameter that takes that.
    ///
    /// # Errors
    /// A place that is none, or a parameter that is missing or too much.
    pub fn said(next: &str, param: Option<&str>) -> Result<Self, PagingError> {
        let owned = |param: &str| param.to_owned();
        let alone = |paging| match param {
            None => Ok(paging),
            Some(_) => Err(PagingError::NoParameter(next.to_owned())),
        };
        let place = |at| match param {
            None => Ok(Self::Url(at)),
            Some(param) => Ok(Self::Cursor { at, param: owned(param) }),
        };
        match next {
            "none" => alone(Self::Single),
            "link" => alone(Self::Link),
            "page" | "offset" => {
                let param = owned(param.unwrap_or(next));
                Ok(if next == "page" { Self::Number { param } } else { Self::Offset { param } })
            }
            _ => {
                if let Some(at) = next.strip_prefix("last:") {
                    let at = at.parse().map_err(|error| PagingError::Place(format!("{error}")))?;
                    let param = owned(param.ok_or_else(|| PagingError::WantsParameter(next.to_owned()))?);
                    return Ok(Self::Last { at, param });
                }
                if let Some(name) = next.strip_prefix("header:") {
                    let why = || {
                        PagingError::Place(format!("`{name}` is no name of a field; write for example header:X-Next"))
                    };
                    return place(Place::Field(name.parse().map_err(|_| why())?));
                }
                match next.parse() {
                    Ok(at) if next.starts_with('/') => place(Place::Body(at)),
                    _ => Err(PagingError::Unknown(next.to_owned())),
                }
            }
        }
    }

    /// The parameter that it takes, as [`said`](Self::said) reads it; the place is what `Display` writes.
    pub fn param(&self) -> Option<&str> {
        match self {
            Self::Single | Self::Link | Self::Url(_) => None,
            Self::Cursor { param, .. } | Self::Last { param, .. } | Self::Number { param } | Self::Offset { param } => {
                Some(param)
            }
        }
    }
}

impl Select {
    /// As it is read again.
    pub fn said(&self) -> String {
        match self {
            Self::List(pointer) => pointer.to_string(),
            Self::Path(_) => self.to_string(),
        }
    }
}

/// Why it is not known how pages follow each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PagingError {
    /// It is nothing that is known.
    #[error(
        "`{0}` is not known; write link, page, offset, none, header:NAME, last:/id, or where it stands in a page, such as /next"
    )]
    Unknown(String),
    /// A place that is none.
    #[error("{0}")]
    Place(String),
    /// There is nothing for a parameter to take.
    #[error("`{0}` needs no parameter; leave that away")]
    NoParameter(String),
    /// Nobody knows what takes it.
    #[error("`{0}` needs the parameter that takes it, such as starting_after")]
    WantsParameter(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_said_again_in_the_same_words() {
        for (next, param, again) in [
            ("none", None, None),
            ("link", None, None),
            ("page", None, Some("page")),
            ("page", Some("p"), Some("p")),
            ("offset", Some("$skip"), Some("$skip")),
            ("/a~1b/next", None, None),
            ("/next", Some("cursor"), Some("cursor")),
            ("header:x-next", None, None),
            ("header:x-next", Some("after"), Some("after")),
            ("last:/id", Some("starting_after"), Some("starting_after")),
        ] {
            let paging = Paging::said(next, param).unwrap();
            assert_eq!((paging.to_string().as_str(), paging.param()), (next, again), "{paging:?}");
            assert_eq!(Paging::said(&paging.to_string(), paging.param()), Ok(paging));
        }
        for select in ["", "/data", "$.data[*]"] {
            assert_eq!(select.parse::<Select>().unwrap().said(), select);
        }
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for (next, param, why) in [
            ("next", None, "`next` is not known; "),
            ("", None, "`` is not known; "),
            ("link", Some("page"), "`link` needs no parameter; "),
            ("last:/id", None, "`last:/id` needs the parameter that takes it"),
            ("last:id", Some("x"), "`id` is no JSON pointer"),
            ("header:a b", None, "`a b` is no name of a field"),
            ("/~", None, "`/~` is not known"),
        ] {
            let error = Paging::said(next, param).unwrap_err().to_string();
            assert!(error.starts_with(why), "{error}");
        }
    }
}
