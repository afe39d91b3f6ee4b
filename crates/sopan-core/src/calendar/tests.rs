use super::*;

fn wall(text: &str) -> SystemTime {
    system_time(text.parse().unwrap())
}

/// At `now` the day is that of `date`, and it is as long as `from` to `to`, all in UTC but the date.
#[track_caller]
fn check(daybreak: &str, now: &str, date: &str, from: &str, to: &str) {
    let day = Daybreak::read(daybreak).unwrap().day(wall(now));
    let shown = |at: SystemTime| timestamp(at).to_string();
    let found = (day.date.to_string(), shown(day.begin), shown(day.end));
    assert_eq!(found, (date.to_owned(), from.to_owned(), to.to_owned()), "{daybreak} at {now}");
}

#[test]
fn a_day_goes_from_its_time_to_that_of_the_next() {
    check("00:00 UTC", "2026-10-21T12:00:00Z", "2026-10-21", "2026-10-21T00:00:00Z", "2026-10-22T00:00:00Z");
    check("00:00 UTC", "2026-10-21T00:00:00Z", "2026-10-21", "2026-10-21T00:00:00Z", "2026-10-22T00:00:00Z");
    check("00:00 UTC", "2026-10-20T23:59:59.999999999Z", "2026-10-20", "2026-10-20T00:00:00Z", "2026-10-21T00:00:00Z");
    let la = "00:00 America/Los_Angeles";
    check(la, "2026-10-21T06:59:59Z", "2026-10-20", "2026-10-20T07:00:00Z", "2026-10-21T07:00:00Z");
    check(la, "2026-10-21T07:00:00Z", "2026-10-21", "2026-10-21T07:00:00Z", "2026-10-22T07:00:00Z");
    // Half and quarter hours.
    let kolkata = "09:30 Asia/Kolkata";
    check(kolkata, "2026-01-01T03:59:59Z", "2025-12-31", "2025-12-31T04:00:00Z", "2026-01-01T04:00:00Z");
    check(kolkata, "2026-01-01T04:00:00Z", "2026-01-01", "2026-01-01T04:00:00Z", "2026-01-02T04:00:00Z");
    let nepal = "00:00 Asia/Kathmandu";
    check(nepal, "2026-02-28T18:15:00Z", "2026-03-01", "2026-02-28T18:15:00Z", "2026-03-01T18:15:00Z");
    // Ends of years, and a leap day.
    let auckland = "00:00 Pacific/Auckland";
    check(auckland, "2026-12-31T10:59:59Z", "2026-12-31", "2026-12-30T11:00:00Z", "2026-12-31T11:00:00Z");
    check(auckland, "2026-12-31T11:00:00Z", "2027-01-01", "2026-12-31T11:00:00Z", "2027-01-01T11:00:00Z");
    check("12:00 UTC", "2028-02-29T11:00:00Z", "2028-02-28", "2028-02-28T12:00:00Z", "2028-02-29T12:00:00Z");
}

