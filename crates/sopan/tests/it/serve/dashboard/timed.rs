//! What people see of it, and whether that is so.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::browser::Browser;
use super::page::{FAINT, Told, agrees};
use super::scene::{ANY, Load, serve, three};
use crate::serve::operating::change;
use crate::support::{self, Fake, skipped, until};

const NO_BROWSER: &str = "there is no Chromium";
/// It has told how it is.
const LIVE: &str = "document.body.dataset.link === 'live' && document.querySelector('#number').value > 0";

#[test]
fn rows_that_are_called_alike_are_as_many_as_they_are_told_of() {
    let Some(mut browser) = Browser::start() else { return skipped(NO_BROWSER) };
    let fake = Fake::start(&[]);
    let proxy = serve(&three(&fake), ANY, &[]);
    browser.open(&format!("http://{}/", proxy.admin));
    // Four digits of a hash are the same for some clients, and a list is filled twice a second for days.
    let rows = browser.js(
        "(async () => {
            const { fill } = await import('/dashboard/fill.js');
            const root = document.createElement('div');
            root.innerHTML = '<ul data-each=\"of\" data-key=\"name\"><template><li data-of=\"name\"></li></template></ul>';
            for (const of of ['aab', 'aaab', 'baa', 'aba', 'aba']) fill(root, { of: [...of].map((name) => ({ name })) });
            return root.innerText;
        })()",
    );
    assert_eq!(rows, "aba");
}

