//! The command line as it is typed: names, help and examples.
//!
//! Nothing is read here but which flag was given what: every value (but the name of a shell, which clap knows best) stays the
//! text it was, and what it means and whether it is allowed is told by [`crate::config`], in its own words.
#![allow(rustdoc::bare_urls, reason = "what is written at a flag is its help, where a URL is a URL")]

mod settings;

use std::ffi::OsString;

use clap::{ArgGroup, Args, Parser, Subcommand};
use clap_complete::Shell;
use settings::{Flags, OfExplain, OfFetch, OfServe};

use crate::version;

/// A polite proxy in front of somebody else's HTTP API.
///
/// Point a program at sopan instead of the API. Its requests leave at the rate that the API allows; the rest wait in a fair
/// line, and when the API says 429 or 503 with Retry-After, sopan waits just as long as it was asked to.
#[derive(Parser)]
#[command(name = "sopan", version = version::short(), long_version = version::long())]
#[command(after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  sopan demo
      ten seconds that show what sopan does, on an API of its own
  sopan fake-api --rate-limit-first 1
      an API to try things on, at http://127.0.0.1:8765
  sopan serve --upstream http://127.0.0.1:8765 --rate 10/s --burst 20
      the proxy in front of it, at http://127.0.0.1:8000
  sopan fetch http://127.0.0.1:8765/api/v1/orders
      one polite GET without a proxy
  sopan fetch http://127.0.0.1:8765/api/v1/orders --out orders.jsonl
      all pages of a collection, each record once
  sopan explain --status 429 --header 'Retry-After: 90'
      what the proxy would do with such an answer

`sopan COMMAND -h` lists the flags that matter most, `sopan COMMAND --help` explains every one.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// See in ten seconds what sopan does, on an API of its own
    #[command(after_help = DEMO_EXAMPLE)]
    Demo(Demo),
    /// Stand in front of an API and let requests through at the pace it allows
    #[command(after_help = SERVE_EXAMPLE)]
    #[command(after_long_help = format!("{SERVE_EXAMPLE}\n\n{SIGNALS}\n\n{DURATIONS} {SIZES}"))]
    Serve(Box<Serve>),
    /// Tell what is wrong with a settings file, or what is in force and where each value came from
    #[command(after_help = CHECK_EXAMPLE)]
    #[command(after_long_help = format!("{CHECK_EXAMPLE}\n\n{CHECK_JSON}"))]
    Check(Check),
    /// Print a settings file with every setting, its default and its reason
    #[command(after_help = EXAMPLE_EXAMPLE)]
    Example,
    /// Print the JSON Schema of settings files, for editors
    #[command(after_help = SCHEMA_EXAMPLE)]
    Schema,
    /// Say what goes on in a sopan that runs
    #[command(after_help = STATUS_EXAMPLE)]
    Status(Status),
    /// Show what goes on in a sopan that runs, redrawn every second
    #[command(after_help = TOP_EXAMPLE)]
    Top(Watch),
    /// Make keys for those who may use the proxy
    #[command(after_help = KEYS_EXAMPLE)]
    Keys(Keys),
    /// Get a URL politely, or all pages of a collection
    #[command(after_help = FETCH_EXAMPLE)]
    #[command(after_long_help = format!("{FETCH_EXAMPLE}\n\n{FETCH_RULES}\n\n{DURATIONS} {SIZES}"))]
    #[command(mut_arg("total-timeout", |arg| arg.help(FETCH_TOTAL_TIMEOUT).long_help(None)))]
    Fetch(Box<Fetch>),
    /// Say how long it would take to get a collection, by its first page and the limits
    #[command(after_help = PLAN_EXAMPLE)]
    #[command(after_long_help = format!("{PLAN_EXAMPLE}\n\n{PLAN_RULES}\n\n{DURATIONS} {SIZES}"))]
    Plan(Box<Plan>),
    /// Say what sopan reads in an answer of an API, and what it would do with it
    #[command(after_help = EXPLAIN_EXAMPLE)]
    #[command(after_long_help = format!("{EXPLAIN_EXAMPLE}\n\n{EXPLAIN_RULES}\n\n{DURATIONS}"))]
    Explain(Box<Explain>),
    /// Play a rate-limited API, to try sopan or any other client on
    #[command(after_help = format!("{FAKE_EXAMPLE}\n\n{DURATIONS}"))]
    FakeApi(Box<FakeApi>),
    /// Write a script with which a shell completes commands and flags
    #[command(after_help = COMPLETIONS_EXAMPLE)]
    Completions(Completions),
    /// Write the manual, as pages for `man`
    #[command(after_help = MAN_EXAMPLE)]
    Man(Man),
}

