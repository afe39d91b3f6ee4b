//! How far is one word from another?
//!
//! Whoever tells of a name that does not exist offers those that are near. How near is near enough is the caller's business.

/// How many mistakes make one of the other: a letter that is changed, added or left out, or two neighbours that changed
/// places (optimal string alignment distance).
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<_>, Vec<_>) = (a.chars().collect(), b.chars().collect());
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
    fn mistakes_are_counted() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("wait", "wait", 0),
            ("wait", "wat", 1),
            ("wait", "waiit", 1),
            ("wait", "w\u{e4}it", 1),
            ("wait", "wiat", 1),
            ("wait", "tiaw", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!((distance(a, b), distance(b, a)), (expected, expected), "{a} and {b}");
        }
    }
}
