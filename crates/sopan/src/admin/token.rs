//! The secret of the admin port, of which only a digest is kept.
//!
//! What is compared are digests, in a time that does not hang on where they differ. Where the secret comes from is the settings'
//! business; what is asked of whom, the gate's.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Shorter ones can be guessed.
const BYTES_MIN: usize = 16;
/// A file that is longer is another one.
const BYTES_MAX: usize = 1024;

/// A secret that can be recognized and not told.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token([u8; 32]);

/// Why a secret will not do. It does not say which it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    #[error(
        "the secret is shorter than {BYTES_MIN} characters, and could be guessed; make one with `openssl rand -hex 32`"
    )]
    Short,
    #[error("that is longer than {BYTES_MAX} bytes, and no secret; write nothing else there")]
    Long,
    #[error("the secret has blanks or characters that no field can carry; make one with `openssl rand -hex 32`")]
    Odd,
}

impl Token {
    /// The secret that stands there, without the end of its line.
    ///
    /// # Errors
    /// It could be guessed, or is none.
    pub(crate) fn of(secret: &[u8]) -> Result<Self, Unfit> {
        let secret = secret.trim_ascii();
        if secret.len() > BYTES_MAX {
            return Err(Unfit::Long);
        }
        if secret.len() < BYTES_MIN {
            return Err(Unfit::Short);
        }
        if !secret.iter().all(u8::is_ascii_graphic) {
            return Err(Unfit::Odd);
        }
        Ok(Self(Sha256::digest(secret).into()))
    }

    /// Whether this is it.
    pub(super) fn is(&self, said: &[u8]) -> bool {
        let said: [u8; 32] = Sha256::digest(said).into();
        self.0.ct_eq(&said).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_recognized_and_never_told() {
        let token = Token::of(b" correct-horse-battery\n").unwrap();
        assert!(token.is(b"correct-horse-battery"));
        for other in ["", "correct-horse-batter", "correct-horse-battery\n", "Correct-horse-battery"] {
            assert!(!token.is(other.as_bytes()), "{other}");
        }
        assert_eq!(format!("{token:?}"), "Token");
        let long = "x".repeat(1025);
        for (unfit, why) in [
            ("", Unfit::Short),
            ("fifteen-letters", Unfit::Short),
            (long.as_str(), Unfit::Long),
            ("two words that are long", Unfit::Odd),
            ("schlüssel-aus-eisen", Unfit::Odd),
        ] {
            assert_eq!(Token::of(unfit.as_bytes()), Err(why), "{unfit}");
        }
    }
}
