//! sopan, a polite HTTP proxy: the doors through which people and programs come in, and the wiring behind them.
//!
//! | module | question it answers |
//! |---|---|
//! | `cli` | what was typed? |
//! | `config` | what does it mean, and is it allowed? |
//! | `check` | is a settings file right, and what does it say? |
//! | `serve` | who connects, and what becomes of their requests? |
//! | `sockets` | what is listened on already? |
//! | `admin` | what is going on? |
//! | `ask` | what does a sopan that runs say of itself? |
//! | `status`, `top` | how is that shown, once and all the time? |
//! | `keys` | what does a key look like, and by what is it known? |
//! | `fetch` | what does this URL say, or all that it leads to? |
//! | `explain` | what would be done with such an answer? |
//! | `fake` | how does it behave against a rate-limited API? |
//! | `demo` | what is sopan good for? |
//! | `man` | what does a manual say, and a shell need to know? |
//! | `log` | how is it told? |
//! | `traces` | what became of single requests, for whoever draws that? |
//! | `version` | which sopan is this? |
//!
//! The program itself is a line around [`run`], which other code can start in process too, as the fuzz targets do.

mod admin;
mod ask;
mod check;
mod cli;
mod config;
mod demo;
mod explain;
mod fake;
mod fetch;
mod keys;
mod log;
mod man;
mod serve;
mod sockets;
mod status;
mod top;
mod traces;
mod version;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// A wrong flag, setting, certificate or port: nothing was started.
const WRONG_SETTINGS: u8 = 2;
/// What came is not what was meant to come.
const WRONG_DATA: u8 = 65;
/// It may succeed later.
const TRANSIENT: u8 = 75;
/// Something must be mended first.
const PERMANENT: u8 = 76;
/// Ended by SIGINT: 128 and the number of the signal, as shells count.
const INTERRUPTED: u8 = 130;

/// Does what a command line says, its first word being the name of the program, and answers with the exit code when that
/// is done. For `serve` this is after a signal: it listens to SIGINT and SIGTERM of the whole process, and logs for it.
///
/// Exit codes: 0 done · 2 a flag or setting is wrong · 65 data is not what it was to be · 75 it may succeed later · 76 something must be mended first · 130
/// interrupted.
///
/// A flag that nobody knows, `--help` and `--version` end the process, after what there is to say has been said.
pub fn run(args: impl IntoIterator<Item = impl Into<OsString>>) -> ExitCode {
    let done = match cli::parse(args.into_iter().map(Into::into)).command {
        cli::Command::Demo(typed) => demo(&typed),
        cli::Command::Serve(typed) => serve(&typed),
        cli::Command::Check(typed) => check(&typed),
        cli::Command::Example => told(print(config::example().as_bytes())),
        cli::Command::Schema => told(print(config::schema().as_bytes())),
        cli::Command::Status(typed) => status(&typed),
        cli::Command::Top(typed) => top(&typed),
        cli::Command::Keys(cli::Keys { command: cli::KeysCommand::New(typed) }) => new_key(&typed),
        cli::Command::Fetch(typed) => fetch(&typed),
        cli::Command::Plan(typed) => plan(&typed),
        cli::Command::Explain(typed) => explain(&typed),
        cli::Command::FakeApi(typed) => fake(&typed),
        cli::Command::Completions(typed) => told(print(&man::completions(typed.shell))),
        cli::Command::Man(typed) => man(&typed),
    };
    done.map_or_else(ExitCode::from, |()| ExitCode::SUCCESS)
}

fn demo(typed: &cli::Demo) -> Result<(), u8> {
    demo::run(config::demo(typed)).map_err(|failure| match failure {
        demo::Failure::Setup(error) => complain(config::Format::Text, &error, TRANSIENT),
        demo::Failure::Output(error) => complain(config::Format::Text, &error, PERMANENT),
        demo::Failure::Interrupted => INTERRUPTED,
    })
}

/// Answers with an exit code where it does not succeed. The proxy fails only before it has started.
fn serve(typed: &cli::Serve) -> Result<(), u8> {
    let sockets = told(sockets::take())?;
    let handed = told(sockets.addresses().map_err(anyhow::Error::from))?;
    let loaded = config::load(typed.config.as_deref(), &typed.settings.listening(&handed));
    let in_force = check::in_force_of(typed.config.as_deref(), &loaded);
    let settings = config::settled(loaded).map_err(|wrong| refuse(&wrong))?;
    let format = settings.log;
    let names = || settings.upstreams.iter().map(|served| served.name.as_str());
    let log = log::start(log::Form::new(format, names())).map_err(|error| {
        say(&format_args!("error: no thread can be started that writes the log: {error}"));
        WRONG_SETTINGS
    })?;
    let access_log = settings.access_log.then(|| log.access());
    let clients = settings.clients.iter().flat_map(|clients| &clients.clients).map(|client| client.name.clone());
    let metrics = admin::Metrics::with_clients(names().map(str::to_owned), clients, access_log);
    serve::run(settings, in_force, metrics, sockets).map_err(|error| complain(format, &error, WRONG_SETTINGS))
}

