//! Sizes and times.

use super::super::case::{Case, Group};

fn case(id: &'static str, section: &'static str, claim: &'static str) -> Case {
    Case::new(id, Group::Bounds, section, claim)
}

pub(super) fn cases() -> Vec<Case> {
    let target = |bytes: usize| format!("/{}", "a".repeat(bytes - 1));
    let asking = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: {{host}}\r\n\r\n");
    let fields = |count: usize| (0..count).map(|at| format!("X-{at}: 1\r\n")).collect::<String>();
    let large = "a".repeat(7000);
    vec![
        case("target-8000", "9112 §3", "a target of 8,000 bytes arrives")
            .send(asking(&target(8000)))
            .answer(&[200])
            .arrive(1)
            .target(target(8000)),
        case("target-70000", "9110 §15.5.15", "a target of 70,000 bytes is refused as too long")
            .send(asking(&target(70_000)))
            .refused(&[414])
            .arrive(0),
        case("head-70000", "6585 §5", "a head of 70,000 bytes is refused as too large")
            .get(&format!("X-Large: {}\r\n", "a".repeat(70_000)))
            .refused(&[431])
            .arrive(0),
        case("fields-100", "9110 §5.4", "100 fields arrive")
            .policy()
            .get(&fields(99))
            .answer(&[200])
            .arrive(1)
            .has("X-98", &["1"]),
        case("fields-101", "6585 §5", "one more is refused as too many")
            .policy()
            .get(&fields(100))
            .refused(&[431])
            .arrive(0),
        case("field-7000", "9110 §5.4", "a value of 7,000 bytes arrives")
            .get(&format!("X-Large: {large}\r\n"))
            .answer(&[200])
            .arrive(1)
            .has("X-Large", &[&large]),
        case("slow-head", "9110 §15.5.9", "a head that does not come to its end is not waited for without end")
            .policy()
            .send("GET {path} HTTP/1.1\r\nHost: {host}\r\nX-A:")
            .not_served()
            .arrive(0),
    ]
}