#[test]
fn days_on_which_clocks_change_are_as_long_as_they_are() {
    let (york, berlin) = ("00:00 America/New_York", "00:00 Europe/Berlin");
    check(york, "2026-03-08T12:00:00Z", "2026-03-08", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z");
    check(york, "2026-11-01T12:00:00Z", "2026-11-01", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z");
    check(berlin, "2026-03-29T12:00:00Z", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z");
    check(berlin, "2026-10-25T12:00:00Z", "2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z");
    // Long after the tables end the rule that they end with goes on.
    check(berlin, "2126-03-31T12:00:00Z", "2126-03-31", "2126-03-30T23:00:00Z", "2126-03-31T22:00:00Z");
    // Half an hour is put forward and back here.
    let lord_howe = "00:00 Australia/Lord_Howe";
    check(lord_howe, "2026-04-04T20:00:00Z", "2026-04-05", "2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z");
}

#[test]
fn a_time_that_is_skipped_begins_the_day_as_the_clocks_are_put_forward() {
    let york = "02:30 America/New_York";
    check(york, "2026-03-08T06:59:59Z", "2026-03-07", "2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z");
    check(york, "2026-03-08T07:00:00Z", "2026-03-08", "2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z");
    let first = "02:00 America/New_York";
    check(first, "2026-03-08T07:00:00Z", "2026-03-08", "2026-03-08T07:00:00Z", "2026-03-09T06:00:00Z");
    let berlin = "02:59 Europe/Berlin";
    check(berlin, "2026-03-29T01:00:00Z", "2026-03-29", "2026-03-29T01:00:00Z", "2026-03-30T00:59:00Z");
    // Midnight itself was skipped here.
    let cairo = "00:00 Africa/Cairo";
    check(cairo, "2026-04-23T22:00:00Z", "2026-04-24", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z");
    // A whole date was skipped here: the day before it goes over into the day after it.
    let apia = "00:00 Pacific/Apia";
    check(apia, "2011-12-30T09:59:59Z", "2011-12-29", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z");
    check(apia, "2011-12-30T10:00:00Z", "2011-12-31", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z");
}

#[test]
fn a_time_that_comes_twice_begins_the_day_once() {
    let york = "01:30 America/New_York";
    check(york, "2026-11-01T05:29:59Z", "2026-10-31", "2026-10-31T05:30:00Z", "2026-11-01T05:30:00Z");
    for now in ["2026-11-01T05:30:00Z", "2026-11-01T06:00:00Z", "2026-11-01T06:29:59Z", "2026-11-01T06:30:00Z"] {
        check(york, now, "2026-11-01", "2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z");
    }
    let berlin = "02:00 Europe/Berlin";
    check(berlin, "2026-10-25T01:30:00Z", "2026-10-25", "2026-10-25T00:00:00Z", "2026-10-26T01:00:00Z");
    // Clocks went from one past midnight back into the day before.
    let johns = "00:00 America/St_Johns";
    check(johns, "2006-10-29T02:31:30Z", "2006-10-29", "2006-10-29T02:30:00Z", "2006-10-30T03:30:00Z");
    check(johns, "2006-10-29T02:29:59Z", "2006-10-28", "2006-10-28T02:30:00Z", "2006-10-29T02:30:00Z");
}

#[test]
fn every_instant_is_in_its_day_and_days_follow_on_each_other_everywhere() {
    for (i, zone) in TimeZoneDatabase::bundled().available().enumerate() {
        let time = ["00:00", "02:30"][i % 2];
        let Ok(daybreak) = Daybreak::read(&format!("{time} {}", zone.as_str())) else { continue };
        let mut day = daybreak.day(wall("2010-12-31T00:00:00Z"));
        for _ in 0..370 {
            let next = daybreak.day(day.end);
            assert!(next.date > day.date && next.begin == day.end && next.end > next.begin, "{daybreak}: {day:?}");
            let last = daybreak.day(day.end - Duration::from_nanos(1));
            assert_eq!(last, day, "{daybreak}");
            day = next;
        }
    }
}

#[test]
fn clocks_that_show_nonsense_do_no_harm() {
    let daybreak = Daybreak::read("02:30 Europe/Berlin").unwrap();
    let far = Duration::from_secs(u64::MAX >> 2);
    let epoch = SystemTime::UNIX_EPOCH;
    for now in
        [Some(epoch), epoch.checked_add(far), epoch.checked_sub(far), epoch.checked_add(Duration::from_secs(REACH))]
    {
        let Some(now) = now else { continue };
        let day = daybreak.day(now);
        assert!(day.begin < day.end, "{day:?}");
    }
}

#[test]
fn what_is_no_time_in_a_zone_is_refused_with_what_may_have_been_meant() {
    for (text, hint) in [
        ("24:00 UTC", "`24:00` is not a time of day; allowed are 00:00 to 23:59"),
        ("0:00 UTC", "is not a time of day"),
        ("00:60 UTC", "is not a time of day"),
        ("midnight UTC", "is not a time of day"),
        ("+1:-1 UTC", "is not a time of day"),
        ("", "is not a time of day"),
        ("00:00", "write the zone, for example 00:00 UTC or 00:00 America/Los_Angeles"),
        ("00:00  ", "write the zone"),
        (
            "00:00 Los_Angeles",
            "`Los_Angeles` is not a time zone; write its name in the tz database: America/Los_Angeles",
        ),
        ("00:00 los angeles", "America/Los_Angeles"),
        ("00:00 America/Los_Angelos", "America/Los_Angeles"),
        ("00:00 Europe/Berlinn", "Europe/Berlin"),
        ("00:00 Berlin", "Europe/Berlin"),
        ("00:00 Zulu Time Of Nowhere At All", "for example UTC or America/Los_Angeles"),
        ("00:00 Etc/Unknown", "is not a time zone"),
        ("00:00 +02:00", "is not a time zone"),
    ] {
        let error = Daybreak::read(text).expect_err(text).to_string();
        assert!(error.contains(hint), "{text}: {error}");
    }
    let long = Daybreak::read(&format!("00:00 {}", "é".repeat(10_000))).unwrap_err().to_string();
    assert!(long.len() < 300, "{long}");
    assert_eq!(Daybreak::read("09:05  america/new_york").unwrap().to_string(), "09:05 America/New_York");
}

#[test]
fn an_end_is_a_time_or_the_end_of_a_day() {
    for (text, expected) in [
        ("2026-12-31", "2027-01-01T00:00:00Z"),
        ("2028-02-29", "2028-03-01T00:00:00Z"),
        ("2026-12-31T18:00:00+01:00", "2026-12-31T17:00:00Z"),
        ("2026-12-31T18:00:00.5Z", "2026-12-31T18:00:00.5Z"),
        ("2026-12-31t18:00:00z", "2026-12-31T18:00:00Z"),
    ] {
        assert_eq!(read_end(text), Ok(wall(expected)), "{text}");
    }
    for text in [
        "",
        "tomorrow",
        "2026-13-01",
        "2026-02-29",
        "2026-1-1",
        "20261231",
        "2026-12-31T18:00:00",
        "2026-12-31 18:00",
        "1798761600",
    ] {
        let why = read_end(text).unwrap_err().to_string();
        assert!(why.starts_with(&format!("`{text}` is no date; write for example 2026-12-31")), "{why}");
    }
}