/// Tells what is wrong on standard error, and what is in force on standard output.
fn check(typed: &cli::Check) -> Result<(), u8> {
    let told = check::run(typed).map_err(|wrong| refuse(&wrong))?;
    if let Some(wrong) = told.wrong {
        say(&wrong.told(config::wants_colours(&io::stderr())).trim_end());
    }
    self::told(print(told.out.as_bytes()))?;
    if told.is_right { Ok(()) } else { Err(WRONG_SETTINGS) }
}

fn status(typed: &cli::Status) -> Result<(), u8> {
    let settings = config::watch(&typed.watch, typed.json).map_err(|wrong| refuse(&wrong))?;
    let told = status::run(&settings).map_err(|unknown| {
        let code = match unknown {
            ask::Unknown::Away { .. } => TRANSIENT,
            ask::Unknown::Refused { .. } => PERMANENT,
        };
        complain(config::Format::Text, &unknown, code)
    })?;
    self::told(print(told.as_bytes()))
}

fn top(typed: &cli::Watch) -> Result<(), u8> {
    let settings = config::watch(typed, false).map_err(|wrong| refuse(&wrong))?;
    told(top::run(&settings, config::wants_colours(&io::stdout())))
}

fn new_key(typed: &cli::KeysNew) -> Result<(), u8> {
    let settings = config::new_key(typed).map_err(|wrong| refuse(&wrong))?;
    told(keys::new(&settings).and_then(|text| print(text.as_bytes())))
}

fn fetch(typed: &cli::Fetch) -> Result<(), u8> {
    let settings = config::fetch(typed).map_err(|wrong| refuse(&wrong))?;
    let (format, failures) = match settings {
        config::Fetch::Single(settings) => {
            log::start_direct(settings.log, io::stderr);
            (settings.log, fetch::get(*settings).err().into_iter().collect())
        }
        config::Fetch::Jobs(settings) => {
            let line = fetch::Line::new(settings.telling);
            log::start_direct(settings.log, line.clone());
            (settings.log, fetch::run(*settings, line))
        }
    };
    // What must be mended comes before what may pass.
    failures.into_iter().map(|failure| failed(format, failure)).max().map_or(Ok(()), Err)
}

fn plan(typed: &cli::Plan) -> Result<(), u8> {
    let (settings, by) = config::plan(typed).map_err(|wrong| refuse(&wrong))?;
    let format = settings.log;
    log::start_direct(format, io::stderr);
    let told = fetch::plan(settings, by.as_ref()).map_err(|failure| failed(format, failure))?;
    self::told(print(told.out.as_bytes()))?;
    if told.is_in_time { Ok(()) } else { Err(PERMANENT) }
}

/// Tells what failed, and answers with the exit code.
fn failed(format: config::Format, failure: fetch::Failure) -> u8 {
    match failure {
        fetch::Failure::Setup(error) => complain(format, &error, WRONG_SETTINGS),
        fetch::Failure::Settings(message) => complain(format, &message, WRONG_SETTINGS),
        fetch::Failure::Data(message) => complain(format, &message, WRONG_DATA),
        fetch::Failure::Transient(message) => complain(format, &message, TRANSIENT),
        fetch::Failure::Permanent(message) => complain(format, &message, PERMANENT),
        fetch::Failure::Interrupted(message) => {
            message.iter().for_each(|message| _ = complain(format, message, INTERRUPTED));
            INTERRUPTED
        }
    }
}

fn explain(typed: &cli::Explain) -> Result<(), u8> {
    let settings = config::explain(typed).map_err(|wrong| refuse(&wrong))?;
    told(explain::run(settings))
}

/// Pages into a directory, or the first of them to whoever reads standard output.
fn man(typed: &cli::Man) -> Result<(), u8> {
    told(match &typed.dir {
        Some(dir) => man::write_pages(dir.as_ref()),
        None => print(&man::main_page()),
    })
}

fn fake(typed: &cli::FakeApi) -> Result<(), u8> {
    let settings = config::fake(typed).map_err(|wrong| refuse(&wrong))?;
    told(fake::run(settings))
}

/// What went wrong in a command without a log.
fn told<T>(done: anyhow::Result<T>) -> Result<T, u8> {
    done.map_err(|error| complain(config::Format::Text, &error, WRONG_SETTINGS))
}

fn refuse(wrong: &config::Wrong) -> u8 {
    say(&wrong.told(config::wants_colours(&io::stderr())).trim_end());
    WRONG_SETTINGS
}

/// The error with its causes on one line, in the form of the log where that is for programs.
fn complain(format: config::Format, error: &dyn Display, code: u8) -> u8 {
    match format {
        config::Format::Text => say(&format_args!("error: {error:#}")),
        config::Format::Json => tracing::error!(exit_code = code, "{error:#}"),
    }
    code
}

/// Writes what was asked for to standard output. Where its reader closes it early, as `head` does, it had enough.
fn print(text: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::anyhow!("standard output cannot be written to: {error}"))
        }
        _ => Ok(()),
    }
}

/// Tells whoever started the program. Where nobody listens, the exit code must do.
fn say(text: &dyn Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
