//! Which of several answers for one target is for a request (`Vary`).

use super::{Line, Stage};

// ca-2
#[tokio::test(start_paused = true)]
async fn an_answer_is_for_those_who_ask_alike() {
    let en = "200 | max-age=60 | Vary: Accept-Language | = en";
    let lines: [Line<'_>; 6] = [
        (0, "GET /x | Accept-Language: en", en, "200 en miss"),
        (0, "GET /x | Accept-Language: de", "200 | max-age=60 | Vary: Accept-Language | = de", "200 de miss"),
        (0, "GET /x", "200 | max-age=60 | Vary: Accept-Language | = none", "200 none miss"),
        (1, "GET /x | Accept-Language: en", "-", "200 en hit age=1"),
        (1, "GET /x", "-", "200 none hit age=1"),
        (1, "GET /x | Accept-Language:  EN ", "-", "200 en hit age=1"),
    ];
    Stage::new(|_| {}).play(&lines).await;
    // Two lines of it are one list, and a client that cannot read a coding never gets it.
    let two = "200 | max-age=60 | Vary: Accept-Language | Vary: Accept-Encoding";
    let plain = format!("{two} | = plain");
    let coded = format!("{two} | Content-Encoding: gzip | = coded");
    let stage = Stage::new(|_| {});
    stage
        .play(&[
            (0, "GET /x | Accept-Language: en | Accept-Encoding: gzip", &coded, "200 coded miss"),
            (0, "GET /x | Accept-Language: en", &plain, "200 plain miss"),
            (1, "GET /x | Accept-Language: en", "-", "200 plain hit age=1"),
            (1, "GET /x | Accept-Language: en | Accept-Encoding: gzip", "-", "200 coded hit age=1"),
            (1, "GET /x | Accept-Encoding: gzip", &coded, "200 coded miss"),
        ])
        .await;
    for vary in ["*", "Accept-Language, *"] {
        let stage = Stage::new(|_| {});
        let answer = format!("200 | max-age=60 | Vary: {vary}");
        for number in 1..=3 {
            let told = stage.line("GET /x | Accept-Language: en", &answer).await;
            assert_eq!(told, format!("200 v{number} miss"), "{vary}");
        }
    }
}

/// Nobody can fill the memory by asking in ever other ways for one target.
#[tokio::test(start_paused = true)]
async fn a_target_keeps_as_many_answers_as_are_looked_through_quickly() {
    let stage = Stage::new(|_| {});
    let ask = |number: u32| format!("GET /x | X-Tag: {number}");
    for number in 1..=200 {
        stage.line(&ask(number), "200 | max-age=60 | Vary: X-Tag").await;
    }
    let found: Vec<_> = (1..=200).map(|number| ask(number) + " | Cache-Control: only-if-cached").collect();
    let mut kept = 0;
    for asked in &found {
        kept += usize::from(stage.ask(asked).await.status() == 200);
    }
    assert_eq!(kept, 128);
    assert_eq!(stage.line(&ask(200), "-").await, "200 v200 hit age=0");
}