#[test]
fn what_stands_on_the_page_is_the_state_of_which_it_says_so() {
    let Some(mut browser) = Browser::start() else { return skipped(NO_BROWSER) };
    let fake = Fake::start(&["--delay", "20ms", "--rate-limit-first", "1"]);
    let proxy = serve(&three(&fake), ANY, &[]);
    browser.open(&format!("http://{}/", proxy.admin));
    browser.until(LIVE);
    // Before anybody has asked for anything.
    let told = Told::by(proxy.admin);
    agrees(&mut browser, &told);
    assert_eq!(browser.js("document.querySelector('.say').innerText"), "Nothing was sent in the last 10 s.");

    let mut load = Load::start();
    load.add(&proxy, 6, 2, "/shop/api/v1/orders", 50, Duration::ZERO);
    load.add(&proxy, 4, 3, "/shop/api/v1/orders", 50, Duration::ZERO);
    load.add(&proxy, 1, 4, "/shop/nowhere", 3, Duration::from_millis(50));
    load.add(&proxy, 1, 5, "/bank/balance", 9, Duration::from_millis(100));
    load.add(&proxy, 1, 6, "/geo/api/v1/orders", 50, Duration::from_millis(30));
    let (mut seen, mut paths) = (Vec::new(), BTreeSet::new());
    for name in ["shop", "bank", "geo", "shop"] {
        browser.js(&format!("location.hash = '#/' + encodeURIComponent({name:?})"));
        browser.until(&format!("document.querySelector('main h2').textContent === {name:?}"));
        for _ in 0..4 {
            let (number, shown) = agrees(&mut browser, &told);
            seen.push(number);
            paths.extend(shown);
            until(|| (told.newest()? > number).then_some(()));
        }
    }
    seen.dedup();
    assert!(seen.len() > 8 && seen.is_sorted(), "{seen:?}");
    let all: Vec<_> = paths.iter().map(String::as_str).collect();
    for path in [
        "/version",
        "/uptime_s",
        "/connections/open",
        "/cache/memory/bytes",
        "/upstreams/used_per_s",
        "/upstreams/allowed_per_s",
        "/upstreams/sustained_per_s",
        "/upstreams/empty_in_s",
        "/upstreams/queue/waiting",
        "/upstreams/queue/wait_s",
        "/upstreams/queue/clients/name",
        "/upstreams/queue/clients/wait_s",
        "/upstreams/limits/limit",
        "/upstreams/limits/free",
        "/upstreams/places/used",
        "/upstreams/retry_budget/left",
        "/upstreams/cache/tokens_saved",
        "/upstreams/cache/hit",
        "/upstreams/exchanges/2xx",
        "/upstreams/attempts/not_sent",
        "/upstreams/refusals/queue-full",
        "/exchanges/status",
        "/exchanges/total_s",
        "/exchanges/story",
    ] {
        assert!(all.contains(&path), "{path} is not shown: {all:#?}");
    }

    // What it concludes from that.
    browser.js("location.hash = '#/bank'");
    browser.until(
        "/^The breaker is open: nothing is sent, and probes go in \\d/.test(document.querySelector('.say').innerText)",
    );
    browser.until("document.title === '1 stopped – sopan'");
    browser.until("document.querySelector('#spoken').textContent === 'bank has its breaker open'");
    let hold = change(proxy.admin, "/upstreams/shop/hold", &json!({"for": "20s"}));
    assert_eq!(hold.0, 200);
    browser.js("location.hash = '#/shop'");
    browser
        .until("/^Held by hand: nothing is sent for another 1\\d s$/.test(document.querySelector('.say').innerText)");
    let left = "parseFloat(document.querySelector('.say data').textContent)";
    browser.until(&format!("{left} < 17"));
    change(proxy.admin, "/upstreams/shop/release", &json!({}));
    drop(load);

    // At rest it is what /state says, in which nothing moves but the clock.
    let still = |state: &Json| {
        let upstreams = state["upstreams"].as_array().unwrap().clone();
        let of = |upstream: Json| {
            json!([upstream["exchanges"], upstream["attempts"], upstream["cache"], upstream["refusals"]])
        };
        json!([upstreams.into_iter().map(of).collect::<Vec<_>>(), state["exchanges"]])
    };
    let state: Json = serde_json::from_str(&support::get(proxy.admin, "/state").body).unwrap();
    until(|| (still(&told.state(agrees(&mut browser, &told).0)) == still(&state)).then_some(()));
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn it_says_when_sopan_has_gone_and_goes_on_by_itself_when_it_is_back() {
    let Some(mut browser) = Browser::start() else { return skipped(NO_BROWSER) };
    let fake = Fake::start(&[]);
    let settings = three(&fake);
    let proxy = serve(&settings, ANY, &[]);
    let addresses = [proxy.address, proxy.admin].map(|address| address.to_string());
    for number in 1..=5 {
        assert_eq!(proxy.get(&format!("/shop/api/v1/orders?page={number}")).status(), 200);
    }
    browser.open(&format!("http://{}/#/shop", proxy.admin));
    browser.until(LIVE);
    browser.until("document.querySelectorAll('.exchanges tbody tr').length === 5");
    let started = "performance.timeOrigin";
    let page = browser.js(started);
    assert_eq!(browser.complaints(), [""; 0]);
    drop(proxy);

    browser.until(
        "document.body.dataset.link === 'gone' && document.querySelector('#link').textContent === 'not answering'",
    );
    let notice = "document.querySelector('#notice').checkVisibility() && document.querySelector('#notice').textContent";
    browser
        .until(&format!("/^It has not answered for \\d+ s\\. What stands here is from [\\d:]{{8}}\\./.test({notice})"));
    assert_eq!(browser.js("document.title"), "sopan does not answer");
    // What was known stays, readable though grey.
    assert_eq!(browser.js("document.querySelectorAll('.exchanges tbody tr').length"), 5);
    assert_eq!(browser.js(FAINT), json!([]));
    assert_ne!(browser.js("getComputedStyle(document.querySelector('#all')).filter"), "none");

    let proxy = serve(&settings, (&addresses[0], &addresses[1]), &[]);
    browser.until(LIVE);
    browser.until("document.querySelectorAll('.exchanges tbody tr').length === 0");
    let told = Told::by(proxy.admin);
    agrees(&mut browser, &told);
    assert_eq!((browser.js(started), browser.js(notice)), (page, json!(false)));
    // That it could not be reached is all that the browser has to complain of.
    let others: Vec<_> = browser.complaints().into_iter().filter(|text| !text.contains("net::ERR_")).collect();
    assert_eq!(others, [""; 0]);
}

#[test]
fn it_asks_for_the_secret_where_there_is_one_and_keeps_it_in_the_tab() {
    let Some(mut browser) = Browser::start() else { return skipped(NO_BROWSER) };
    let fake = Fake::start(&[]);
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), "correct-horse-battery").unwrap();
    let proxy = serve(&three(&fake), ANY, &["--admin-token-file", secret.path().to_str().unwrap()]);
    browser.open(&format!("http://{}/", proxy.admin));
    let locked = "document.body.dataset.link === 'locked' && document.activeElement.id === 'secret'";
    browser.until(locked);
    assert_eq!(browser.js("document.querySelector('#all').checkVisibility()"), false);
    assert_eq!(browser.js(FAINT), json!([]));
    for wrong in ["wrong-horse-battery", "schlüssel-aus-✨"] {
        browser.type_in(wrong);
        browser.press("Enter");
        browser.until(&format!(
            "{locked} && document.querySelector('#lock-why').textContent === 'That is not the secret.'"
        ));
        assert_eq!(browser.js("sessionStorage.length"), 0);
    }
    browser.type_in("correct-horse-battery");
    browser.press("Enter");
    browser.until(LIVE);
    assert_eq!(browser.js("document.querySelector('#lock').checkVisibility()"), false);
    // The tab knows it, and nothing else does.
    browser.open("about:blank");
    browser.open(&format!("http://{}/", proxy.admin));
    browser.until(LIVE);
    let all = browser
        .js("document.documentElement.outerHTML + location.href + document.cookie + JSON.stringify(localStorage)");
    assert!(!all.as_str().unwrap().contains("correct-horse"), "{all}");
    let others: Vec<_> = browser.complaints().into_iter().filter(|text| !text.contains("401")).collect();
    assert_eq!(others, [""; 0]);
}

