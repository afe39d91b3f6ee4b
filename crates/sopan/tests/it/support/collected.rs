//! What a collection came to, whatever it was written as.

use std::fs;
use std::io::Read;
use std::path::Path;

/// The records, or rows, in their order: of JSON Lines each line, of a table each row's values.
pub(crate) fn rows(path: &Path) -> Vec<String> {
    let name = path.file_name().unwrap().to_str().unwrap();
    match name.split_once('.').unwrap().1 {
        "jsonl" => lines(&fs::read(path).unwrap()),
        "jsonl.gz" => {
            let mut text = Vec::new();
            flate2::read::MultiGzDecoder::new(fs::File::open(path).unwrap()).read_to_end(&mut text).unwrap();
            lines(&text)
        }
        "jsonl.zst" => lines(&zstd::decode_all(fs::File::open(path).unwrap()).unwrap()),
        "parquet" => parquet(path),
        "db" => sqlite(path),
        other => panic!("nobody reads .{other}"),
    }
}

fn lines(text: &[u8]) -> Vec<String> {
    std::str::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}

fn parquet(path: &Path) -> Vec<String> {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
}

/// Of the one table that there is, each row as SQL would write it, in the order of its values.
fn sqlite(path: &Path) -> Vec<String> {
    let database = rusqlite::Connection::open(path).unwrap();
    let all = |query: &str| -> Vec<String> {
        let mut query = database.prepare(query).unwrap();
        query.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let tables = all("SELECT name FROM sqlite_master WHERE type = 'table'");
    let [table] = tables.as_slice() else { panic!("{tables:?}") };
    let columns = all(&format!("SELECT 'quote(\"' || name || '\")' FROM pragma_table_info('{table}')"));
    all(&format!("SELECT {} FROM \"{table}\" ORDER BY 1", columns.join(" || ' ' || ")))
}
