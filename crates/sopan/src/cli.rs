//! The command line as it is typed: names, help and examples.
//!
//! Nothing is read here but which flag was given what: every value stays the text it was, and what it means and whether it
//! is allowed is told by [`crate::config`], in its own words.
#![allow(rustdoc::bare_urls, reason = "what is written at a flag is its help, where a URL is a URL")]

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};

/// A polite proxy in front of somebody else's HTTP API.
///
/// Point a program at sopan instead of the API. Its requests leave at the rate that the API allows; the rest wait in a fair
/// line, and when the API says 429 or 503 with Retry-After, sopan waits just as long as it was asked to.
#[derive(Parser)]
#[command(name = "sopan", version, after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  sopan fake-api --rate-limit-first 1
      an API to try things on, at http://127.0.0.1:8765
  sopan serve --upstream http://127.0.0.1:8765 --rate 10/s --burst 20
      the proxy in front of it, at http://127.0.0.1:8000
  sopan fetch http://127.0.0.1:8765/api/v1/orders
      one polite GET without a proxy

`sopan COMMAND -h` lists the flags that matter most, `sopan COMMAND --help` explains every one.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Stand in front of an API and let requests through at the pace it allows
    #[command(after_help = SERVE_EXAMPLE)]
    #[command(after_long_help = format!("{SERVE_EXAMPLE}\n\n{SIGNALS}\n\n{DURATIONS} {SIZES}"))]
    Serve(Box<Serve>),
    /// Get one URL politely and write the body to standard output
    #[command(after_help = FETCH_EXAMPLE)]
    #[command(after_long_help = format!("{FETCH_EXAMPLE}\n\n{FETCH_RULES}\n\n{DURATIONS} {SIZES}"))]
    #[command(mut_arg("total_timeout", |arg| arg.help(FETCH_TOTAL_TIMEOUT)))]
    Fetch(Box<Fetch>),
    /// Play a rate-limited API, to try sopan or any other client on
    #[command(after_help = format!("{FAKE_EXAMPLE}\n\n{DURATIONS}"))]
    FakeApi(Box<FakeApi>),
}

/// How a duration is written.
const DURATIONS: &str = "Durations are written 500ms, 2s, 5m or 1h30m, and a bare number is seconds.";

/// How a size is written.
const SIZES: &str = "Sizes are written 64KiB, 1MiB or 10MB, and a bare number is bytes.";

const SERVE_EXAMPLE: &str = "\
Example:
  sopan serve --upstream https://api.example.com --rate 10/s --burst 20
      then ask http://127.0.0.1:8000/orders, not https://api.example.com/orders,
      and see http://127.0.0.1:8001/metrics for what goes on";

const SIGNALS: &str = "\
SIGTERM and SIGINT let what has begun finish (--drain) and end with 0; a second one ends at once. A wrong flag or \
setting ends with 2 before anything is started.";

const FETCH_EXAMPLE: &str = "\
Example:
  sopan fetch 'https://api.example.com/orders?page=1' > orders.json
      perhaps with --header 'Authorization: Bearer …'";

/// What counts in a time-out, which is not what counts for the proxy, whose client is waiting.
const FETCH_TOTAL_TIMEOUT: &str = "From the start to the head of the answer, without waits for \
    the rate and for pauses that the API asked for";

const FETCH_RULES: &str = "\
The body is written only when all of it is here; nothing is written when the request fails. Waiting for the rate and \
for pauses that the API asked for takes as long as it takes and does not count in --total-timeout.

Exit codes:
  0    the body is whole, or the reader of standard output had enough, as `head`
  2    a flag or a setting is wrong; nothing was sent
  75   the API failed, was limited or could not be reached: run it again later
  76   the API refuses the request, or its answer cannot be kept: mend it first
  130  interrupted";

const FAKE_EXAMPLE: &str = "\
Example:
  sopan fake-api --limit '10/s burst 20' --rate-limit-first 1
      curl -i 'http://127.0.0.1:8765/api/v1/orders?page=1'
      curl http://127.0.0.1:8765/_fake/log        # what arrived, and when

The first requests meet what is planned for them in this order: 429s, 500s, connections dropped before, within and \
after the head, truncated bodies. Every later one is asked of the limits.";

