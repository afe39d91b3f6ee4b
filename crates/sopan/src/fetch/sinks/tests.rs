use std::fs;
use std::io::Read as _;

use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;

/// A column for each rule by which its type is found.
const RECORDS: &str = r#"{"id":1,"is":true,"sum":1.50,"name":"a\u00e9","long":9007199254740993,"tags":[1, 2],"any":1,"none":null}
{"id":2,"is":null,"sum":2,"name":"","long":0.5,"tags":{"a":"b"},"any":"x","ID":7}
{"id":3,"sum":-1e3,"long":1,"exact":0.1000000000000000055511151231257827}
"#;

struct Bench {
    directory: TempDir,
    progress: Progress,
}

impl Bench {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), progress: Progress::default() }
    }

    fn out(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The bytes that were made, of what is no database.
    fn make(&self, sink: &Sink, name: &str, records: &str) -> Result<Option<Vec<u8>>, SinkError> {
        let part = self.out("part");
        fs::write(&part, records).unwrap();
        let made = sink.make(&part, &self.out(name), &self.progress)?;
        Ok(made.map(|draft| fs::read(draft).unwrap()))
    }
}

fn sqlite(key: &[&str]) -> Sink {
    Sink::Sqlite { table: "a \"b\"".to_owned(), key: key.iter().map(|key| key.parse().unwrap()).collect() }
}

/// The rows of the table as SQL would write them, and how its columns are declared.
fn rows(bench: &Bench) -> (String, Vec<String>) {
    let database = Connection::open(bench.out("a.db")).unwrap();
    let mut columns = database.prepare("SELECT name, type FROM pragma_table_info('a \"b\"')").unwrap();
    let columns: Vec<(String, String)> =
        columns.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().collect::<Result<_, _>>().unwrap();
    let quoted: Vec<_> = columns.iter().map(|(name, _)| format!("quote(\"{name}\")")).collect();
    let all = format!("SELECT {} FROM \"a \"\"b\"\"\" ORDER BY 1", quoted.join("||' '||"));
    let mut rows = database.prepare(&all).unwrap();
    let rows = rows.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    (columns.into_iter().map(|(name, kind)| format!("{name} {kind}")).collect::<Vec<_>>().join(", "), rows)
}

#[test]
fn a_name_says_what_it_is_to_be() {
    let of = |name: &str| Sink::of(Path::new(name), "t", &[]);
    for (name, sink) in [
        ("a.jsonl", Sink::Lines),
        ("a.NDJSON", Sink::Lines),
        ("d/a.jsonl.gz", Sink::Gzip),
        ("a.jsonl.zst", Sink::Zstd),
        ("a.parquet", Sink::Parquet),
        ("a.db", Sink::Sqlite { table: "t".to_owned(), key: Vec::new() }),
    ] {
        assert_eq!(of(name), Ok(sink), "{name}");
    }
    for name in ["a", "a.csv", "a.gz", "a.db/"] {
        assert_eq!(of(name).is_err(), name != "a.db/", "{name}");
    }
    let deep = Sink::of(Path::new("a.db"), "t", &["/a/b".parse().unwrap()]).unwrap_err().to_string();
    assert_eq!(deep, "--key /a/b: a key is a field of the record itself, such as `/id`");
}

#[test]
fn compressed_lines_are_the_lines() {
    let bench = Bench::new();
    let gzip = bench.make(&Sink::Gzip, "a.jsonl.gz", RECORDS).unwrap().unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&gzip[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, RECORDS);
    let zstd = bench.make(&Sink::Zstd, "a.jsonl.zst", RECORDS).unwrap().unwrap();
    assert_eq!(zstd::decode_all(&zstd[..]).unwrap(), RECORDS.as_bytes());
    for (sink, made) in [(Sink::Gzip, gzip), (Sink::Zstd, zstd)] {
        assert_eq!(bench.make(&sink, "b", RECORDS).unwrap().unwrap(), made);
    }
}

