//! The flags that are settings: made from the table of all settings, and what was typed for them.

use clap::builder::StyledStr;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use crate::config::{GROUPS, Kind, Rank, Section, Setting, Typed, settings};

/// Those of `serve`: all.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServeFlags(pub(crate) Typed);

/// Those that `fetch` has too.
#[derive(Debug, Clone, Default)]
pub(crate) struct FetchFlags(pub(crate) Typed);

/// Those that have a say in what is done with an answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExplainFlags(pub(crate) Typed);

impl std::ops::Deref for ExplainFlags {
    type Target = Typed;

    fn deref(&self) -> &Typed {
        &self.0
    }
}

impl std::ops::Deref for ServeFlags {
    type Target = Typed;

    fn deref(&self) -> &Typed {
        &self.0
    }
}

impl std::ops::Deref for FetchFlags {
    type Target = Typed;

    fn deref(&self) -> &Typed {
        &self.0
    }
}

fn of_fetch(setting: &Setting) -> bool {
    setting.fetch
}

fn of_explain(setting: &Setting) -> bool {
    const RULES: [&str; 5] = ["breaker", "max_hold", "wait_max", "total_timeout", "attempt_timeout"];
    setting.section == Section::Retry || RULES.contains(&setting.key)
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
    let arg = if setting.kind == Kind::Statuses { arg.value_delimiter(',') } else { arg };
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
    Typed(typed)
}

impl FromArgMatches for ServeFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(typed(matches, |_| true)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ServeFlags {
    fn augment_args(command: Command) -> Command {
        augment(command, |_| true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FetchFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(typed(matches, of_fetch)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for FetchFlags {
    fn augment_args(command: Command) -> Command {
        augment(command, of_fetch)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ExplainFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(typed(matches, of_explain)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ExplainFlags {
    fn augment_args(command: Command) -> Command {
        augment(command, of_explain)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
