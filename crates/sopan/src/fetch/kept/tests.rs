use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rusqlite::Connection;
use sopan_core::pages::Pointer;
use tempfile::TempDir;

use super::media::fuse;
use super::*;

const PAGES: u64 = 6;
/// More changes than any run makes.
const MANY: u64 = 1 << 32;

fn job(records: &str) -> JobDigest {
    JobDigest([("--records".to_owned(), records.to_owned())].into())
}

fn place(directory: &TempDir, name: &str) -> Place {
    Place { out: directory.path().join(name), job: job("/data") }
}

/// What a page brings; every third one sets something aside, and the fourth has nothing good.
fn page(number: u64) -> (String, String, Stand) {
    let lines = if number == 4 {
        String::new()
    } else {
        (1..=3).map(|row| format!("{{\"id\":{number}{row},\"sum\":{row}.50}}\n")).collect()
    };
    let rejects = if number.is_multiple_of(3) { format!("{{\"id\":\"{number}\"}}\n") } else { String::new() };
    let stand = Stand {
        page: number,
        next: (number < PAGES).then(|| format!("http://a.test/?page={}", number + 1)),
        size: 3,
        asked: (number < PAGES).then_some(number + 1),
        records: number * 3 - if number >= 4 { 3 } else { 0 },
        rejects: number / 3,
        mark: Some(format!("mark-{number}")),
        shape: (number == 2).then(|| "{}".to_owned()),
        ..Stand::default()
    };
    (lines, rejects, stand)
}

/// A run: how many pages it asked for, and whether it came to its end.
fn run(place: &Place, sink: &Sink) -> (u64, Option<Done>) {
    let Ok((mut kept, stand)) = Kept::open(place, false) else { return (0, None) };
    let mut at = stand.as_ref().map_or(1, |stand| stand.page + 1);
    let mut asked = 0;
    if let Some(stand) = &stand {
        let known: BTreeSet<_> = kept.asked().unwrap().into_iter().collect();
        assert_eq!(known, (2..=stand.page + 1).take_while(|page| *page <= PAGES).collect());
        assert_eq!(stand.shape.is_some(), stand.page >= 2);
    }
    while at <= PAGES && stand.as_ref().is_none_or(|stand| stand.next.is_some()) {
        asked += 1;
        let (lines, rejects, stand) = page(at);
        if at.is_multiple_of(2) {
            kept.synced -= SYNC_EVERY;
        }
        if kept.page(lines.as_bytes(), rejects.as_bytes(), &stand).is_err() {
            return (asked, None);
        }
        at += 1;
    }
    (asked, kept.finish(sink, &Progress::default()).ok())
}

/// What is there then: of a database its rows, and of the rest the bytes.
fn result(place: &Place) -> Vec<(String, Vec<u8>)> {
    let directory = place.out.parent().unwrap();
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let content = |path: &PathBuf| {
        if path.extension().is_some_and(|ending| ending == "db") {
            let database = Connection::open(path).unwrap();
            let mut rows = database.prepare("SELECT id, sum FROM records ORDER BY id").unwrap();
            let rows = rows.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, f64>(1)?))).unwrap();
            format!("{:?}", rows.collect::<Result<Vec<_>, _>>().unwrap()).into_bytes()
        } else if path.extension().is_some_and(|ending| ending == "state") {
            Vec::new()
        } else {
            fs::read(path).unwrap()
        }
    };
    files.iter().map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), content(path))).collect()
}