#[test]
fn a_parquet_file_has_a_typed_column_for_each_field() {
    let bench = Bench::new();
    let made = bench.make(&Sink::Parquet, "a.parquet", RECORDS).unwrap().unwrap();
    let file = SerializedFileReader::new(bytes::Bytes::from(made)).unwrap();
    let schema = file.metadata().file_metadata().schema_descr();
    let types: Vec<_> = schema
        .columns()
        .iter()
        .map(|column| format!("{} {:?} {:?}", column.name(), column.physical_type(), column.logical_type_ref()))
        .collect();
    assert_eq!(
        types,
        [
            "id INT64 None",
            "is BOOLEAN None",
            "sum DOUBLE None",
            "name BYTE_ARRAY Some(String)",
            "long BYTE_ARRAY Some(String)",
            "tags BYTE_ARRAY Some(String)",
            "any BYTE_ARRAY Some(String)",
            "none BYTE_ARRAY Some(String)",
            "ID INT64 None",
            "exact BYTE_ARRAY Some(String)",
        ]
    );
    let rows: Vec<_> = file.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    assert_eq!(
        rows,
        [
            r#"{id: 1, is: true, sum: 1.5, name: "aé", long: "9007199254740993", tags: "[1, 2]", any: "1", none: null, ID: null, exact: null}"#,
            r#"{id: 2, is: null, sum: 2.0, name: "", long: "0.5", tags: "{"a":"b"}", any: ""x"", none: null, ID: 7, exact: null}"#,
            r#"{id: 3, is: null, sum: -1E3, name: null, long: "1", tags: null, any: null, none: null, ID: null, exact: "0.1000000000000000055511151231257827"}"#,
        ]
    );
}

#[test]
fn a_parquet_file_has_as_many_groups_as_memory_asks_for() {
    let bench = Bench::new();
    let records: String = (0..1000).map(|id| format!("{{\"id\":{id},\"text\":\"t{id}\"}}\n")).collect();
    fs::write(bench.out("part"), &records).unwrap();
    let lines = Lines { part: &bench.out("part"), out: &bench.out("a"), progress: &bench.progress };
    let write = |lines: &Lines<'_>, draft: &mut Media| parquet::write_in_groups(lines, draft, 8_000);
    let draft = lines.write_draft(bench.out("draft"), write).unwrap();
    let file = SerializedFileReader::new(File::open(draft).unwrap()).unwrap();
    assert!(file.num_row_groups() > 5, "{}", file.num_row_groups());
    let rows: Vec<_> = file.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    let expected: Vec<_> = (0..1000).map(|id| format!("{{id: {id}, text: \"t{id}\"}}")).collect();
    assert_eq!(rows, expected);
    assert_eq!(bench.progress.records.load(Ordering::Relaxed), 1000);
}

#[test]
fn without_a_key_a_table_is_made_anew() {
    let bench = Bench::new();
    for _ in 0..2 {
        bench.make(&sqlite(&[]), "a.db", RECORDS).unwrap();
        let (columns, rows) = rows(&bench);
        assert_eq!(
            columns,
            "id INTEGER, is BOOLEAN, sum REAL, name TEXT, long TEXT, tags TEXT, any TEXT, none , ID_2 INTEGER, exact TEXT"
        );
        assert_eq!(
            rows,
            [
                "1 1 1.5 'aé' '9007199254740993' '[1, 2]' '1' NULL NULL NULL",
                "2 NULL 2.0 '' '0.5' '{\"a\":\"b\"}' '\"x\"' NULL 7 NULL",
                "3 NULL -1000.0 NULL '1' NULL NULL NULL NULL '0.1000000000000000055511151231257827'",
            ]
        );
    }
    bench.make(&sqlite(&[]), "a.db", "").unwrap();
    assert_eq!(rows(&bench), ("value ".to_owned(), Vec::new()));
    bench.make(&sqlite(&[]), "a.db", "[1]\n\"x\"\n").unwrap();
    assert_eq!(rows(&bench), ("value TEXT".to_owned(), vec!["'\"x\"'".to_owned(), "'[1]'".to_owned()]));
}

#[test]
fn with_a_key_a_record_takes_the_place_of_its_elder() {
    let bench = Bench::new();
    let put = |records: &str| bench.make(&sqlite(&["/id"]), "a.db", records).map(drop);
    put("{\"id\":1,\"name\":\"a\",\"later\":null}\n{\"id\":2,\"name\":\"b\"}\n{\"id\":2,\"name\":\"c\"}\n").unwrap();
    assert_eq!(
        rows(&bench),
        ("id INTEGER, name TEXT, later ".to_owned(), vec!["1 'a' NULL".to_owned(), "2 'c' NULL".to_owned()])
    );
    // A column that is new, one of which nothing was known, and numbers where there was text.
    for _ in 0..2 {
        put("{\"id\":2,\"name\":1.10,\"later\":5,\"new\":true}\n{\"id\":3,\"name\":null}\n").unwrap();
        assert_eq!(
            rows(&bench),
            (
                "id INTEGER, name TEXT, later , new BOOLEAN".to_owned(),
                vec!["1 'a' NULL NULL".to_owned(), "2 '1.10' 5 1".to_owned(), "3 NULL NULL NULL".to_owned()]
            )
        );
    }
    // Doubles, where a whole number goes that a double keeps.
    put("{\"id\":1,\"sum\":1.5}\n").unwrap();
    put("{\"id\":2,\"sum\":9007199254740992}\n").unwrap();
    let before = rows(&bench);
    assert!(before.0.ends_with(", sum REAL"), "{before:?}");
    for (records, why) in [
        ("{\"id\":3,\"sum\":9007199254740993}\n", "column `sum` of table `a \"b\"` is one of numbers"),
        ("{\"id\":\"0012\"}\n", "column `id` of table `a \"b\"` is one of numbers"),
        ("{\"id\":9}\n{\"name\":\"a\"}\n", "record 2 does not fit into"),
    ] {
        let error = put(records).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(rows(&bench), before);
    }
    put("").unwrap();
    assert_eq!(rows(&bench), before);
}

