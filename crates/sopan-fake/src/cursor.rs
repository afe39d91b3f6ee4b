//! Cursors that say nothing to a client, and hold `+`, `/` and `=` as those in base64 do: who puts one into a URL as it is,
//! and not encoded, gives back another one.

use crate::query::parse_whole;

const BEGIN: &str = "b3JkZXI+";
const END: &str = "/A==";

/// The cursor of what comes after this id.
pub(crate) fn write(id: u64) -> String {
    format!("{BEGIN}{id}{END}")
}

/// The id that it comes after.
pub(crate) fn read(cursor: &str) -> Option<u64> {
    parse_whole(cursor.strip_prefix(BEGIN)?.strip_suffix(END)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_only_as_it_was_written() {
        assert_eq!(read(&write(17)), Some(17));
        for other in ["", "17", "b3JkZXI 17/A==", "b3JkZXI+/A==", "b3JkZXI+17", "b3JkZXI+-1/A=="] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