#[test]
fn cut_off_at_any_change_a_run_ends_as_one_that_was_not() {
    for name in ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.parquet", "a.db"] {
        let sink = Sink::of(Path::new(name), "records", &[]).unwrap();
        let whole = tempfile::tempdir().unwrap();
        fuse::set(Some(MANY));
        let (asked, done) = run(&place(&whole, name), &sink);
        // What comes before the last page has nothing to do with the sink.
        let begin = if sink == Sink::Lines { 0 } else { fuse::burnt(MANY) / 2 };
        fuse::set(None);
        assert_eq!((asked, done.unwrap().records), (PAGES, 15), "{name}");
        let whole = result(&place(&whole, name));
        assert_eq!(
            whole.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            [name.to_owned(), format!("{name}.rejects.jsonl"), format!("{name}.state")]
        );
        for cut in begin.. {
            let directory = tempfile::tempdir().unwrap();
            let place = place(&directory, name);
            fuse::set(Some(cut));
            let (before, done) = run(&place, &sink);
            let is_cut = fuse::is_burnt();
            fuse::set(None);
            if !is_cut {
                assert!(done.is_some() && cut > 50, "{name}: {cut} changes");
                break;
            }
            let is_new = Kept::open(&place, false).unwrap().0.past().is_some();
            if is_new {
                // It came to its end, and only did not clear up.
                let result = result(&place);
                assert!(whole.iter().all(|file| result.contains(file)), "{name}, cut at {cut}");
                continue;
            }
            let (after, done) = run(&place, &sink);
            assert!(done.is_some(), "{name}, cut at {cut}");
            assert!(before + after <= PAGES + 1, "{name}, cut at {cut}: {before} and {after} pages");
            assert_eq!(result(&place), whole, "{name}, cut at {cut}");
        }
    }
}

#[test]
fn after_a_power_cut_the_newest_page_counts_that_is_there() {
    type Damage = fn(&Path, u64);
    let cut: Damage = |path, bytes| fs::File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
    let zero: Damage = |path, from| {
        let mut all = fs::read(path).unwrap();
        all[usize::try_from(from).unwrap()..].fill(0);
        fs::write(path, all).unwrap();
    };
    // Two pages are synced, of 63 bytes each; then come a third and a fourth one, the fourth without a record.
    let cases: [(&str, Damage, u64, u64); 8] = [
        ("", |_, _| (), 0, 4),
        (".part", cut, 189, 4),
        (".part", cut, 188, 2),
        (".part", zero, 185, 2),
        (".rejects.jsonl.part", cut, 1, 2),
        (".trail", cut, 0, 2),
        (".trail", cut, 20, 2),
        (".trail", zero, 250, 3),
    ];
    for (ending, damage, at, page_then) in cases {
        let directory = tempfile::tempdir().unwrap();
        let place = place(&directory, "a.jsonl");
        let (mut kept, _) = Kept::open(&place, false).unwrap();
        for number in 1..=4 {
            let (lines, rejects, stand) = page(number);
            kept.page(lines.as_bytes(), rejects.as_bytes(), &stand).unwrap();
            if number == 2 {
                kept.sync().unwrap();
            }
        }
        let trail = fs::read_to_string(place.beside(".trail")).unwrap();
        assert!((21..250).contains(&trail.find('\n').unwrap()), "{trail}");
        fuse::set(Some(0));
        drop(kept);
        fuse::set(None);
        damage(&place.beside(ending), at);
        let (mut kept, stand) = Kept::open(&place, false).unwrap();
        assert_eq!(stand.unwrap().page, page_then, "{ending} at {at}");
        // What is kept from there on is not lost behind what the cut left.
        let (lines, rejects, stand) = page(page_then + 1);
        kept.page(lines.as_bytes(), rejects.as_bytes(), &stand).unwrap();
        fuse::set(Some(0));
        drop(kept);
        fuse::set(None);
        let (kept, stand) = Kept::open(&place, false).unwrap();
        assert_eq!(stand.unwrap().page, page_then + 1, "{ending} at {at}, and a page after it");
        drop(kept);
        let (asked, done) = run(&place, &Sink::Lines);
        assert_eq!((asked, done.unwrap().records), (PAGES - page_then - 1, 15));
        let lines: String = (1..=PAGES).map(|number| page(number).0).collect();
        assert_eq!(fs::read_to_string(&place.out).unwrap(), lines);
    }
}

