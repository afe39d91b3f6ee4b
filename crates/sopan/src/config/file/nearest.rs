//! Which word was meant?

/// The word that is nearest to `typed`, if one is near: at most one mistake in three letters (optimal string alignment
/// distance, that is with neighbours that changed places as one).
pub(super) fn nearest<'w>(typed: &str, words: &[&'w str]) -> Option<&'w str> {
    let plain = |word: &str| word.to_ascii_lowercase().replace(['-', ' '], "_");
    let typed = plain(typed);
    let near =
        words.iter().map(|word| (distance(&typed, &plain(word)), *word)).min_by_key(|(distance, _)| *distance)?;
    (near.0 * 3 <= typed.chars().count().max(3)).then_some(near.1)
}

fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<_>, Vec<_>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut before = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before_at(&before, j - 2) + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

fn before_at(row: &[usize], at: usize) -> usize {
    row.get(at).copied().unwrap_or(usize::MAX - 1)
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
            ("wiat_max", Some("wait_max")),
            ("WaitingMax", Some("waiting_max")),
            ("clientby", Some("client_by")),
            ("cleint_by", Some("client_by")),
            ("x", None),
            ("", None),
            ("colour", None),
        ] {
            assert_eq!(nearest(typed, &words), meant, "{typed}");
        }
    }
}
