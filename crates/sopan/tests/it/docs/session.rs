//! Runs blocks of a page one after the other, as somebody does who copies them into one shell.
//!
//! One shell in a directory of its own, with `sopan`, and the Python of the recipes where it is installed, on its path.
//! The ports that pages name are taken by everybody's programs, so free ones stand for them, in the text of the blocks and
//! for a `sopan` that is not told where to listen. What the shell started ends with it.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::page::{Block, Does, commands, is_as_shown};

/// The longest that the blocks of a page or of a section of recipes may take.
const SESSION_MAX: Duration = Duration::from_secs(100);

/// Where a page means the machine itself. The port follows.
const HERE: &str = "127.0.0.1:";

/// Where pages expect `sopan serve`, its admin page, and `sopan fake-api`.
pub(super) const SERVE: u16 = 8000;
const ADMIN: u16 = 8001;
pub(super) const FAKE: u16 = 8765;

/// Who is what is written where a page means 127.0.0.1:8000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Through {
    Sopan,
    /// As if there were no sopan: straight to the API.
    Nothing,
}

/// A shell to be.
#[derive(Debug)]
pub(super) struct Session {
    page: String,
    through: Through,
    dir: TempDir,
    /// Which port stands for which.
    ports: RefCell<Vec<(u16, u16)>>,
    /// Run at the end, where all went well.
    last: String,
}

/// What is left when a shell has ended well.
#[derive(Debug)]
pub(super) struct Done {
    dir: TempDir,
}

impl Done {
    pub(super) fn read(&self, file: &str) -> String {
        fs::read_to_string(work(&self.dir).join(file)).unwrap()
    }
}

fn work(dir: &TempDir) -> PathBuf {
    dir.path().join("work")
}

/// Where `./test.sh` installs what the recipes need.
pub(super) fn python() -> PathBuf {
    super::root().join("target/recipes")
}

impl Session {
    pub(super) fn new(page: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let session = Self {
            page: page.to_owned(),
            through: Through::Sopan,
            dir,
            ports: RefCell::default(),
            last: String::new(),
        };
        session.install();
        session
    }

    pub(super) fn through(self, through: Through) -> Self {
        Self { through, ..self }
    }

    pub(super) fn then(mut self, command: &str) -> Self {
        self.last = self.with_free_ports(command);
        self
    }

    /// # Errors
    /// Where a command failed, or printed something else than the page shows: what was seen.
    pub(super) fn run(self, blocks: &[Block]) -> Result<Done, String> {
        self.run_prepared(&[], blocks)
    }

    /// The same after other blocks, which go through sopan in any case.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    pub(super) fn run_prepared(self, before: &[Block], blocks: &[Block]) -> Result<Done, String> {
        let mut script = "set -eo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n".to_owned();
        let mut compared = Vec::new();
        self.write(&mut script, &mut compared, before);
        if self.through == Through::Nothing {
            let fake = self.free_port(FAKE);
            self.ports.borrow_mut().retain(|(port, _)| *port != SERVE);
            self.ports.borrow_mut().push((SERVE, fake));
        }
        self.write(&mut script, &mut compared, blocks);
        script += &self.last;
        let ended_well = self.shell(&script);
        let said = self.as_on_the_page(&fs::read_to_string(self.file("said")).unwrap_or_default());
        if !ended_well {
            let at = fs::read_to_string(self.file("at")).unwrap_or_default();
            return Err(format!("{} at line {} fails:\n{said}", self.page, at.trim_end()));
        }
        for (line, file, shown) in compared {
            let printed = self.as_on_the_page(&fs::read_to_string(self.file(&file)).unwrap());
            if !is_as_shown(&printed, &shown) {
                return Err(format!("{} at line {line} prints\n{printed}\nand not\n{shown}\n", self.page));
            }
        }
        Ok(Done { dir: self.dir })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The blocks as a script, which keeps in files where it is and what was printed.
    fn write(&self, script: &mut String, compared: &mut Vec<(usize, String, String)>, blocks: &[Block]) {
        let (at, said) = (self.file("at"), self.file("said"));
        for block in blocks {
            let text = self.with_free_ports(&block.text);
            let mut run = |typed: &str, file: &Path, or: &str| {
                let (line, at, file) = (block.line, at.display(), file.display());
                let _ = writeln!(script, "echo {line} >{at}\n{{\n{typed}\n}} >>{file} 2>&1 {or}");
            };
            match &block.does {
                Does::Run => run(&text, &said, ""),
                Does::RunAndCompare => {
                    for command in commands(&text) {
                        let file = format!("printed-{}", compared.len());
                        // What fails says so, and that is compared.
                        run(&command.typed, &self.file(&file), "|| true");
                        compared.push((block.line, file, self.as_on_the_page(&command.prints)));
                    }
                }
                Does::Save { name } => {
                    assert!(!name.contains('/'), "{name} is no name of a file");
                    fs::write(work(&self.dir).join(name), text).unwrap();
                    // Settings that a page shows can be used.
                    if [".yaml", ".toml", ".json"].iter().any(|ending| name.ends_with(ending)) {
                        run(&format!("sopan check {name}"), &said, "");
                    }
                }
                Does::Look | Does::Shown { .. } | Does::Unclear => {}
            }
        }
    }

