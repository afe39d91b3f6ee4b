use super::*;
use sopan_core::journal::Left;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::SystemTime;
use tempfile::TempDir;

const LIMIT: &str = "100 per 30d";

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    (dir, path)
}

fn open(path: &Path) -> Result<StateFile, StateError> {
    StateFile::open(path, Clock::system())
}

fn sliding(left: &[(u64, u64)], may: u64) -> Note {
    let left = left.iter().map(|(ago, turns)| Left { ago: Duration::from_secs(*ago), turns: *turns });
    Note::Sliding { limit: LIMIT.into(), left: left.collect(), may }
}

fn titles(limits: &[&str]) -> BTreeSet<String> {
    limits.iter().map(|limit| (*limit).to_owned()).collect()
}

/// How many turns of an upstream the file knows.
fn turns(file: &StateFile, upstream: &str) -> u64 {
    let notes = file.upstream(upstream).restore(&titles(&[LIMIT]));
    let sum = |note: &Note| match note {
        Note::Sliding { left, may, .. } => left.iter().map(|left| left.turns).sum::<u64>() + may,
        _ => 0,
    };
    notes.iter().map(sum).sum()
}

#[test]
fn what_is_written_is_known_to_the_next_process() {
    let (_dir, path) = place();
    let file = open(&path).unwrap();
    let shop = file.upstream("shop");
    let date = |day| sopan_core::calendar::Date::new(2026, 10, day).unwrap();
    let written = vec![
        sliding(&[(50, 3), (20, 1)], 2),
        Note::Calendar {
            limit: "5 per day at 00:00 UTC".into(),
            days: vec![(date(21), 4), (date(20), 5)],
            today: date(21),
            may: 1,
        },
        Note::Hold { left: Duration::from_secs(90) },
        Note::Breaker { open_for: Some(Duration::from_secs(40)) },
    ];
    shop.write(&mut written.clone());
    drop((file, shop));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    for _ in 0..3 {
        let mut file = open(&path).unwrap();
        let read = file.upstream("shop").restore(&titles(&[LIMIT, "5 per day at 00:00 UTC"]));
        let [
            Note::Sliding { left, may, .. },
            calendar,
            Note::Hold { left: hold },
            Note::Breaker { open_for: Some(open) },
        ] = &read[..]
        else {
            panic!("{read:?}")
        };
        let near = |span: Duration, seconds: u64| {
            assert!(span.abs_diff(Duration::from_secs(seconds)) < Duration::from_secs(20))
        };
        assert_eq!((left[0].turns, left[1].turns, *may, calendar), (3, 1, 2, &written[1]));
        near(left[0].ago, 50);
        near(left[1].ago, 20);
        near(*hold, 90);
        near(*open, 40);
        // Written anew it says the same.
        file.begin().unwrap();
    }
}

