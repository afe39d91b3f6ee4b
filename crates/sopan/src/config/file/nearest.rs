//! Which word was meant?

use sopan_core::spelling::distance;

/// The word that is nearest to `typed`, if one is near: at most one mistake in three letters.
pub(in crate::config) fn nearest<'w>(typed: &str, words: &[&'w str]) -> Option<&'w str> {
    let typed = plain(typed);
    let letters = typed.chars().count();
    let near = |word: &&'w str| {
        let length = letters.max(word.len());
        // No more than the difference of their lengths can make them the same.
        let distance = if letters.abs_diff(word.len()) * 3 > length { length } else { distance(&typed, word) };
        (distance * 3 <= length).then_some((distance, *word))
    };
    words.iter().filter_map(near).min_by_key(|(distance, _)| *distance).map(|(_, word)| word)
}

/// Whether one has the parts of the other, perhaps in another order: `max_wait` and `wait_max`.
pub(super) fn has_same_parts(a: &str, b: &str) -> bool {
    let parts = |word: &str| {
        let mut parts: Vec<_> = word.split('_').map(str::to_owned).collect();
        parts.sort();
        parts
    };
    a.len() == b.len() && parts(a) == parts(b)
}

/// As it would be written, had it been written as a setting is.
pub(super) fn plain(word: &str) -> String {
    word.to_ascii_lowercase().replace(['-', ' '], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_of_typing_are_seen_through() {
        let words = ["wait_max", "waiting_max", "client_by", "queue_bytes_max"];
        for (typed, meant) in [
            ("wait-max", Some("wait_max")),
            ("waitmax", Some("wait_max")),
            ("max_wait", None),
            ("wait_mx", Some("wait_max")),
            ("wiat_max", Some("wait_max")),
            ("WaitingMax", Some("waiting_max")),
            ("clientby", Some("client_by")),
            ("cleint_by", Some("client_by")),
            ("x", None),
            ("", None),
            ("colour", None),
            (&"k".repeat(400), None),
        ] {
            assert_eq!(nearest(typed, &words), meant, "{typed}");
        }
    }
}