/// Flags of `sopan serve`.
#[derive(Args)]
pub(crate) struct Serve {
    /// The API that requests go to
    ///
    /// Perhaps with a path that is put in front of theirs: https://api.example.com/v2
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: String,
    /// Where clients connect; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    pub(crate) listen: String,
    /// Where /metrics and /healthz are served, or `off`
    ///
    /// /healthz says that the program runs, not that the API does.
    #[arg(long, value_name = "ADDRESS|off", default_value = "127.0.0.1:8001")]
    pub(crate) admin: String,
    /// Let in requests from other machines, which use the API as you do
    ///
    /// Needed to listen on an address that other machines reach. Any Host will do then, unless --host says which.
    #[arg(long, hide_short_help = true)]
    pub(crate) open: bool,
    /// A name by which sopan may be asked beside localhost, without a port; may be given several times
    ///
    /// Else a page on the web could let its own name lead to this machine, and read through its visitors' browsers what
    /// the API answers. Pages of this host may ask too.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub(crate) host: Vec<String>,
    /// Threads that pass requests on [default: one for each core]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) workers: Option<String>,
    /// Connections of clients that are open at once; more wait to be accepted
    #[arg(long, value_name = "N", default_value = "10000", hide_short_help = true)]
    pub(crate) max_connections: String,
    /// The longest that a client may take for the head of a request
    #[arg(long, value_name = "DURATION", default_value = "10s", hide_short_help = true)]
    pub(crate) header_timeout: String,
    /// How long requests may go on after SIGTERM or SIGINT
    #[arg(long, value_name = "DURATION", default_value = "10s", hide_short_help = true)]
    pub(crate) drain: String,
    /// Answers of the upstream are stored: not yet, so only `off` is allowed
    #[arg(long, value_name = "off", default_value = "off", hide_short_help = true)]
    pub(crate) cache: String,
    /// A line for every request, at INFO
    #[arg(long, value_name = "on|off", default_value = "off")]
    pub(crate) access_log: String,
    /// Where quotas of a minute and longer, pauses and the breaker are kept, so that they outlive the program
    ///
    /// Also where it is killed. Without it what was used of a quota is forgotten when the program ends. The file is replaced
    /// now and then, so sopan must be able to write in its directory.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) state: Option<String>,
    #[command(flatten)]
    pub(crate) log: Log,
    #[command(flatten)]
    pub(crate) limits: Limits,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    #[command(flatten)]
    pub(crate) retry: Retry,
    #[command(flatten)]
    pub(crate) replay: Replay,
    #[command(flatten)]
    pub(crate) connections: Connections,
    #[command(flatten)]
    pub(crate) passing: Passing,
}

/// Flags of `sopan fetch`.
#[derive(Args)]
pub(crate) struct Fetch {
    /// What to get: http or https, with path and query; a fragment is ignored
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// A field of the request, may be given several times; its value is never shown
    #[arg(long, value_name = "'NAME: VALUE'")]
    pub(crate) header: Vec<String>,
    /// The longest body that is taken; up to 1 MiB is kept in memory, more in a temporary file
    #[arg(long, value_name = "SIZE", default_value = "1GiB", hide_short_help = true)]
    pub(crate) body_bytes_max: String,
    #[command(flatten)]
    pub(crate) log: Log,
    #[command(flatten)]
    pub(crate) limits: Limits,
    #[command(flatten)]
    pub(crate) retry: Retry,
    #[command(flatten)]
    pub(crate) connections: Connections,
}

#[derive(Args)]
pub(crate) struct Log {
    /// The form of the log on standard error
    ///
    /// Lines for people, or one JSON object a line. What is wrong with flags is told as text in any case.
    #[arg(long, value_name = "text|json", default_value = "text")]
    pub(crate) log: String,
}

#[derive(Args)]
#[command(next_help_heading = "What the API allows")]
pub(crate) struct Limits {
    /// A rate (10/s burst 20), a quota (5000 per 1h), or `unlimited` [default: 10/s burst 20]
    ///
    /// May be given several times, and all are kept to. A rate without a burst, 10/s or 500/min or 0.5/s, is evenly
    /// spaced. Where the API states a burst, state it too; against one that allows none, add --rate-margin 10%, since requests
    /// bunch up a little on the way.
    #[arg(long, value_name = "LIMIT")]
    pub(crate) rate: Vec<String>,
    /// The burst of the one rate that does not say its own; alone it means 10/s
    ///
    /// So many may leave at once after a quiet time, less --headroom.
    #[arg(long, value_name = "N")]
    pub(crate) burst: Option<String>,
    /// How much of a burst of 2 or more is left unused, so that requests which bunch up on the way still fit
    #[arg(long, value_name = "N", default_value = "1", hide_short_help = true)]
    pub(crate) headroom: String,
    /// The share of every rate that is left unused, since two clocks never run alike
    ///
    /// Write 10% for an API that enforces its rate strictly and allows no burst.
    #[arg(long, value_name = "PERCENT", default_value = "0.1%", hide_short_help = true)]
    pub(crate) rate_margin: String,
    /// The longest pause for which an answer of the API can stop everything; more than zero
    #[arg(long, value_name = "DURATION", default_value = "1h", hide_short_help = true)]
    pub(crate) max_hold: String,
    /// Whether an API that is down is left alone for a while
    ///
    /// on, off, or on with settings such as failures=10,min_span=5s,open_for=10s; there are also share=0.5,
    /// attempts_min=20, window=10s and probes=1, and these are the defaults.
    #[arg(long, value_name = "on|off|SETTINGS", default_value = "on", hide_short_help = true)]
    pub(crate) breaker: String,
}