/// What the focus is on, and whether one sees that.
const FOCUS: &str = "(() => { const on = document.activeElement; const style = getComputedStyle(on); \
    return [on.id || on.getAttribute('href') || on.tagName, on.tagName === 'BODY' || style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1]; })()";
/// What it must get to.
const REACHABLE: &str = "[...document.querySelectorAll('a, button, input, summary')].filter((element) => element.checkVisibility()) \
    .map((element) => element.id || element.getAttribute('href') || element.tagName)";

#[test]
fn thirty_upstreams_are_read_and_chosen_by_keyboard_in_light_and_dark_and_on_a_phone() {
    let Some(mut browser) = Browser::start() else { return skipped(NO_BROWSER) };
    let fake = Fake::start(&[]);
    let one =
        |number: u32| format!("  api-{number}: {{ url: \"{}\", route: /api-{number}, limits: 10/s }}\n", fake.url(""));
    let proxy = serve(&(0..30).map(one).collect::<String>(), ANY, &[]);
    for number in 0..3 {
        assert_eq!(
            proxy
                .get(&format!("/api-{number}/api/v1/orders?a-long-word-that-cannot-be-broken-anywhere-at-all=1"))
                .status(),
            200
        );
    }
    browser.resize((1280, 900), 1.0);
    browser.open(&format!("http://{}/", proxy.admin));
    browser.until(LIVE);
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        assert_eq!(browser.js(FAINT), json!([]), "{scheme}");
    }
    let mut reached = BTreeSet::new();
    // Once around, to the browser's own buttons and back.
    for _ in 0..60 {
        browser.press("Tab");
        let focus = browser.js(FOCUS);
        assert_eq!(focus[1], true, "one does not see that {} has the focus", focus[0]);
        reached.insert(focus[0].as_str().unwrap().to_owned());
    }
    let all: BTreeSet<_> = serde_json::from_value(browser.js(REACHABLE)).unwrap();
    assert!(all.len() > 34 && all.is_subset(&reached), "{:?} is not reached", all.difference(&reached));

    browser.js("document.querySelector('nav li:nth-of-type(2) a').focus()");
    browser.press("Enter");
    browser.until("document.querySelector('main h2').textContent === 'api-1' && location.hash === '#/api-1'");

    browser.resize((360, 740), 2.0);
    browser.until("!document.querySelector('nav details').open");
    let is_narrow = "document.documentElement.scrollWidth <= 360";
    assert_eq!(browser.js(is_narrow), true);
    browser.js("document.querySelector('nav summary').focus()");
    browser.press("Enter");
    browser.until("document.querySelector('nav details').open");
    assert_eq!(browser.js(is_narrow), true);
    browser.js("document.querySelector('nav li:nth-of-type(30) a').focus()");
    browser.press("Enter");
    browser.until(
        "document.querySelector('main h2').textContent === 'api-29' && !document.querySelector('nav details').open",
    );
    assert_eq!(browser.js("document.querySelector('#others').textContent"), "of 30 upstreams");
    // A single one needs no list.
    let single = serve(&one(0), ANY, &[]);
    browser.open(&format!("http://{}/", single.admin));
    browser.until(LIVE);
    assert_eq!(browser.js("document.querySelector('nav').checkVisibility()"), false);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_thousand_exchanges_a_second_do_not_slow_it() {
    let Some(mut browser) = Browser::start() else { return skipped(NO_BROWSER) };
    let fake = Fake::start(&[]);
    let proxy = serve(&three(&fake).replace("20/s burst 5, 1000 per 1h", "10/s").replace(" 1s ", " 1h "), ANY, &[]);
    // Answered from store, so that it is not the upstream that bounds them.
    assert_eq!(proxy.get("/shop/api/v1/orders?page=1").status(), 200);
    browser.open(&format!("http://{}/#/shop", proxy.admin));
    browser.until(LIVE);
    let told = Told::by(proxy.admin);
    let mut load = Load::start();
    load.add(&proxy, 4, 2, "/shop/api/v1/orders", 1, Duration::ZERO);
    // Others on this machine may take what it needs; then once more.
    let is_kept_up_with = (0..3).any(|_| {
        let (begun, before) = (Instant::now(), load.asked());
        let mut lags = Vec::new();
        for _ in 0..12 {
            std::thread::sleep(Duration::from_millis(400));
            let shown = browser.js("Number(document.querySelector('#number').value)").as_u64().unwrap();
            lags.push(told.newest().unwrap().saturating_sub(shown));
        }
        let per_second = (load.asked() - before) as f64 / begun.elapsed().as_secs_f64();
        lags.sort_unstable();
        println!("{per_second:.0} exchanges a second, and the page is so many states behind: {lags:?}");
        per_second > 1_000.0 && lags[6] <= 1
    });
    assert!(is_kept_up_with);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn numbers_are_written_with_few_digits_and_their_unit() {
    let Some(mut browser) = Browser::start() else { return skipped(NO_BROWSER) };
    let fake = Fake::start(&[]);
    let proxy = serve(&three(&fake), ANY, &[]);
    browser.open(&format!("http://{}/", proxy.admin));
    browser.until(LIVE);
    let cases = [
        ("span", json!(0), "0 s"),
        ("span", json!(0.0004), "1 ms"),
        ("span", json!(0.31), "310 ms"),
        ("span", json!(0.9996), "1.0 s"),
        ("span", json!(9.96), "10 s"),
        ("span", json!(119.6), "2 min"),
        ("span", json!(406.2), "6 min 46 s"),
        ("span", json!(7_199.7), "2 h"),
        ("span", json!(18_730), "5 h 12 min"),
        ("span", json!(273_600), "3 d 4 h"),
        ("span", json!(null), "–"),
        ("left", json!(0.31), "0.3 s"),
        ("left", json!(-1), "0 s"),
        ("left", json!(12.4), "12 s"),
        ("short", json!(8.31), "8.3 s"),
        ("short", json!(1_031), "17 min"),
        ("short", json!(null), "–"),
        ("took", json!(0), "<1 ms"),
        ("waited", json!(0), "–"),
        ("rate", json!(null), "unlimited"),
        ("allowed", json!(null), "at once"),
        ("allowed", json!(0), "0/s"),
        ("rate", json!(0), "0/s"),
        ("rate", json!(0.0115), "41.4/h"),
        ("rate", json!(9.94), "9.9/s"),
        ("rate", json!(9.96), "10/s"),
        ("rate", json!(12_345.6), "12,346/s"),
        ("count", json!(1_234_567), "1,234,567"),
        ("tokens", json!(18.97), "18"),
        ("tokens", json!(-207.3), "0"),
        ("bound", json!(null), "any number"),
        ("bytes", json!(0), "0 B"),
        ("bytes", json!(1_023), "1023 B"),
        ("bytes", json!(1_048_575), "1.0 MiB"),
        ("bytes", json!(268_435_456), "256 MiB"),
        ("percent", json!(0.591), "59 %"),
        ("clock", json!("2026-10-21T11:59:04.900Z"), "11:59:04"),
        ("name", json!("tokens_saved"), "tokens saved"),
        ("story", json!(["attempt 1", "200"]), "attempt 1 · 200"),
        ("text", json!(null), "–"),
    ];
    let asked = json!(cases.iter().map(|(how, value, _)| json!([how, value])).collect::<Vec<_>>());
    let written = browser.js(&format!(
        "import('/dashboard/words.js').then((words) => {asked}.map(([how, value]) => words[how](value)))"
    ));
    for ((how, value, expected), written) in cases.iter().zip(written.as_array().unwrap()) {
        assert_eq!(written, expected, "{how} of {value}");
    }
}

/// With SOPAN_WRITE=1 the pictures of the README are drawn anew: four minutes of a busy day.
#[test]
fn it_has_its_picture_taken() {
    if std::env::var_os("SOPAN_WRITE").is_none() {
        return;
    }
    let Some(mut browser) = Browser::start() else { return skipped(NO_BROWSER) };
    let shop = Fake::start(&["--delay", "60ms", "--delay-jitter", "80ms", "--rate-limit-first", "1"]);
    let other = Fake::start(&["--delay", "20ms"]);
    let settings = format!(
        "  shop: {{ url: \"{0}\", route: /shop, limits: [10/s burst 20, 5000 per 1h], cache: {{ default_ttl: 20s }} }}\n  \
         mail: {{ url: \"{1}\", route: /mail, limits: 100 per 1m }}\n  \
         search: {{ url: \"{1}\", route: /search, limits: 50/s burst 10, cache: {{ default_ttl: 60s }} }}\n  \
         billing: {{ url: \"http://127.0.0.1:1\", route: /billing, limits: 5/s }}\n  \
         geo: {{ url: \"{1}\", route: /geo, limits: unlimited }}\n",
        shop.url(""),
        other.url("")
    );
    let proxy = serve(&settings, ANY, &[]);
    let mut load = Load::start();
    load.add(&proxy, 2, 23, "/search/api/v1/orders", 90, Duration::from_millis(250));
    load.add(&proxy, 1, 23, "/mail/api/v1/orders", 90, Duration::from_millis(900));
    load.add(&proxy, 1, 23, "/geo/api/v1/orders", 90, Duration::from_millis(400));
    load.add(&proxy, 1, 23, "/billing/balance", 9, Duration::from_millis(800));
    load.add(&proxy, 2, 21, "/shop/api/v1/orders", 120, Duration::from_millis(260));
    std::thread::sleep(Duration::from_secs(70));
    load.add(&proxy, 8, 22, "/shop/api/v1/orders", 100_000, Duration::from_millis(400));
    std::thread::sleep(Duration::from_secs(60));
    load.add(&proxy, 6, 24, "/shop/api/v1/orders", 100_000, Duration::from_millis(150));
    std::thread::sleep(Duration::from_secs(40));
    change(proxy.admin, "/upstreams/shop/hold", &json!({"for": "6s"}));
    std::thread::sleep(Duration::from_secs(45));
    change(proxy.admin, "/upstreams/mail/hold", &json!({"for": "90s"}));
    browser.prefer("light");
    browser.resize((1240, 1140), 2.0);
    browser.open(&format!("http://{}/", proxy.admin));
    browser.until(LIVE);
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    fs::create_dir_all(&images).unwrap();
    for (name, scheme, size) in
        [("light", "light", (1240, 1140)), ("dark", "dark", (1240, 1140)), ("phone", "light", (360, 740))]
    {
        browser.prefer(scheme);
        browser.resize(size, 2.0);
        std::thread::sleep(Duration::from_secs(1));
        browser.draw(&images.join(format!("dashboard-{name}.png")));
    }
}