/// How a duration is written.
const DURATIONS: &str = "Durations are written 500ms, 2s, 5m or 1h30m, and a bare number is seconds.";

/// How a size is written.
const SIZES: &str = "Sizes are written 64KiB, 1MiB or 10MB, and a bare number is bytes.";

const SERVE_EXAMPLE: &str = "\
Example:
  sopan serve --upstream https://api.example.com --rate 10/s --burst 20
      then ask http://127.0.0.1:8000/orders, not https://api.example.com/orders,
      and see http://127.0.0.1:8001/, or `sopan top`, for what goes on";

const SIGNALS: &str = "\
SIGTERM and SIGINT let what has begun finish (--drain) and end with 0; a second one ends at once. A wrong flag or \
setting ends with 2 before anything is started.";

const CHECK_EXAMPLE: &str = "\
Example:
  sopan check sopan.yaml

Exit codes: 0 it can be used, 2 something is wrong with it. Warnings do not count.";

const EXAMPLE_EXAMPLE: &str = "\
Example:
  sopan example > sopan.yaml";

const CHECK_JSON: &str = "\
What --format json prints, to standard output in any case:
  {
    \"file\": \"sopan.yaml\", \"ok\": true,
    \"problems\": [
      {\"severity\": \"error\" or \"warning\", \"key\": \"upstreams.shop.retry.jitter\",
       \"line\": 12, \"column\": 15, \"message\": \"…\", \"help\": \"…\"}],
    \"settings\": {\"listen\": {\"value\": \"127.0.0.1:8000\", \"from\": \"default\"}, …},
    \"upstreams\": {
      \"shop\": {\"retry.jitter\": {\"value\": \"0\", \"from\": \"sopan.yaml:12\"}, …}},
    \"clients\": {
      \"etl\": {\"weight\": {\"value\": \"2\", \"from\": \"sopan.yaml:20\"}, …}}
  }
line, column and help are null where there is none. settings, upstreams and clients are there \
only if the file can be used, and a value is a text as it was written, or a list of them.";

const STATUS_EXAMPLE: &str = "\
Example:
  sopan status
      a line for each API: what is allowed and used, who waits and how long,
      pauses, the breaker, and what the cache saves

Where the admin port wants a secret, SOPAN_ADMIN_TOKEN holds it. Exit codes: 0 it is told, 75 no sopan answers, 76 it does \
not let you ask.";

const TOP_EXAMPLE: &str = "\
Example:
  sopan top
      q quits, up and down choose the API that is shown more closely

Where the admin port wants a secret, SOPAN_ADMIN_TOKEN holds it.";

const SCHEMA_EXAMPLE: &str = "\
Example:
  sopan schema > sopan.schema.json
      then begin sopan.yaml with this line, for editors that know it:
      # yaml-language-server: $schema=sopan.schema.json";

const KEYS_EXAMPLE: &str = "\
Example:
  sopan keys new etl";

const KEYS_NEW_EXAMPLE: &str = "\
Example:
  sopan keys new etl
      a key for whoever runs `etl`, and the lines for the settings file;
      it is kept nowhere, so it cannot be shown again";

const FETCH_EXAMPLE: &str = "\
Example:
  sopan fetch https://api.example.com/orders/7 > order.json
      one answer as it is, perhaps with --header 'Authorization: Bearer …'
  sopan fetch https://api.example.com/orders --out orders.jsonl --rate 10/s
      all pages, a record a line; run again after an end in between, it goes on";

/// What counts in a time-out, which is not what counts for the proxy, whose client is waiting.
const FETCH_TOTAL_TIMEOUT: &str = "From the start to the head of the answer, without waits for \
    the rate and for pauses that the API asked for";

const FETCH_RULES: &str = "\
Without a flag of a collection there is one GET: its body is written only when all of it is here, and nothing is written when \
it fails. With one, page after page is got. Waiting for the rate and for pauses that the API asked for takes as long as it \
takes and does not count in --total-timeout.

Exit codes:
  0    it is whole, or the reader of standard output had enough, as `head`
  2    a flag or a setting is wrong; nothing was sent
  65   a record does not follow the schema, or a page is none of a collection
  75   the API failed, was limited or could not be reached: run it again later
  76   the API refuses, leads in a circle or away, or it cannot be kept: mend it
  130  interrupted; run it again, and it goes on where it was";

const PLAN_EXAMPLE: &str = "\
Example:
  sopan plan https://api.example.com/orders --rate 5/s --by '09:00 Asia/Jakarta'
      how many requests, how long, and whether it is there in time";

const PLAN_RULES: &str = "\
At most one request is sent, and nothing is kept. What others use of the limits, pauses that the API asks for and what fails come \
on top.

Exit codes:
  0    it is told, and fits
  2    a flag or a setting is wrong; nothing was sent
  65   the first page is none of a collection
  75   the API failed, was limited or could not be reached
  76   it would be too late, or the API refuses";

const EXPLAIN_EXAMPLE: &str = "\
Example:
  sopan explain --status 429 --header 'Retry-After: 90'
      perhaps with --method POST, and every field that a vendor's answer has
  sopan explain --status 200 --header 'Cache-Control: private'
      whether it is stored, how long it is given again, and to whom";

const EXPLAIN_RULES: &str = "\
Nothing is sent. The answer is judged as that of a first attempt, come at once, by the code that the proxy runs: each line \
is a thing that is read or decided, with the RFC or the setting behind it; the last one says what would be done. Of the \
fields only the values of Retry-After, and the names in Vary, are shown.";

const COMPLETIONS_EXAMPLE: &str = "\
Example:
  sopan completions bash > ~/.local/share/bash-completion/completions/sopan
      or, for the shell that runs, `source <(sopan completions bash)`";

const MAN_EXAMPLE: &str = "\
Example:
  sopan man | man -l -
      the page of sopan; with --dir ~/.local/share/man/man1 there are also
      sopan-serve(1) and one for each other command";

const FAKE_EXAMPLE: &str = "\
Example:
  sopan fake-api --limit '10/s burst 20' --rate-limit-first 1
      curl -i 'http://127.0.0.1:8765/api/v1/orders?page=1'
      curl http://127.0.0.1:8765/_fake/log        # what arrived, and when

It also plays a language model in OpenAI's form: /v1/chat/completions and /v1/models. The same orders come in other ways of \
paging at /api/v1/collection/WAY: numbered, offset, next, link, cursor, header, last.

The first requests meet what is planned for them in this order: 429s, 500s, connections dropped before, within and \
after the head, truncated bodies, slow ones. Every later one is asked of the limits.";

const DEMO_EXAMPLE: &str = "\
Example:
  sopan demo
      ends with a table, and with what to type next

A small API with a limit is started twice, once with sopan in front of it. Programs ask both at the same time, three \
times as often as it allows, and each API closes once for a moment. Nothing leaves this machine.";

/// Flags of `sopan demo`.
#[derive(Args)]
pub(crate) struct Demo {
    /// Print lines instead of a picture that moves, as where standard output is no terminal
    #[arg(long)]
    pub(crate) plain: bool,
}

/// Flags of `sopan serve`.
#[derive(Args)]
#[command(group(ArgGroup::new("apis").args(["upstream", "config"]).required(true)))]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) settings: Flags<OfServe>,
    /// A settings file, which can name many upstreams
    ///
    /// YAML, TOML or JSON, by its ending, with everything that flags can say and more. Flags count more than the file, for
    /// all its upstreams. `sopan check FILE` tells what is wrong with it.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
}

