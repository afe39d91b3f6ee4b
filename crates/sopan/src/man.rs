//! What does a manual say, and a shell need to know, of the command line?
//!
//! Both are made from the very definition by which the command line is read, so that they cannot fall behind it.

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::Cli;
use crate::version;

/// What a shell of this kind must run to complete command lines of sopan.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    let mut program = Cli::command().mut_subcommands(|command| command.mut_args(with_values));
    clap_complete::generate(shell, &mut program, NAME, &mut script);
    script
}

/// A flag that takes one of a few words, with these words: its placeholder has them, `give-up|cap`, beside what is no word, as
/// the `DURATION` of `DURATION|unlimited`.
fn with_values(arg: Arg) -> Arg {
    let is_word =
        |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let placeholder = arg.get_value_names().and_then(<[_]>::first).map(ToString::to_string).unwrap_or_default();
    let words: Vec<_> = placeholder.split('|').filter(is_word).map(str::to_owned).collect();
    if words.is_empty() || !arg.get_action().takes_values() {
        return arg;
    }
    arg.value_parser(PossibleValuesParser::new(words))
}

const NAME: &str = "sopan";

/// The page of the whole program.
pub(crate) fn main_page() -> Vec<u8> {
    render(&page(program()))
}

/// Writes every page into a directory, which is made where it is not there.
///
/// # Errors
/// A page cannot be written.
pub(crate) fn write_pages(dir: &Path) -> anyhow::Result<()> {
    let fail = || format!("--dir: `{}` cannot be written to", dir.display());
    fs::create_dir_all(dir).with_context(fail)?;
    for page in pages() {
        fs::write(dir.join(page.get_filename()), render(&page)).with_context(fail)?;
    }
    Ok(())
}

/// The page of the program, those of its commands, and those of theirs.
fn pages() -> Vec<Man> {
    let program = program();
    let commands = program.get_subcommands().flat_map(|command| [command].into_iter().chain(command.get_subcommands()));
    let pages: Vec<_> = commands.map(|command| page(command.clone())).collect();
    [page(program)].into_iter().chain(pages).collect()
}

/// The definition of the command line, complete with the names of its commands. `help` has no page: it shows others'.
fn program() -> Command {
    let program = Cli::command().mut_subcommands(|command| command.disable_help_subcommand(true));
    let mut program = program.disable_help_subcommand(true).long_version(version::short());
    program.build();
    program
}

fn page(command: Command) -> Man {
    let source = format!("{NAME} {}", version::NUMBER);
    Man::new(command).date(version::DATE.unwrap_or_default()).source(source).manual("Manual of sopan")
}

fn render(page: &Man) -> Vec<u8> {
    let mut text = Vec::new();
    page.render(&mut text).expect("memory takes everything");
    // What stands there begins with an example on every page, and that is the name by which readers of manuals look for it.
    String::from_utf8(text).expect("pages are text").replacen(".SH EXTRA\n", ".SH EXAMPLES\n", 1).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of a page without what only its layout needs.
    fn text(page: &Man) -> String {
        String::from_utf8(render(page)).unwrap().replace('\\', "")
    }

    #[test]
    fn every_command_has_a_page_that_names_every_flag() {
        let pages = pages();
        let named = |name: &str| pages.iter().find(|page| page.get_filename() == name).map(text).unwrap_or_default();
        let program = program();
        let mut commands: Vec<_> = program.get_subcommands().map(|command| ("sopan", command)).collect();
        commands
            .extend(program.find_subcommand("keys").unwrap().get_subcommands().map(|command| ("sopan keys", command)));
        assert_eq!(pages.len(), commands.len() + 1);
        for (of, command) in commands {
            let name = format!("{of} {}", command.get_name());
            let page = named(&format!("{}.1", name.replace(' ', "-")));
            assert_eq!((page.matches(".SH EXAMPLES").count(), page.matches("EXTRA").count()), (1, 0), "{name}: {page}");
            assert!(page.starts_with(".ie") && page.contains(&format!("fB{name}fR")), "{name}: {page}");
            for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
                assert!(page.contains(&format!("fB--{flag}fR")), "--{flag} is missing in {name}: {page}");
            }
            let main = named(&format!("{}.1", of.replace(' ', "-")));
            assert!(main.contains(&format!("{}(1)", name.replace(' ', "-"))), "{name}: {main}");
        }
    }

    #[test]
    fn every_shell_is_told_every_command_and_flag() {
        let program = program();
        for shell in [Shell::Bash, Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
            let script = String::from_utf8(completions(shell)).unwrap();
            for command in program.get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
                for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
                    assert!(script.contains(flag), "{shell}: --{flag}");
                }
            }
        }
    }
}
