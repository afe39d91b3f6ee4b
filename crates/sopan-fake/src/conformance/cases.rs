//! All cases, group by group. They are written after the standards and after what sopan promises, not after what some
//! version of it did.

mod answer_framing;
mod answer_head;
mod bounds;
mod forwarding;
mod interim;
mod local;
mod request_framing;
mod request_head;
mod target;
mod upgrade;

use super::case::Case;

/// Every case, in the order of the groups.
pub fn cases() -> Vec<Case> {
    [
        forwarding::cases(),
        target::cases(),
        request_head::cases(),
        request_framing::cases(),
        answer_head::cases(),
        answer_framing::cases(),
        interim::cases(),
        upgrade::cases(),
        bounds::cases(),
        local::cases(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own_and_something_that_must_hold() {
        let cases = cases();
        let names: BTreeSet<_> = cases.iter().map(|case| case.id).collect();
        assert_eq!(names.len(), cases.len());
        for case in &cases {
            assert!(!case.wants.is_empty() && !case.acts.is_empty(), "{}", case.id);
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            assert!(case.id.bytes().all(is_plain), "{}", case.id);
        }
    }
}