/// Flags of `sopan check`.
#[derive(Args)]
pub(crate) struct Check {
    /// The settings file
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// What is printed: for people, or one JSON object
    #[arg(long, value_name = "text|json", default_value = "text")]
    pub(crate) format: String,
}

/// Flags of `sopan top`, and of `sopan status`.
#[derive(Args)]
pub(crate) struct Watch {
    /// The admin port of the sopan that is asked
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8001")]
    pub(crate) admin: String,
}

/// Flags of `sopan status`.
#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) watch: Watch,
    /// Print all that is known as one JSON object, as /state tells it
    #[arg(long)]
    pub(crate) json: bool,
}

/// Commands of `sopan keys`.
#[derive(Args)]
pub(crate) struct Keys {
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
}

#[derive(Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key, print it once, and with it the line for the settings file
    #[command(after_help = KEYS_NEW_EXAMPLE)]
    New(KeysNew),
}

/// Flags of `sopan keys new`.
#[derive(Args)]
pub(crate) struct KeysNew {
    /// Whose key it is, as logs and metrics will say
    #[arg(value_name = "NAME", default_value = "my-client")]
    pub(crate) name: String,
    /// What is printed: for people, or one JSON object
    #[arg(long, value_name = "text|json", default_value = "text")]
    pub(crate) format: String,
}

