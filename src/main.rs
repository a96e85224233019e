//! The command-line program.

mod cli;
#[path = "sync/stdio.rs"]
mod stdio;

fn main() -> std::process::ExitCode {
    cli::main(stdio::stdout_is_closed())
}
