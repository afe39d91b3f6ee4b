//! Which collection, what it is like, and where it goes.

use std::num::NonZeroUsize;

use sopan_core::pages::Pointer;

use super::{ROW, set};
use crate::config::job::{ON_MISMATCH, overlap, path, table_name};
use crate::config::read::{field, file, one_of, parameter, switch, upstream_name, whole};
use crate::config::setting::{Group, Kind, Put, Rank, Section, Setting};

/// More pages or records than any collection has that is asked for page by page.
const COUNT_MAX: u64 = 1_000_000_000_000;
/// More at once helps nobody, and each may hold a page in memory.
const CONCURRENCY_MAX: u64 = 64;

const JOB: Setting = Setting { section: Section::Job, ..ROW };

pub(super) const GROUP: Group = Group {
    heading: Some("Collections"),
    settings: &[
        Setting {
            key: "upstream",
            kind: Kind::Like { placeholder: "NAME", example: "shop" },
            help: "Which upstream is asked; needed where there are several",
            put: Put::Job(|j, text| {
                j.upstream = Some(upstream_name(text)?);
                Ok(())
            }),
            ..JOB
        },
        Setting {
            key: "path",
            kind: Kind::Like { placeholder: "/PATH", example: "/orders?per_page=100" },
            help: "What is asked for first, beneath the URL of the upstream",
            put: Put::Job(|j, text| {
                j.path = Some(path(text)?);
                Ok(())
            }),
            ..JOB
        },
        Setting {
            key: "headers",
            kind: Kind::SecretFields,
            help: "Fields of its requests, each with its value\n\n\
                   A key of the API belongs to the upstream, as in credential: { env: API_KEY }.",
            put: Put::Job(|j, text| {
                let (name, value) = field(text)?;
                j.headers.append(name, value);
                Ok(())
            }),
            ..JOB
        },
        Setting {
            key: "out",
            flag: Some("out"),
            kind: Kind::File,
            help: "Where the records of a collection go; its ending says how\n\n\
                   A record a line: .jsonl or .ndjson, compressed .jsonl.gz or .jsonl.zst; columns: .parquet; a table of \
                   SQLite: .db or .sqlite. The file is there when all of it is. Beside it, ending in .part and .state, is kept how \
                   far a run has come: one that was ended, whatever by, goes on there when it is started again. Without it, or \
                   with -, records go to standard output page by page, and nothing is kept.",
            rank: Rank::Common,
            put: Put::Job(|j, text| {
                j.out = (text != "-").then(|| text.to_owned());
                j.is_streamed = text == "-";
                Ok(())
            }),
            ..JOB
        },
        Setting {
            key: "records",
            flag: Some("records"),
            kind: Kind::Like { placeholder: "/POINTER", example: "/data" },
            help: "Where a page has its records: a pointer to their list, or a JSONPath\n\n\
                   /data, or $.data[*] for what that finds; '' where the page itself is the list. Without it the list is looked \
                   for where lists usually are, and it is told where it was.",
            rank: Rank::Common,
            put: Put::Job(|j, text| {
                j.select = Some(text.parse()?);
                Ok(())
            }),
            ..JOB
        },
        Setting {
            key: "next",
            flag: Some("next"),
            kind: Kind::Like { placeholder: "/POINTER|link|page|…", example: "/next" },
            help: "Where the next page is told: /next, link, page, offset and more\n\n\
                   A pointer (/next) or a field (header:X-Next) has the URL of the next page, or with --next-param a cursor; link \
                   is the field Link (RFC 8288); last:/id is the id of the last record, for --next-param; page and offset are \
                   parameters that count pages or records, up to an empty page; none says that there is one page. Without it \
                   the first page tells, and it is told how.",
            rank: Rank::Common,
            put: Put::Job(|j, text| {
                j.next = Some(text.to_owned());
                Ok(())
            }),
            ..JOB
        },
        Setting {
            key: "next_param",
            flag: Some("next-param"),
            kind: Kind::Parameter,
            help: "The parameter that takes what stands there, or that counts",
            put: Put::Job(|j, text| {
                j.next_param = Some(parameter(text)?);
                Ok(())
            }),
            ..JOB
        },
        Setting {
            key: "more",
            flag: Some("more"),
            kind: Kind::Like { placeholder: "/POINTER", example: "/has_more" },
            help: "Where a page says whether there are more; false there is the end, whatever else it says",
            put: Put::Job(|j, text| {
                j.more = Some(pointer(text)?);
                Ok(())
            }),
            ..JOB
        },
        Setting {
            key: "link_hosts",
            flag: Some("link-host"),
            kind: Kind::Names,
            help: "Another name of the API: links that lead there are followed where the first page was\n\n\
                   Links that lead elsewhere end the run.",
            put: Put::Job(|j, text| {
                j.link_hosts.push(text.to_owned());
                Ok(())
            }),
            ..JOB
        },
        Setting {
            key: "short_page_ends",
            flag: Some("short-page-ends"),
            kind: Kind::Flag,
            default: Some("off"),
            help: "Of counted pages one with fewer records than the first is the last\n\n\
                   It saves the request for the empty page after it.",
            why: "some APIs leave out records that may not be seen, and go on after a short page",
            put: Put::Job(|j, text| set(&mut j.short_page_ends, switch(text))),
            ..JOB
        },
        Setting {
            key: "pages_max",
            flag: Some("pages-max"),
            kind: Kind::Count,
            help: "The most pages that are asked for",
            put: Put::Job(|j, text| set(&mut j.pages_max, whole(1..=COUNT_MAX)(text).map(Some))),
            ..JOB
        },
        Setting {
            key: "records_max",
            flag: Some("records-max"),
            kind: Kind::Count,
            help: "The most records that are taken",
            put: Put::Job(|j, text| set(&mut j.records_max, whole(1..=COUNT_MAX)(text).map(Some))),
            ..JOB
        },
        Setting {
            key: "concurrency",
            flag: Some("concurrency"),
            kind: Kind::Count,
            default: Some("1"),
            help: "How many pages may be under way at once, where they are counted; their order is kept",
            why: "one after the other is what every API takes",
            put: Put::Job(|j, text| {
                let count = usize::try_from(whole(1..=CONCURRENCY_MAX)(text)?).unwrap_or(1);
                set(&mut j.concurrency, Ok::<_, String>(NonZeroUsize::new(count)))
            }),
            ..JOB
        },
        Setting {
            key: "schema",
            flag: Some("schema"),
            kind: Kind::File,
            help: "A JSON Schema that each record must follow",
            rank: Rank::Common,
            put: Put::Job(|j, text| {
                j.schema = Some(file(text)?);
                Ok(())
            }),
            ..JOB
        },
        Setting {
            key: "on_mismatch",
            flag: Some("on-mismatch"),
            kind: Kind::OneOf(&["stop", "skip", "keep"]),
            default: Some("stop"),
            help: "What becomes of a record that does not follow it\n\n\
                   stop ends the run, and nothing of that page is kept; skip puts the record into a file of its own, which ends in \
                   .rejects.jsonl, with page, place and rule; keep takes it, and tells.",
            why: "what is not as it was meant to be should be looked at first",
            put: Put::Job(|j, text| set(&mut j.on_mismatch, one_of(ON_MISMATCH)(text))),
            ..JOB
        },
        Setting {
            key: "table",
            flag: Some("table"),
            kind: Kind::Like { placeholder: "NAME", example: "orders" },
            help: "What the table is called in a SQLite database; without it, as the file",
            put: Put::Job(|j, text| {
                j.table = Some(table_name(text)?);
                Ok(())
            }),
            ..JOB
        },
        Setting {
            key: "key",
            flag: Some("key"),
            kind: Kind::Pointers,
            help: "What of a record tells it from others, such as /id; may be given several times\n\n\
                   In a SQLite table a record then takes the place of the one with the same key, and the others stay. Without it \
                   each run makes the table anew.",
            put: Put::Job(|j, text| {
                j.key.push(pointer(text)?);
                Ok(())
            }),
            ..JOB
        },
        Setting {
            key: "since_field",
            flag: Some("since-field"),
            kind: Kind::Like { placeholder: "/POINTER", example: "/updated_at" },
            help: "What of a record grows with time: only what is new since the last run is asked for\n\n\
                   The greatest value of a run that became whole is where the next one begins.",
            put: Put::Job(|j, text| {
                j.since_field = Some(pointer(text)?);
                Ok(())
            }),
            ..JOB
        },
        Setting {
            key: "since_param",
            flag: Some("since-param"),
            kind: Kind::Like { placeholder: "NAME", example: "updated_since" },
            help: "The parameter of the API that takes that",
            put: Put::Job(|j, text| {
                j.since_param = Some(parameter(text)?);
                Ok(())
            }),
            ..JOB
        },
        Setting {
            key: "since",
            flag: Some("since"),
            kind: Kind::Like { placeholder: "VALUE", example: "2026-01-01T00:00:00Z" },
            help: "Where the first run begins; without it, at the beginning",
            put: Put::Job(|j, text| {
                j.since = Some(text.to_owned());
                Ok(())
            }),
            ..JOB
        },
        Setting {
            key: "since_overlap",
            flag: Some("since-overlap"),
            kind: Kind::Like { placeholder: "DURATION|N", example: "1h" },
            help: "How much before that a run begins: a duration for times, a number for numbers\n\n\
                   For an API that shows some records late. What lies within it is got again.",
            put: Put::Job(|j, text| {
                j.since_overlap = Some(overlap(text)?);
                Ok(())
            }),
            ..JOB
        },
    ],
};

fn pointer(text: &str) -> Result<Pointer, String> {
    text.parse().map_err(|error: sopan_core::pages::PointerError| error.to_string())
}