/// Flags of `sopan fetch`.
#[derive(Args)]
#[command(group(ArgGroup::new("what").args(["url", "config"]).required(true)))]
pub(crate) struct Fetch {
    /// What to get: http or https, with path and query; a fragment is ignored
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// A settings file with jobs, in place of a URL
    #[arg(long, value_name = "FILE", requires = "job", hide_short_help = true)]
    pub(crate) config: Option<String>,
    /// Which of its jobs, or `all`, one after the other
    #[arg(long, value_name = "NAME|all", requires = "config", conflicts_with = "url", hide_short_help = true)]
    pub(crate) job: Option<String>,
    /// A field of the request, may be given several times; its value is never shown
    #[arg(long, value_name = "'NAME: VALUE'")]
    pub(crate) header: Vec<String>,
    /// The longest body that is taken [default: 1GiB; for a page of a collection 64MiB]
    ///
    /// Of a single answer up to 1 MiB is kept in memory, and more in a temporary file; a page is kept in memory.
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub(crate) body_bytes_max: Option<String>,
    /// Propose a JSON Schema of the records, into this file
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) infer_schema: Option<String>,
    /// Begin anew, whatever is kept of a run before
    #[arg(long, hide_short_help = true)]
    pub(crate) restart: bool,
    /// Tell only what goes wrong
    #[arg(long, hide_short_help = true)]
    pub(crate) quiet: bool,
    /// Tell what happens as JSON, one object a line, on standard error
    #[arg(long, hide_short_help = true, conflicts_with = "quiet")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: Flags<OfFetch>,
}

/// Flags of `sopan plan`.
#[derive(Args)]
#[command(group(ArgGroup::new("of").args(["url", "config"]).required(true)))]
pub(crate) struct Plan {
    /// Where the first page is
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// A settings file with jobs, in place of a URL
    #[arg(long, value_name = "FILE", requires = "job", hide_short_help = true)]
    pub(crate) config: Option<String>,
    /// Which of its jobs, or `all`, each for itself
    #[arg(long, value_name = "NAME|all", requires = "config", conflicts_with = "url", hide_short_help = true)]
    pub(crate) job: Option<String>,
    /// When it has to be done: the next time that clocks show this, in a zone
    #[arg(long, value_name = "'HH:MM ZONE'")]
    pub(crate) by: Option<String>,
    /// A field of the request, may be given several times; its value is never shown
    #[arg(long, value_name = "'NAME: VALUE'")]
    pub(crate) header: Vec<String>,
    #[command(flatten)]
    pub(crate) settings: Flags<OfFetch>,
}

/// Flags of `sopan explain`.
#[derive(Args)]
pub(crate) struct Explain {
    /// The status of the answer, 200 or above
    #[arg(long, value_name = "N")]
    pub(crate) status: String,
    /// A field of the answer, may be given several times
    #[arg(long, value_name = "'NAME: VALUE'")]
    pub(crate) header: Vec<String>,
    /// The method of the request that was answered
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// A field of that request; its value is never shown
    #[arg(long, value_name = "'NAME: VALUE'")]
    pub(crate) request_header: Vec<String>,
    /// The path of that request, as its client asks for it; rules for paths go by it
    #[arg(long, value_name = "/PATH", default_value = "/", hide_short_help = true)]
    pub(crate) path: String,
    /// When the answer came: 2026-10-21T12:00:00Z, a date as in HTTP, or seconds since 1970 [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,
    /// A file with the body of the answer, or `-` for standard input; only its size matters
    #[arg(long, value_name = "FILE")]
    pub(crate) body: Option<String>,
    /// The form of the explanation: lines for people, or a JSON object
    #[arg(long, value_name = "text|json", default_value = "text")]
    pub(crate) format: String,
    /// A settings file whose rules count, as `sopan serve` has it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// Which of its upstreams answered, if there are several
    #[arg(long, value_name = "NAME", requires = "config")]
    pub(crate) of: Option<String>,
    #[command(flatten)]
    pub(crate) settings: Flags<OfExplain>,
}

