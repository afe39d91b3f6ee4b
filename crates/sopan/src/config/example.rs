//! A settings file with every key, its default and its reason, made from the table.

use std::fmt::Write as _;

use super::setting::{Section, Setting};
use super::table;

/// Room for a line of a comment.
const WIDTH: usize = 110;

const HEAD: &str = "\
# yaml-language-server: $schema=sopan.schema.json
#
# Every setting of sopan with its default. Those that have none stand behind a #, with an example.
# Copy what you need: url is all that must be there.
#
#   sopan check sopan.yaml             what is wrong with it, or what is in force
#   sopan serve --config sopan.yaml    use it; flags count more than it does
#
# In any value ${NAME} stands for a variable of the environment, ${NAME:-text} for text where there is none, and
# ${file:PATH} for what is in a file. Durations: 500ms, 2s, 5m, 1h30m. Sizes: 64KiB, 10MB.
";

const TRACES: &str = "
# The story of single requests, told to whoever draws traces: Jaeger, Tempo, any that takes OTLP.
traces:
";

const REDIS: &str = "
# Where instances of sopan in front of one API share its limits: docs/instances.md.
redis:
";

const DEFAULTS: &str = "
# What counts for every upstream that does not say otherwise: any key of an upstream but url and route.
# defaults:
#   queue: { wait_max: 10s }

# The APIs that requests go to, each by a name of yours that logs and metrics use.
upstreams:
  shop:
";

const CLIENTS: &str = "
# Who may ask, each by a name of yours that logs and metrics use. With this section every request needs a key, and
# without it whoever gets in may ask. `sopan keys new etl` makes a key, and prints the line for here.
# clients:
#   etl:
";

const JOBS: &str = "
# Collections that `sopan fetch --config sopan.yaml --job NAME` gets page by page, each by a name of yours: docs/fetch.md.
# jobs:
#   orders:
";

/// The file as text.
pub(crate) fn example() -> String {
    let mut file = HEAD.to_owned();
    of(Section::Program, 0, &mut file);
    file.push_str(TRACES);
    of(Section::Traces, 2, &mut file);
    file.push_str(REDIS);
    of(Section::Redis, 2, &mut file);
    file.push_str(DEFAULTS);
    of(Section::Upstream, 4, &mut file);
    for section in Section::INNER {
        let Some(key) = section.key() else { continue };
        match table::find(Section::Upstream, key) {
            Some(switch) => {
                let help = format!("{} (`{key}: off` switches it off)", switch.summary());
                comment(&help, 4, &mut file);
                comment(&format!("Why on: {}", switch.why), 4, &mut file);
            }
            None if section == Section::Credential => {
                comment("The key of the API, put into requests in place of what clients send there", 4, &mut file);
                let _ = writeln!(file, "    # {key}:");
                of(section, 6, &mut file);
                continue;
            }
            None => comment("Waiting for a turn", 4, &mut file),
        }
        let _ = writeln!(file, "    {key}:");
        of(section, 6, &mut file);
    }
    for (section, head) in [(Section::Client, CLIENTS), (Section::Job, JOBS)] {
        let mut rows = String::new();
        of(section, 4, &mut rows);
        file.push_str(head);
        for line in rows.lines() {
            let _ = writeln!(file, "# {line}");
        }
    }
    file
}

fn of(section: Section, indent: usize, file: &mut String) {
    let is_section = |setting: &Setting| {
        section == Section::Upstream && Section::INNER.iter().any(|section| section.key() == Some(setting.key))
    };
    for setting in table::settings().filter(|setting| setting.section == section && setting.in_file) {
        if is_section(setting) {
            continue;
        }
        if indent == 0 {
            file.push('\n');
        }
        setting.help.split("\n\n").for_each(|paragraph| comment(paragraph, indent, file));
        let key = setting.key;
        let _ = match (setting.default, setting.example()) {
            (Some(default), _) => {
                comment(&format!("Why {default}: {}", setting.why), indent, file);
                let value = if setting.kind.is_list() { format!("[{default}]") } else { default.to_owned() };
                writeln!(file, "{:indent$}{key}: {value}", "")
            }
            // Without it nothing works.
            (None, example) if key == "url" && section == Section::Upstream => {
                writeln!(file, "{:indent$}{key}: {example}", "")
            }
            (None, example) => writeln!(file, "{:indent$}# {key}: {example}", ""),
        };
    }
}

/// A text as lines of a comment.
fn comment(text: &str, indent: usize, file: &mut String) {
    let mut line = format!("{:indent$}#", "");
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(file, "{line}");
            line = format!("{:indent$}#", "");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(file, "{line}");
}
