//! Whose an answer is: what was answered to one client's credential is for no other.

use super::{Line, Stage};

const ALICE: &str = "GET /me | Authorization: Bearer A";
const BOB: &str = "GET /me | Authorization: Bearer B";
const NOBODY: &str = "GET /me";

// ca-1
#[tokio::test(start_paused = true)]
async fn an_answer_to_a_credential_is_for_others_only_where_it_says_so() {
    for (directives, is_for_all, is_for_itself) in [
        ("max-age=60", false, true),
        ("public, max-age=60", true, true),
        ("s-maxage=60", true, true),
        ("must-revalidate, max-age=60", true, true),
        ("proxy-revalidate, max-age=60", false, true),
        ("private, max-age=60", false, true),
        ("public, no-store, max-age=60", false, false),
    ] {
        let stage = Stage::new(|_| {});
        let answer = format!("200 | {directives}");
        for (asked, is_reused) in [(ALICE, false), (BOB, is_for_all), (NOBODY, is_for_all), (ALICE, is_for_itself)] {
            let told = stage.line(asked, if is_reused { "-" } else { &answer }).await;
            assert_eq!(told.contains(" hit"), is_reused, "{directives}: {asked}: {told}");
            // In no case one that was made for somebody else.
            assert!(is_for_all || asked != ALICE || !is_reused || told.starts_with("200 v1 "), "{directives}: {told}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_known_by_other_secrets_is_somebody_else() {
    let answer = "200 | max-age=60";
    let lines: [Line<'_>; 10] = [
        (0, "GET /a | X-Api-Key: k1", answer, "200 v1 miss"),
        (0, "GET /a | X-Api-Key: k2", answer, "200 v2 miss"),
        (0, "GET /a | Cookie: s=1", answer, "200 v3 miss"),
        (0, "GET /a | Cookie: s=1 | X-Api-Key: k1", answer, "200 v4 miss"),
        (0, "GET /a", answer, "200 v5 miss"),
        (1, "GET /a | X-Api-Key: k1", "-", "200 v1 hit age=1"),
        (1, "GET /a | X-Api-Key: k2", "-", "200 v2 hit age=1"),
        (1, "GET /a | Cookie: s=1", "-", "200 v3 hit age=1"),
        (1, "GET /a | X-Api-Key: k1 | Cookie: s=1", "-", "200 v4 hit age=1"),
        // It tells requests apart, and not who sends them.
        (1, "GET /a | Idempotency-Key: 7", "-", "200 v5 hit age=1"),
    ];
    Stage::new(|_| {}).play(&lines).await;
}

/// With a credential of the program that is put in on the way, its clients are one account, and share what it may see.
#[tokio::test(start_paused = true)]
async fn what_is_only_our_lifetime_is_not_given_across_the_door_of_a_credential() {
    let stage = Stage::new(|policy| policy.default_ttl = Some(crate::support::s(300)));
    stage
        .play(&[
            (0, NOBODY, "200", "200 v1 miss"),
            (0, ALICE, "200", "200 v2 miss"),
            (0, BOB, "200", "200 v3 miss"),
            (1, NOBODY, "-", "200 v1 hit age=1"),
            (1, ALICE, "-", "200 v2 hit age=1"),
            (1, BOB, "-", "200 v3 hit age=1"),
        ])
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_private_to_nobody_in_particular_is_not_stored() {
    let stage = Stage::new(|_| {});
    stage
        .play(&[
            (0, NOBODY, "200 | private, max-age=60", "200 v1 miss"),
            (0, NOBODY, "200 | private, max-age=60", "200 v2 miss"),
            (0, NOBODY, "200 | private=\"x-me\", max-age=60 | X-Me: 1 | X-All: 2", "200 v3 miss"),
            (1, NOBODY, "-", "200 v3 hit age=1"),
        ])
        .await;
    let got = stage.ask(NOBODY).await;
    assert_eq!((got.field("x-me"), got.field("x-all")), (None, Some("2")));
}
