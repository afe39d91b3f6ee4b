use super::*;

fn field(name: &'static str, scheme: Option<&str>) -> CredentialPlace {
    CredentialPlace::field(HeaderName::from_static(name), scheme).unwrap()
}

/// What a request to this target says then, and what of it is left afterwards.
fn sent(place: CredentialPlace, secret: &str, request: &str) -> (String, String) {
    let credential = Credential::new(place, secret.as_bytes()).unwrap();
    let (method, target) = request.split_once(' ').unwrap();
    let mut head = Request::builder().method(method).uri(target).body(()).unwrap();
    let shown = |head: &Request<()>| {
        let fields = head.headers().iter().map(|(name, value)| format!(" | {name}: {}", value.to_str().unwrap()));
        format!("{}{}", head.uri(), fields.collect::<String>())
    };
    credential.put_in(&mut head);
    let with = shown(&head);
    assert!(head.headers().values().all(HeaderValue::is_sensitive), "{with}");
    credential.take_out(&mut head);
    (with, shown(&head))
}

#[test]
fn it_stands_where_it_belongs_and_only_while_it_is_sent() {
    let basic = |name| field(name, Some("Basic"));
    for (place, secret, request, expected) in [
        (CredentialPlace::bearer(), "s3cret\n", "GET /x", "/x | authorization: Bearer s3cret"),
        (CredentialPlace::bearer(), "s3cret\r\n\n", "POST /x", "/x | authorization: Bearer s3cret"),
        (CredentialPlace::bearer(), "bearer s3cret", "GET /x", "/x | authorization: bearer s3cret"),
        (CredentialPlace::bearer(), "Bearers3cret", "GET /x", "/x | authorization: Bearer Bearers3cret"),
        (field("authorization", None), "Key s3cret", "GET /x", "/x | authorization: Key s3cret"),
        (field("x-api-key", None), "s3cret", "GET /x?a", "/x?a | x-api-key: s3cret"),
        // RFC 7617 §2.
        (
            basic("authorization"),
            "Aladdin:open sesame",
            "GET /",
            "/ | authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
        ),
        (basic("authorization"), "user:pw", "GET /", "/ | authorization: Basic dXNlcjpwdw=="),
        (basic("authorization"), "user:pass", "GET /", "/ | authorization: Basic dXNlcjpwYXNz"),
        (basic("x-basic"), "dXNlcjpwdw==", "GET /", "/ | x-basic: Basic dXNlcjpwdw=="),
        (CredentialPlace::query("key"), "s3cret/+é", "GET /x", "/x?key=s3cret%2F%2B%C3%A9"),
        (CredentialPlace::query("key"), "s3cret", "GET /x?a=1", "/x?a=1&key=s3cret"),
        // It would be shown in the answer.
        (CredentialPlace::bearer(), "s3cret", "TRACE /x", "/x"),
        (CredentialPlace::query("key"), "s3cret", "TRACE /x", "/x"),
        (CredentialPlace::query("key"), "s3cret", "OPTIONS *", "*"),
    ] {
        let (with, without) = sent(place, secret, request);
        assert_eq!((&*with, &*without), (expected, request.split_once(' ').unwrap().1), "{request}");
    }
}

#[test]
fn what_can_be_none_is_refused_and_not_shown() {
    for (secret, expected) in [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("s3cret\nmore", "it holds a line break"),
        ("s3cret\0", "it holds a line break"),
        (&"s3cret".repeat(1500), "it is longer than 8192 bytes"),
    ] {
        for place in [CredentialPlace::bearer(), CredentialPlace::query("key")] {
            let error = Credential::new(place, secret.as_bytes()).unwrap_err();
            let told = format!("{error} {error:?}");
            assert!(told.contains(expected) && !told.contains("s3cret"), "{told}");
        }
    }
    for name in ["host", "content-length", "connection", "te", "proxy-authorization", "via"] {
        let name = HeaderName::from_static(name);
        assert_eq!(CredentialPlace::field(name.clone(), None), Err(CredentialError::Field(name)));
    }
    for scheme in ["", "two words", "a:"] {
        assert_eq!(CredentialPlace::field(AUTHORIZATION, Some(scheme)), Err(CredentialError::Scheme), "{scheme}");
    }
}

#[test]
fn what_a_client_has_sent_in_its_place_is_taken_off() {
    let credential = Credential::new(field("x-api-key", None), b"s3cret").unwrap();
    let mut headers = HeaderMap::new();
    for name in ["x-api-key", "x-api-key", "x_api-key", "x-api-keys", "authorization"] {
        headers.append(name, HeaderValue::from_static("mine"));
    }
    credential.take_off_own(&mut headers);
    let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
    left.sort_unstable();
    assert_eq!(left, ["authorization", "x-api-keys"]);
}
