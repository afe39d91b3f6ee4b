//! The program `sopan`; what it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    sopan::run(std::env::args_os())
}