#[derive(Args)]
#[command(next_help_heading = "Waiting")]
pub(crate) struct Waiting {
    /// Requests under way at once, or `unlimited`
    #[arg(long, value_name = "N|unlimited", default_value = "unlimited", hide_short_help = true)]
    pub(crate) max_in_flight: String,
    /// Requests that wait for their turn at once; more are refused with 503
    #[arg(long, value_name = "N", default_value = "1000", hide_short_help = true)]
    pub(crate) waiting_max: String,
    /// What waiting requests hold together, heads and bodies
    #[arg(long, value_name = "SIZE", default_value = "64MiB", hide_short_help = true)]
    pub(crate) queue_bytes_max: String,
    /// The longest wait for a turn; who would wait longer is refused at once, with 503
    #[arg(long, value_name = "DURATION|unlimited", default_value = "30s")]
    pub(crate) wait_max: String,
    /// Between whom turns are shared fairly
    ///
    /// By address, by connection, or by the value of a field; requests without that field are told apart by address.
    #[arg(long, value_name = "ip|connection|header:NAME", default_value = "ip")]
    pub(crate) client_by: String,
}

#[derive(Args)]
#[command(next_help_heading = "Retries")]
pub(crate) struct Retry {
    /// Retries after the first attempt
    #[arg(long, value_name = "N", default_value = "3")]
    pub(crate) max_retries: String,
    /// The first wait, doubled for every retry
    #[arg(long, value_name = "DURATION", default_value = "500ms", hide_short_help = true)]
    pub(crate) backoff_base: String,
    /// The upper bound of that wait, before its jitter
    #[arg(long, value_name = "DURATION", default_value = "30s", hide_short_help = true)]
    pub(crate) backoff_cap: String,
    /// The fraction of the wait that chance adds or takes off at most, 0 to 1
    #[arg(long, value_name = "FRACTION", default_value = "0.25", hide_short_help = true)]
    pub(crate) jitter: String,
    /// How chance enters the wait: around it, anywhere below it, or growing from wait to wait
    #[arg(long, value_name = "fraction|full|decorrelated", default_value = "fraction", hide_short_help = true)]
    pub(crate) jitter_kind: String,
    /// The longest Retry-After that a request waits for
    ///
    /// Others wait as long as it says all the same, up to an hour.
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub(crate) max_retry_after: String,
    /// What a longer one means: the answer goes to the caller at once, or wait --max-retry-after and ask again
    #[arg(long, value_name = "give-up|cap", default_value = "give-up", hide_short_help = true)]
    pub(crate) on_long_retry_after: String,
    /// The floor under a Retry-After of exactly zero
    #[arg(long, value_name = "DURATION", default_value = "1s", hide_short_help = true)]
    pub(crate) min_wait: String,
    /// The wait after a 429 or 503 without a usable Retry-After; `none` means the backoff
    #[arg(long, value_name = "DURATION|none", default_value = "none", hide_short_help = true)]
    pub(crate) default_wait: String,
    /// The upper bound of a random addition to the wait of a Retry-After
    #[arg(long, value_name = "DURATION", default_value = "0s", hide_short_help = true)]
    pub(crate) retry_after_jitter: String,
    /// From the arrival to the response head that is passed on, all waits included
    #[arg(long, value_name = "DURATION|unlimited", default_value = "120s")]
    pub(crate) total_timeout: String,
    /// From the start of one attempt to its response head
    #[arg(long, value_name = "DURATION", default_value = "60s", hide_short_help = true)]
    pub(crate) attempt_timeout: String,
    /// Whether retries after failures are bounded: in 10 s at most 100 and 20 % of the requests
    #[arg(long, value_name = "on|off", default_value = "on", hide_short_help = true)]
    pub(crate) retry_budget: String,
    /// Statuses (400 to 599) to retry beside 408, 429, 500, 502, 503 and 504, separated by commas
    #[arg(long, value_name = "STATUS,…", value_delimiter = ',', hide_short_help = true)]
    pub(crate) retry_on: Vec<String>,
}