/// Flags of `sopan completions`.
#[derive(Args)]
pub(crate) struct Completions {
    /// Which shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// Flags of `sopan man`.
#[derive(Args)]
pub(crate) struct Man {
    /// Where all pages are written to; without it, the first one goes to standard output
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<OsString>,
}

/// Flags of `sopan fake-api`.
#[derive(Args)]
pub(crate) struct FakeApi {
    /// Where it listens; port 0 takes a free one, and the address is printed
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8765")]
    pub(crate) listen: String,
    /// Play a vendor's API beside its own: its paths and paging, and unless told otherwise its limits and page size
    #[arg(long, value_name = "github|gitlab|stripe|shopify|slack|notion|odata")]
    pub(crate) profile: Option<String>,
    /// So many requests get 429 with Retry-After: 1
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) rate_limit_first: String,
    /// So many requests get 500; with --rate-limit-first, the 429s come first
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) fail_first: String,
    #[command(flatten)]
    pub(crate) limits: FakeLimits,
    #[command(flatten)]
    pub(crate) faults: FakeFaults,
    #[command(flatten)]
    pub(crate) data: FakeData,
}

#[derive(Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct FakeLimits {
    /// What it allows, exactly: a rate (10/s, 10/s burst 20) or a quota (5000 per 1h); may be given several times
    #[arg(long, value_name = "LIMIT")]
    pub(crate) limit: Vec<String>,
    /// How it counts that; bucket, if neither this nor --profile says
    #[arg(long, value_name = "bucket|fixed|sliding")]
    pub(crate) window: Option<String>,
    /// How a 429 says when to come again
    #[arg(long, value_name = "seconds|imf|rfc850|asctime|none|garbage", default_value = "seconds")]
    pub(crate) retry_after: String,
    /// Whether answers have an ETag, so that who has one already gets 304; free: that costs nothing, as at GitHub
    #[arg(long, value_name = "off|on|free", default_value = "off")]
    pub(crate) etag: String,
}

#[derive(Args)]
#[command(next_help_heading = "Faults")]
pub(crate) struct FakeFaults {
    /// So many requests are spared what is planned for the first ones, so that it comes in the middle
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) faults_after: String,
    /// Every answer waits so long
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub(crate) delay: String,
    /// And up to so much longer, evenly spread
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub(crate) delay_jitter: String,
    /// Where the dice of the jitter start
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) seed: String,
    /// So many connections are cut before the head of the answer
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) drop_before_head_first: String,
    /// So many within the head
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) drop_in_head_first: String,
    /// So many after the head, before the body
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) drop_after_head_first: String,
    /// So many when half of the body is sent
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) truncate_first: String,
    /// So many bodies come in two halves, --slow apart
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) slow_first: String,
    /// How far apart the halves come
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub(crate) slow: String,
    /// How they are cut: with FIN, or with RST
    #[arg(long, value_name = "close|reset", default_value = "close")]
    pub(crate) cut: String,
}

#[derive(Args)]
#[command(next_help_heading = "Data")]
pub(crate) struct FakeData {
    /// How many orders there are at the start, which are also the records of a vendor
    #[arg(long, value_name = "N", default_value = "120")]
    pub(crate) orders_total: String,
    /// How many a page holds when the request does not say; 50, if neither this nor --profile says
    #[arg(long, value_name = "N")]
    pub(crate) page_size: Option<String>,
    /// How many requests the log remembers; the oldest go first
    #[arg(long, value_name = "N", default_value = "1000000")]
    pub(crate) log_entries_max: String,
    /// What its calendar shows at the start: `now`, or a date such as 'Wed, 21 Oct 2026 12:00:00 GMT'
    #[arg(long, value_name = "DATE|now", default_value = "now")]
    pub(crate) wall_start: String,
}

/// What was typed; ends the program where a flag is unknown or missing, and after `--help` and `--version`.
pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Cli {
    read(args).unwrap_or_else(|told| told.exit())
}

/// What was typed, or what is to be told instead.
pub(crate) fn read(args: impl Iterator<Item = OsString>) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(glue_negative(args))
}