#[test]
fn a_key_can_have_parts_and_be_all_there_is() {
    let bench = Bench::new();
    let records = "{\"a\":1,\"b\":\"x\"}\n{\"a\":1,\"b\":\"y\"}\n{\"a\":1,\"b\":\"x\"}\n";
    bench.make(&sqlite(&["/a", "/b"]), "a.db", records).unwrap();
    assert_eq!(rows(&bench).1, ["1 'x'", "1 'y'"]);
}

#[test]
fn a_database_of_another_program_is_waited_for_and_not_harmed() {
    let bench = Bench::new();
    let other = Connection::open(bench.out("a.db")).unwrap();
    other.execute_batch("CREATE TABLE theirs (x); BEGIN IMMEDIATE").unwrap();
    let busy = bench.make(&sqlite(&[]), "a.db", RECORDS).unwrap_err();
    assert!(matches!(busy, SinkError::Busy(_)), "{busy}");
    other.execute_batch("COMMIT").unwrap();
    bench.make(&sqlite(&[]), "a.db", RECORDS).unwrap();
    other.query_row("SELECT count(*) FROM theirs", [], |row| row.get::<_, i64>(0)).unwrap();
    fs::write(bench.out("b.db"), "no database, but long enough to be looked at as one").unwrap();
    let error = bench.make(&sqlite(&[]), "b.db", RECORDS).unwrap_err().to_string();
    assert!(error.contains("file is not a database"), "{error}");
}

#[test]
fn who_does_not_want_an_output_any_more_gets_none() {
    let bench = Bench::new();
    bench.progress.stop.store(true, Ordering::Relaxed);
    for name in ["a.jsonl.gz", "a.jsonl.zst", "a.parquet", "a.db"] {
        let sink = Sink::of(Path::new(name), "t", &[]).unwrap();
        let stopped = bench.make(&sink, name, RECORDS);
        assert!(matches!(stopped, Err(SinkError::Interrupted)), "{name}");
    }
    let left: Vec<_> = fs::read_dir(bench.directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["part"]);
}

#[test]
fn more_columns_than_a_table_has_are_refused() {
    let bench = Bench::new();
    let fields: Vec<_> = (0..2001).map(|number| format!("\"f{number}\":1")).collect();
    let record = format!("{{{}}}\n", fields.join(","));
    for name in ["a.parquet", "a.db"] {
        let sink = Sink::of(Path::new(name), "t", &[]).unwrap();
        let error = bench.make(&sink, name, &record).unwrap_err().to_string();
        assert!(error.contains("`f2000` would be a column too many"), "{error}");
    }
}

#[test]
fn fields_that_differ_only_in_case_keep_their_columns_whatever_their_order() {
    let (bench, sink) = (Bench::new(), sqlite(&["/id"]));
    bench.make(&sink, "a.db", "{\"id\":1,\"ID\":\"a\",\"Note\":\"b\",\"note\":\"c\"}\n").unwrap();
    for (record, row) in [
        (r#"{"ID":"d","note":"f","Note":"e","id":1}"#, "1 'd' 'e' 'f'"),
        (r#"{"note":"g","id":1}"#, "1 'd' 'e' 'g'"),
        (r#"{"NOTE":"h","note":"i","Note":"j","id":1}"#, "1 'd' 'j' 'i' 'h'"),
        (r#"{"NOTE":"k","id":1}"#, "1 'd' 'j' 'i' 'k'"),
    ] {
        bench.make(&sink, "a.db", &format!("{record}\n")).unwrap();
        let (columns, rows) = rows(&bench);
        assert!(columns.starts_with("id INTEGER, ID_2 TEXT, Note TEXT, note_2 TEXT"), "{columns}");
        assert_eq!(rows, [row], "{record}");
    }
}