#[derive(Args)]
#[command(next_help_heading = "Retries")]
pub(crate) struct Replay {
    /// The longest request body that is kept for sending it again; a longer one streams
    #[arg(long, value_name = "SIZE", default_value = "1MiB", hide_short_help = true)]
    pub(crate) replay_bytes_max: String,
    /// What is kept of all request bodies together
    #[arg(long, value_name = "SIZE", default_value = "256MiB", hide_short_help = true)]
    pub(crate) replay_bytes_total: String,
}

#[derive(Args)]
#[command(next_help_heading = "Connections")]
pub(crate) struct Connections {
    /// The longest that connecting to the API may take, TLS included
    #[arg(long, value_name = "DURATION", default_value = "5s", hide_short_help = true)]
    pub(crate) connect_timeout: String,
    /// How long a connection is kept without a request, and how long either body may be silent
    #[arg(long, value_name = "DURATION", default_value = "60s", hide_short_help = true)]
    pub(crate) idle_timeout: String,
    /// Whether HTTP/2 is spoken with an API that offers it over TLS
    #[arg(long, value_name = "on|off", default_value = "on", hide_short_help = true)]
    pub(crate) http2: String,
    /// A PEM file of certificate authorities that are trusted beside the system's
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) ca_file: Option<String>,
    /// A PEM file with the certificate that sopan shows to an API which wants to know its clients (mutual TLS)
    ///
    /// The certificates that lead to its authority may follow in the same file. Needs --client-key.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) client_cert: Option<String>,
    /// A PEM file with the private key of --client-cert, without a passphrase; it is never shown
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) client_key: Option<String>,
}

#[derive(Args)]
#[command(next_help_heading = "Passing on")]
pub(crate) struct Passing {
    /// What the API learns of who asked
    ///
    /// off: nothing; Forwarded, X-Forwarded-* and X-Real-IP are taken off, since they would tell a stranger of your inner
    /// network. pass: what the client sent goes on as it is. rfc7239, x-forwarded: the client's address and the host it
    /// asked for are added to what it sent, which is not checked: X-Forwarded-Host and -Proto are replaced, the rest stays.
    #[arg(long, value_name = "off|pass|rfc7239|x-forwarded", default_value = "off", hide_short_help = true)]
    pub(crate) forwarded: String,
    /// Whether links and redirects to the API's own address lead back through sopan
    ///
    /// In Location, Content-Location and Link; links within bodies stay as they are.
    #[arg(long, value_name = "on|off", default_value = "on", hide_short_help = true)]
    pub(crate) rewrite_links: String,
}

/// Flags of `sopan fake-api`.
#[derive(Args)]
pub(crate) struct FakeApi {
    /// Where it listens; port 0 takes a free one, and the address is printed
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8765")]
    pub(crate) listen: String,
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
    /// How it counts that
    #[arg(long, value_name = "bucket|fixed|sliding", default_value = "bucket")]
    pub(crate) window: String,
    /// How a 429 says when to come again
    #[arg(long, value_name = "seconds|imf|rfc850|asctime|none|garbage", default_value = "seconds")]
    pub(crate) retry_after: String,
}

#[derive(Args)]
#[command(next_help_heading = "Faults")]
pub(crate) struct FakeFaults {
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
    /// How they are cut: with FIN, or with RST
    #[arg(long, value_name = "close|reset", default_value = "close")]
    pub(crate) cut: String,
}

#[derive(Args)]
#[command(next_help_heading = "Data")]
pub(crate) struct FakeData {
    /// How many orders there are at the start
    #[arg(long, value_name = "N", default_value = "120")]
    pub(crate) orders_total: String,
    /// How many a page holds when the request does not say
    #[arg(long, value_name = "N", default_value = "50")]
    pub(crate) page_size: String,
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
                let flag = argument.get_long().map_or_else(|| "<URL>".to_owned(), |name| format!("--{name}"));
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
        for text in [EXAMPLES, SERVE_EXAMPLE, FETCH_EXAMPLE, FETCH_RULES, FAKE_EXAMPLE] {
            for line in text.lines().filter(|line| line.starts_with(' ')) {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }

    #[test]
    fn an_unknown_flag_is_told_by_its_name() {
        let told = read(["sopan", "serve", "--bogus"].iter().map(OsString::from)).err().unwrap();
        assert!(told.exit_code() == 2 && told.to_string().contains("'--bogus'"), "{told}");
        let told = read(["sopan", "--version"].iter().map(OsString::from)).err().unwrap();
        assert_eq!((told.exit_code(), told.to_string()), (0, format!("sopan {}\n", env!("CARGO_PKG_VERSION"))));
    }
}