/// Joins `--rate` and a `-1` after it to `--rate=-1`: no flag of ours begins with a digit, so it is a value, and why it is
/// not allowed is better said by whoever reads it than by "unexpected argument".
fn glue_negative(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut glued: Vec<OsString> = Vec::new();
    for arg in args {
        let is_flag =
            |flag: &OsString| flag.to_str().is_some_and(|f| f.len() > 2 && f.starts_with("--") && !f.contains('='));
        match glued.last_mut() {
            Some(flag) if is_negative(&arg) && is_flag(flag) => {
                flag.push("=");
                flag.push(&arg);
            }
            _ => glued.push(arg),
        }
    }
    glued
}

fn is_negative(arg: &OsString) -> bool {
    let digits = arg.to_str().and_then(|a| a.strip_prefix('-')).map(|a| a.trim_start_matches('.'));
    digits.is_some_and(|d| d.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn glued(args: &[&str]) -> Vec<OsString> {
        glue_negative(args.iter().map(OsString::from))
    }

    #[test]
    fn a_negative_value_belongs_to_the_flag_before_it() {
        assert_eq!(glued(&["sopan", "serve", "--rate", "-1"]), ["sopan", "serve", "--rate=-1"]);
        assert_eq!(glued(&["--wait-max", "-5s", "--burst", "-.5"]), ["--wait-max=-5s", "--burst=-.5"]);
        for unchanged in
            [&["--rate", "--burst", "5"][..], &["--rate=1/s", "-1"], &["--", "-1"], &["-h"], &["fetch", "-1"]]
        {
            assert_eq!(glued(unchanged), unchanged);
        }
    }

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_explains_every_flag_and_gives_an_example() {
        let mut program = Cli::command();
        program.build();
        for command in program.get_subcommands_mut().filter(|command| command.get_name() != "help") {
            let help = command.render_long_help().to_string();
            assert!(help.contains("\nExample:\n  sopan "), "{help}");
            for argument in command.get_arguments() {
                let (open, close) = if argument.is_required_set() { ('<', '>') } else { ('[', ']') };
                let names = argument.get_value_names().unwrap_or_default().join(" ");
                let positional = || format!("{open}{names}{close}");
                let flag = argument.get_long().map_or_else(positional, |name| format!("--{name}"));
                assert!(help.contains(&flag), "{flag} is missing in:\n{help}");
                assert!(argument.get_help().is_some(), "{flag} is not explained");
            }
        }
    }

    #[test]
    fn the_short_help_is_a_screenful_and_examples_fit_into_a_terminal() {
        let mut program = Cli::command();
        program.build();
        for command in program.get_subcommands_mut().filter(|command| command.get_name() != "help") {
            let short = command.render_help().to_string();
            assert!(command.get_name() == "fake-api" || short.lines().count() < 40, "{short}");
        }
        for text in [
            EXAMPLES,
            DEMO_EXAMPLE,
            SERVE_EXAMPLE,
            CHECK_EXAMPLE,
            CHECK_JSON,
            EXAMPLE_EXAMPLE,
            SCHEMA_EXAMPLE,
            STATUS_EXAMPLE,
            TOP_EXAMPLE,
            KEYS_EXAMPLE,
            KEYS_NEW_EXAMPLE,
            FETCH_EXAMPLE,
            FETCH_RULES,
            PLAN_EXAMPLE,
            PLAN_RULES,
            EXPLAIN_EXAMPLE,
            COMPLETIONS_EXAMPLE,
            MAN_EXAMPLE,
            FAKE_EXAMPLE,
        ] {
            for line in text.lines().filter(|line| line.starts_with(' ')) {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }

    #[test]
    fn an_unknown_flag_is_told_by_its_name() {
        let told = read(["sopan", "serve", "--bogus"].iter().map(OsString::from)).err().unwrap();
        assert!(told.exit_code() == 2 && told.to_string().contains("'--bogus'"), "{told}");
    }

    #[test]
    fn the_version_is_told_in_short_and_in_full() {
        for (flag, expected) in [("-V", version::short()), ("--version", version::long())] {
            let told = read(["sopan", flag].iter().map(OsString::from)).err().unwrap();
            assert_eq!((told.exit_code(), told.to_string()), (0, format!("sopan {expected}\n")));
        }
    }
}