#[test]
fn a_file_that_is_not_ours_alone_is_refused_and_left_as_it_is() {
    let (dir, path) = place();
    for (text, hint) in [
        ("hello\n", "is not a state file of sopan"),
        ("{\"upstreams\":{}}\n", "is not a state file of sopan"),
        ("\n", "is not a state file of sopan"),
        ("{\"sopan_state\":2}\n{}\n", "has form 2, and this sopan knows form 1"),
    ] {
        fs::write(&path, text).unwrap();
        let error = open(&path).unwrap_err().to_string();
        assert!(error.contains(hint) && error.contains(path.to_str().unwrap()), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    let nowhere = dir.path().join("none/state");
    for (path, hint) in [
        (
            nowhere.as_path(),
            "No such file or directory (os error 2); name a file that sopan may create and write, in a directory that is",
        ),
        (dir.path(), "cannot be opened: Is a directory"),
        (Path::new("/dev/full"), "is not a state file of sopan"),
        (&path.join("below"), "cannot be opened: Not a directory"),
    ] {
        let error = open(path).unwrap_err().to_string();
        assert!(error.contains(hint), "{error}");
    }
    fs::remove_file(&path).unwrap();
    let mut first = open(&path).unwrap();
    for _ in 0..2 {
        let error = open(&path).unwrap_err().to_string();
        assert!(error.contains("is used by another sopan"), "{error}");
        // Also the one that took its place is locked.
        first.begin().unwrap();
    }
    drop(first);
    open(&path).unwrap();
}

#[test]
fn a_place_where_the_file_cannot_be_replaced_is_refused_at_the_start() {
    let (_dir, path) = place();
    fs::create_dir(path.with_file_name("state.sopan-new")).unwrap();
    let mut file = open(&path).unwrap();
    turns(&file, "shop");
    file.upstream("shop").write(&mut vec![sliding(&[(0, 1)], 0)]);
    let error = file.begin().unwrap_err().to_string();
    assert!(error.contains("cannot be written anew") && error.contains("in its directory"), "{error}");
    drop(file);
    assert_eq!(turns(&open(&path).unwrap(), "shop"), 1, "nothing is lost");
}

#[test]
fn a_line_that_is_torn_is_passed_over_and_the_rest_counts() {
    let (_dir, path) = place();
    let file = open(&path).unwrap();
    let shop = file.upstream("shop");
    for _ in 0..3 {
        shop.write(&mut vec![sliding(&[(0, 1)], 0)]);
    }
    drop((file, shop));
    let whole = fs::read(&path).unwrap();
    let last = whole.len() - whole.split_inclusive(|b| *b == b'\n').next_back().unwrap().len();
    for cut in last..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let file = open(&path).unwrap();
        // Without its end of line it is whole all the same.
        let expected = if cut + 1 >= whole.len() { 3 } else { 2 };
        assert_eq!(turns(&file, "shop"), expected, "cut at {cut} of {}", whole.len());
        file.upstream("shop").write(&mut vec![sliding(&[(0, 10)], 0)]);
        drop(file);
        assert_eq!(turns(&open(&path).unwrap(), "shop"), expected + 10, "cut at {cut}");
    }
    // Before the first line was on the disk.
    for text in [&b""[..], b"{\"sopan_", &[0; 80]] {
        fs::write(&path, text).unwrap();
        assert_eq!(turns(&open(&path).unwrap(), "shop"), 0);
        assert!(fs::read(&path).unwrap().starts_with(b"{\"sopan_state\":1}\n"));
    }
}

#[test]
fn within_a_boot_its_clock_counts_and_beyond_it_that_on_the_wall() {
    const S: i64 = 1_000_000_000;
    let now = Stamp { wall: 10_000 * S, boot: Some(500 * S) };
    let other = Stamp { boot: None, ..now };
    for (process, then, now, ago) in [
        // The clock on the wall was put forward by hours, and back.
        (Some("this"), (2_000, Some(440)), now, 60),
        (Some("this"), (20_000, Some(440)), now, 60),
        (Some("this"), (9_990, Some(999)), now, 0),
        (Some("that"), (9_940, Some(440)), now, 60),
        (Some("that"), (9_940, Some(9_999)), now, 60),
        (Some("that"), (8_000, Some(1)), now, 2_000),
        (Some("that"), (20_000, Some(1)), now, 0),
        (None, (9_940, None), now, 60),
        (Some("this"), (9_940, Some(440)), other, 60),
    ] {
        let said = Stamp { wall: then.0 * S, boot: then.1.map(|boot| boot * S) };
        let text =
            [lines::header(), lines::process(process), lines::line("shop", &[sliding(&[(0, 7)], 0)], said)].concat();
        let known = lines::read(&text, Some("this"), now).unwrap();
        assert_eq!(known.ledgers["shop"].notes(now.tick()), [sliding(&[(ago, 7)], 0)], "{process:?} {then:?}");
    }
}

#[test]
fn a_file_that_has_grown_is_written_anew_while_others_append() {
    let (_dir, path) = place();
    let mut file = open(&path).unwrap();
    for name in ["shop", "mail"] {
        file.upstream(name).write(&mut vec![sliding(&[(0, 1)], 0)]);
        turns(&file, name);
    }
    file.begin().unwrap();
    std::thread::scope(|scope| {
        for name in ["shop", "mail"] {
            let handle = file.upstream(name);
            scope.spawn(move || (0..10_000).for_each(|_| handle.write(&mut vec![sliding(&[(0, 1)], 0)])));
        }
        for _ in 0..5 {
            file.shared.write_anew().unwrap();
        }
    });
    file.shared.tend();
    assert!(fs::metadata(&path).unwrap().len() < SIZE_MAX, "what was added up is not kept twice");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft is left");
    drop(file);
    let file = open(&path).unwrap();
    assert_eq!((turns(&file, "shop"), turns(&file, "mail")), (10_001, 10_001));
}

#[test]
fn upstreams_and_limits_that_are_gone_are_forgotten() {
    let (_dir, path) = place();
    let file = open(&path).unwrap();
    for name in ["shop", "mail", "gone"] {
        file.upstream(name).write(&mut vec![sliding(&[(0, 5)], 0)]);
    }
    drop(file);
    let mut file = open(&path).unwrap();
    assert_eq!(turns(&file, "shop"), 5);
    assert_eq!(file.upstream("mail").restore(&titles(&["50 per 30d"])), []);
    file.begin().unwrap();
    drop(file);
    let file = open(&path).unwrap();
    assert_eq!(["shop", "mail", "gone"].map(|name| turns(&file, name)), [5, 0, 0]);
}

#[test]
fn a_disk_that_takes_nothing_stops_nobody_and_is_made_up_for() {
    let (_dir, path) = place();
    let mut file = open(&path).unwrap();
    turns(&file, "shop");
    let shop = file.upstream("shop");
    // It is looked after by hand here.
    file.shared.write_anew().unwrap();
    shop.write(&mut vec![sliding(&[(0, 1)], 0)]);
    file.shared.inner.lock().file = Arc::new(File::open(&path).unwrap());
    for _ in 0..3 {
        shop.write(&mut vec![sliding(&[(0, 1)], 0)]);
    }
    assert!(file.shared.inner.lock().trouble.error.is_some());
    file.shared.tend();
    shop.write(&mut vec![sliding(&[(0, 1)], 0)]);
    file.keeper = None;
    drop((file, shop));
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(turns(&open(&path).unwrap(), "shop"), 5, "{text}");
}

#[test]
fn a_file_that_is_taken_away_or_cut_is_written_anew() {
    let (dir, path) = place();
    for (what, harm) in [
        ("removed", (|path| fs::remove_file(path).unwrap()) as fn(&Path)),
        ("cut", |path| fs::write(path, "").unwrap()),
    ] {
        let mut file = open(&path).unwrap();
        let before = turns(&file, "shop");
        file.begin().unwrap();
        let shop = file.upstream("shop");
        shop.write(&mut vec![sliding(&[(0, 3)], 0)]);
        harm(&path);
        shop.write(&mut vec![sliding(&[(0, 2)], 0)]);
        file.shared.tend();
        // As after a crash: nothing is seen to any more.
        let copy = dir.path().join("copy");
        fs::copy(&path, &copy).unwrap();
        assert_eq!(turns(&open(&copy).unwrap(), "shop"), before + 5, "{what}");
        assert!(matches!(open(&path), Err(StateError::Locked { .. })), "{what}: it is ours alone");
        // Nobody writes after this, and it is seen to at the end.
        harm(&path);
        drop((file, shop));
        assert_eq!(turns(&open(&path).unwrap(), "shop"), before + 5, "{what} at the end");
    }
}

#[test]
fn a_file_that_has_taken_the_name_is_left_as_it_is() {
    let (dir, path) = place();
    let mut file = open(&path).unwrap();
    turns(&file, "shop");
    file.begin().unwrap();
    let shop = file.upstream("shop");
    let other = dir.path().join("other");
    fs::write(&other, "mine").unwrap();
    fs::rename(&other, &path).unwrap();
    shop.write(&mut vec![sliding(&[(0, 1)], 0)]);
    let error = file.shared.write_anew().unwrap_err().to_string();
    assert!(error.contains("another file has its name"), "{error}");
    file.shared.tend();
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    // It comes back when the name is free.
    fs::remove_file(&path).unwrap();
    file.shared.tend();
    drop((file, shop));
    assert_eq!(turns(&open(&path).unwrap(), "shop"), 1);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no draft is left");
}

#[test]
fn a_file_that_cannot_be_written_anew_does_not_grow_for_ever() {
    let (_dir, path) = place();
    let file = open(&path).unwrap();
    turns(&file, "shop");
    let shop = file.upstream("shop");
    file.shared.inner.lock().len = 16 * SIZE_MAX + 1;
    let before = fs::metadata(&path).unwrap().len();
    shop.write(&mut vec![sliding(&[(0, 1)], 0)]);
    assert_eq!(fs::metadata(&path).unwrap().len(), before);
    assert!(file.shared.inner.lock().trouble.error.is_some());
    file.shared.tend();
    drop((file, shop));
    assert_eq!(turns(&open(&path).unwrap(), "shop"), 1, "nothing is lost once it can be");
}

#[test]
fn trouble_is_told_at_first_then_every_ten_seconds_and_when_it_is_over() {
    let mut trouble = Trouble::default();
    let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
    trouble.is_over = true;
    assert!(trouble.news(at(0)).is_none(), "there was none");
    for (seconds, told) in [(1, true), (2, false), (10, false), (11, true), (12, false)] {
        trouble.error = Some(io::ErrorKind::StorageFull.into());
        assert_eq!(trouble.news(at(seconds)).is_some(), told, "{seconds} s");
    }
    trouble.is_over = true;
    assert!(matches!(trouble.news(at(13)), Some(News::Mended)));
    trouble.is_over = true;
    assert!(trouble.news(at(14)).is_none());
}

#[test]
fn a_paused_clock_has_no_boot() {
    let clock = Clock::paused(SystemTime::UNIX_EPOCH + Duration::from_secs(7));
    let stamp = Stamp::of(clock);
    assert_eq!((stamp.boot, stamp.tick() / 1_000_000_000), (None, 7));
}
