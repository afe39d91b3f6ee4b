//! One account for all: the credential is put in on the way, and clients have none, or one that goes no further.

use sopan_engine::{CacheSettings, Credential, CredentialPlace, DiskSettings};

use super::{Line, Stage, caching};

fn stage(place: CredentialPlace) -> Stage {
    Stage::with(&CacheSettings::default(), |settings| {
        caching(|_| {})(settings);
        settings.credential = Some(Credential::new(place, b"s3cret").unwrap());
    })
}

#[tokio::test(start_paused = true)]
async fn what_it_may_see_is_for_all_who_use_it() {
    let lines: [Line<'_>; 12] = [
        (0, "GET /a | Authorization: Bearer A", "200 | max-age=60", "200 v1 miss"),
        (1, "GET /a | Authorization: Bearer B", "-", "200 v1 hit age=1"),
        (1, "GET /a", "-", "200 v1 hit age=1"),
        // It is the same for all, so that it makes no difference.
        (2, "GET /b | Authorization: Bearer A", "200 | max-age=60 | Vary: Authorization", "200 v2 miss"),
        (2, "GET /b", "-", "200 v2 hit age=0"),
        // Another secret, which the API does see.
        (3, "GET /e | Cookie: s=1 | Authorization: Bearer A", "200 | max-age=60", "200 v3 miss"),
        (3, "GET /e | Cookie: s=1", "-", "200 v3 hit age=0"),
        (3, "GET /e | Cookie: s=2", "200 | max-age=60", "200 v4 miss"),
        // Of these it is not known for whom they are.
        (4, "GET /c", "200 | private, max-age=60", "200 v5 miss"),
        (4, "GET /c", "200 | private, max-age=60", "200 v6 miss"),
        // Asked about, and stored anew.
        (5, "GET /d", "200 | max-age=1 | ETag: \"d\"", "200 v7 miss"),
        (9, "GET /d | Authorization: Bearer C", "304 | max-age=60", "200 v7 revalidated age=0"),
    ];
    let stage = stage(CredentialPlace::bearer());
    stage.play(&lines).await;
    let sent = stage.bench.upstream.requests();
    assert!(sent.iter().all(|request| request.fields_named("authorization") == ["Bearer s3cret"]), "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn in_the_query_it_is_in_no_key_and_in_no_stored_link() {
    let stage = stage(CredentialPlace::query("key"));
    let echo = "200 | max-age=60 | Link: </a?key=s3cret&page=2>; rel=next";
    for (at, asked, answer) in [(0, "GET /a", echo), (1, "GET /a", "-")] {
        tokio::time::sleep_until(stage.bench.begun + crate::support::s(at)).await;
        stage.will_answer(answer);
        let got = stage.ask(asked).await;
        assert_eq!(got.field("link"), Some("</a?page=2>; rel=next"));
    }
    stage
        .play(&[
            // A write there makes untrue what is stored, by the client's name for it.
            (2, "POST /a", "200", "200 v2 bypass"),
            (2, "GET /a", "200 | max-age=60", "200 v3 miss"),
            (3, "POST /b", "201 | Location: /a?key=s3cret", "201 v4 bypass"),
            (3, "GET /a", "200 | max-age=60", "200 v5 miss"),
        ])
        .await;
    assert_eq!(stage.bench.targets(), ["/a", "/a", "/a", "/b", "/a"].map(|path| format!("{path}?key=s3cret")));
}

#[tokio::test(start_paused = true)]
async fn it_is_for_nobody_where_each_has_a_credential_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Some(DiskSettings { directory: directory.path().to_owned(), bytes_max: 64 << 20 });
    let size = CacheSettings { disk, ..CacheSettings::default() };
    let bearer = || Some(CredentialPlace::bearer());
    for (place, answer, expected) in [
        (bearer(), "200 | max-age=60", "200 v1 miss"),
        // Another run of the program finds what the one before has stored.
        (bearer(), "-", "200 v1 hit age=0"),
        (None, "200 | max-age=60 | = other", "200 other miss"),
        (Some(CredentialPlace::query("key")), "200 | max-age=60 | = other", "200 other miss"),
    ] {
        let stage = Stage::with(&size, |settings| {
            caching(|_| {})(settings);
            settings.credential = place.map(|place| Credential::new(place, b"s3cret").unwrap());
        });
        assert_eq!(stage.line("GET /a", answer).await, expected);
        stage.bench.cache.close();
    }
}