    /// Whether the script ends well, and in time.
    fn shell(&self, script: &str) -> bool {
        fs::write(self.file("script"), script).unwrap();
        let usual = std::env::var("PATH").unwrap();
        let path = format!("{}:{}:{usual}", self.file("bin").display(), python().join("bin").display());
        let mut shell = Command::new("bash")
            .arg(self.file("script"))
            .current_dir(work(&self.dir))
            .env_clear()
            .envs([("PATH", &*path), ("LANG", "C.UTF-8"), ("HOME", self.dir.path().to_str().unwrap())])
            // dlt tells its makers of every run, unless it is told not to.
            .env("RUNTIME__DLTHUB_TELEMETRY", "false")
            // The Node of Debian 12 says of every fetch that it is new.
            .env("NODE_NO_WARNINGS", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.file("shell")).unwrap())
            .process_group(0)
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let status = loop {
            match shell.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if begun.elapsed() > SESSION_MAX => break None,
                None => thread::sleep(Duration::from_millis(20)),
            }
        };
        // Nothing of it stays, whatever it was.
        let kill = format!("kill -KILL -{} 2>/dev/null", shell.id());
        let _ = Command::new("sh").args(["-c", &kill]).status();
        let _ = shell.wait();
        status.is_some_and(|status| status.success())
    }

    /// `sopan` as it is called on pages: from the path, or from where it was built.
    fn install(&self) {
        let built = work(&self.dir).join("target/release");
        fs::create_dir_all(&built).unwrap();
        fs::create_dir_all(self.file("bin")).unwrap();
        let [serve, admin, fake] = [SERVE, ADMIN, FAKE].map(|port| self.free_port(port));
        let program = env!("CARGO_BIN_EXE_sopan");
        let wrapper = format!(
            r#"#!/bin/bash
usual() {{ [[ " ${{args[*]}}" == *" $1"[\ =]* ]] || args+=("$1" "127.0.0.1:$2"); }}
args=("$@")
case "$1" in
serve) usual --listen {serve}; usual --admin {admin} ;;
fake-api) usual --listen {fake} ;;
esac
exec {program} "${{args[@]}}"
"#
        );
        let file = self.file("bin/sopan");
        fs::write(&file, wrapper).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        symlink(file, built.join("sopan")).unwrap();
    }

    fn with_free_ports(&self, text: &str) -> String {
        self.replace_ports(text, |port| self.free_port(port))
    }

    fn as_on_the_page(&self, text: &str) -> String {
        let known = self.ports.borrow().clone();
        self.replace_ports(text, |free| {
            known.iter().find(|(_, stands)| *stands == free).map_or(free, |(port, _)| *port)
        })
    }

    fn replace_ports(&self, text: &str, mut replace: impl FnMut(u16) -> u16) -> String {
        let mut pieces = text.split(HERE);
        let mut replaced = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
            replaced += HERE;
            match piece[..digits].parse() {
                Ok(port) if port != 0 => replaced += &replace(port).to_string(),
                _ => replaced += &piece[..digits],
            }
            replaced += &piece[digits..];
        }
        replaced
    }

    /// The port that stands for this one, always the same within a session.
    fn free_port(&self, port: u16) -> u16 {
        let known = self.ports.borrow().iter().find(|(known, _)| *known == port).map(|(_, stands)| *stands);
        known.unwrap_or_else(|| {
            let stands = free_port();
            self.ports.borrow_mut().push((port, stands));
            stands
        })
    }
}

/// A port that is free and stays so: below those that systems give to whoever asks for any, and different in processes that
/// run side by side.
fn free_port() -> u16 {
    const FIRST: u16 = 10_000;
    const COUNT: u16 = 20_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let process = u16::try_from(std::process::id().wrapping_mul(61) % u32::from(COUNT)).unwrap();
    loop {
        let port = FIRST + (process + NEXT.fetch_add(1, Relaxed) % 10_000) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
