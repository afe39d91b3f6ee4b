//! The flags that are settings: made from the table of all settings, and what was typed for them.

use std::marker::PhantomData;
use std::ops::Deref;

use clap::builder::StyledStr;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use crate::config::{GROUPS, Kind, Rank, Section, Setting, Typed, settings};

/// The flags of a command that are settings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags<C> {
    typed: Typed,
    command: PhantomData<C>,
}

/// Which settings a command has.
pub(crate) trait Has {
    fn has(setting: &Setting) -> bool;
}

/// `serve` has all but those of jobs.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfServe;

/// `fetch` has what requests need, and jobs.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfFetch;

/// `explain` has what has a say in what is done with an answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfExplain;

impl Has for OfServe {
    fn has(setting: &Setting) -> bool {
        setting.section != Section::Job
    }
}

impl Has for OfFetch {
    fn has(setting: &Setting) -> bool {
        setting.fetch || setting.section == Section::Job
    }
}

impl Has for OfExplain {
    fn has(setting: &Setting) -> bool {
        const RULES: [&str; 6] = ["breaker", "cache", "max_hold", "wait_max", "total_timeout", "attempt_timeout"];
        matches!(setting.section, Section::Retry | Section::Cache) || RULES.contains(&setting.key)
    }
}

impl<C> Deref for Flags<C> {
    type Target = Typed;

    fn deref(&self) -> &Typed {
        &self.typed
    }
}

impl<C: Has> FromArgMatches for Flags<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self { typed: typed(matches, C::has), command: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<C: Has> Args for Flags<C> {
    fn augment_args(command: Command) -> Command {
        augment(command, C::has)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn augment(mut command: Command, has: fn(&Setting) -> bool) -> Command {
    for group in &GROUPS {
        command = command.next_help_heading(group.heading);
        command = command.args(group.settings.iter().filter(|setting| has(setting)).filter_map(arg));
    }
    command.next_help_heading(None::<&str>)
}

fn arg(setting: &'static Setting) -> Option<Arg> {
    let flag = setting.flag?;
    let arg = Arg::new(flag).long(flag).hide_short_help(setting.rank == Rank::Rare);
    let arg = arg.help(by_flags(setting.summary())).long_help(by_flags(setting.help));
    if setting.kind == Kind::Flag {
        return Some(arg.action(ArgAction::SetTrue));
    }
    let action = if setting.kind.is_list() { ArgAction::Append } else { ArgAction::Set };
    let arg = arg.value_name(setting.kind.placeholder()).action(action);
    let is_one_word = matches!(setting.kind, Kind::Statuses | Kind::Fields);
    let arg = if is_one_word { arg.value_delimiter(',') } else { arg };
    Some(match setting.default {
        // It takes the place of all that is typed, and none of it.
        Some(default) if setting.kind.is_list() => {
            let with = |text: String| format!("{text} [default: {default}]");
            let (summary, rest) = setting.help.split_once("\n\n").unwrap_or((setting.help, ""));
            let long = with(by_flags(summary)) + if rest.is_empty() { "" } else { "\n\n" } + &by_flags(rest);
            arg.help(with(by_flags(setting.summary()))).long_help(StyledStr::from(long))
        }
        Some(default) => arg.default_value(default),
        None => arg,
    })
}

/// The help of a setting, for whoever knows settings by their flags.
fn by_flags(help: &str) -> String {
    let mut told = help.to_owned();
    for setting in settings() {
        if let Some(flag) = setting.typed() {
            told = told.replace(&format!("`{}`", setting.key), &flag);
        }
    }
    told
}

fn typed(matches: &ArgMatches, has: fn(&Setting) -> bool) -> Typed {
    let mut typed = Vec::new();
    for setting in settings().filter(|setting| has(setting)) {
        let Some(flag) = setting.flag else { continue };
        if matches.value_source(flag) != Some(ValueSource::CommandLine) {
            continue;
        }
        let texts = match setting.kind {
            Kind::Flag => vec!["on".to_owned()],
            _ => matches.get_many::<String>(flag).into_iter().flatten().cloned().collect(),
        };
        typed.push((setting, texts));
    }
    Typed::of(typed)
}
