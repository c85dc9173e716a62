//! The command line of the program `extensor`.

#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use extensor_cli::{check, ops};
use std::process::ExitCode;

/// Tensors in which no gradient is taken on trust.
#[derive(Parser)]
#[command(name = "extensor", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Prove the gradient of every operation, or of those named.
    Check(check::Arguments),
    /// List the operations, or show one of them.
    Ops {
        /// The operation to show.
        name: Option<String>,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Ops { name: None } => ops::list(),
        Command::Ops { name: Some(name) } => ops::show(&name),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}