/// As after a mistyped password: the next run may ask for something else.
#[test]
fn a_run_that_kept_no_page_holds_nobody_up() {
    let directory = tempfile::tempdir().unwrap();
    let first = place(&directory, "a.jsonl");
    let other = Place { job: job("/items"), ..first.clone() };
    drop(Kept::open(&first, false).unwrap());
    assert_eq!(Kept::open(&other, false).unwrap().1, None);
    let (_, done) = run(&other, &Sink::Lines);
    assert!(done.is_some());
}

#[test]
fn what_is_anothers_is_refused_and_restart_forgets_it() {
    let directory = tempfile::tempdir().unwrap();
    let first = place(&directory, "a.jsonl");
    let other = Place { job: job("/items"), ..first.clone() };
    let (mut kept, stand) = Kept::open(&first, false).unwrap();
    assert_eq!(stand, None);
    let taken = Kept::open(&first, true).unwrap_err().to_string();
    assert!(taken.starts_with("another run writes to `"), "{taken}");
    let (lines, rejects, stand) = page(1);
    kept.page(lines.as_bytes(), rejects.as_bytes(), &stand).unwrap();
    drop(kept);
    let refused = Kept::open(&other, false).unwrap_err().to_string();
    assert!(refused.contains("--records is `/items`, was `/data`; name another output"), "{refused}");
    assert_eq!(Kept::open(&first, false).unwrap().1, Some(stand));
    for secret in [".state", ".trail"] {
        let mode = fs::metadata(first.beside(secret)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{secret}");
    }
    let (kept, stand) = Kept::open(&other, true).unwrap();
    assert_eq!((stand, fs::read(other.beside(".part")).unwrap()), (None, Vec::new()));
    drop(kept);
    // Now there is a whole run of that job, whose mark the next one needs.
    let (_, done) = run(&other, &Sink::Lines);
    assert!(done.is_some());
    let past = Kept::open(&other, false).unwrap().0.past().cloned().unwrap();
    assert_eq!((past.pages, past.records, past.mark.as_deref()), (PAGES, 15, Some("mark-6")));
    assert!(matches!(Kept::open(&first, false), Err(KeptError::OtherJob { .. })));
    assert_eq!(Kept::open(&first, true).unwrap().0.past(), None);
}

#[test]
fn what_cannot_be_understood_is_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let place = place(&directory, "a.jsonl");
    fs::write(place.beside(".state"), "not ours").unwrap();
    let refused = Kept::open(&place, false).unwrap_err().to_string();
    assert!(refused.contains("it is no state of sopan; begin anew with --restart"), "{refused}");
    assert_eq!(fs::read(place.beside(".state")).unwrap(), b"not ours");
    let (mut kept, _) = Kept::open(&place, true).unwrap();
    let (lines, rejects, stand) = page(1);
    kept.page(lines.as_bytes(), rejects.as_bytes(), &stand).unwrap();
    drop(kept);
    fs::write(place.beside(".part"), "short").unwrap();
    let refused = Kept::open(&place, false).unwrap_err().to_string();
    assert!(refused.contains("had 63 bytes when it was written, and has 5; begin anew"), "{refused}");
    std::os::unix::fs::symlink("/dev/null", directory.path().join("b.jsonl.part")).unwrap();
    let linked = Place { out: directory.path().join("b.jsonl"), ..place.clone() };
    assert!(matches!(Kept::open(&linked, false), Err(KeptError::Io { .. })));
    let folder = Place { out: directory.path().to_owned(), ..place };
    assert!(matches!(Kept::open(&folder, false), Err(KeptError::Io { .. })));
}

#[test]
fn an_output_that_cannot_be_made_costs_no_page() {
    let directory = tempfile::tempdir().unwrap();
    let place = place(&directory, "a.db");
    let sink = |key: &str| Sink::of(&place.out, "records", &[key.parse::<Pointer>().unwrap()]).unwrap();
    let (asked, done) = run(&place, &sink("/number"));
    assert_eq!((asked, done), (PAGES, None));
    let (asked, done) = run(&place, &sink("/id"));
    assert_eq!((asked, done.unwrap().records), (0, 15));
}
