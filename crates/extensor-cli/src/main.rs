//! The command line of the program `extensor`.

#![forbid(unsafe_code)]

use clap::{CommandFactory, Parser, Subcommand};
use extensor_cli::{check, eval, inspect, ops, predict, train};
use std::io::Write;
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
    /// Train a network; without arguments, LeNet-5 on the built-in MNIST
    ///
    /// Exit codes: 0 when the plan is fulfilled, 130 when it was interrupted (Ctrl-C finishes the step
    /// and saves; a second one ends it at once), 1 when the gradient check failed, 2 for any error.
    Train(Box<train::Arguments>),
    /// Say how good a checkpoint is
    Eval(eval::Arguments),
    /// Ask a trained model about a picture, or let it continue a text
    Predict(predict::Arguments),
    /// Show what is in a checkpoint or any safetensors file
    Inspect(inspect::Arguments),
    /// Prove the gradient of every operation, or of those named
    ///
    /// Exit codes: 0 when all checks passed, 1 when one failed, 130 when --exhaustive --dtype f32 was interrupted (it is taken
    /// up again by the same command), 2 for any error.
    Check(check::Arguments),
    /// List the operations, or show one of them
    Ops(ops::Arguments),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man {
        /// That of a subcommand
        command: Option<String>,
    },
}

fn main() -> ExitCode {
    let passed = |passed: bool| u8::from(!passed);
    let arguments = Arguments::parse();
    let result = extensor::settings::check().and_then(|()| match arguments.command {
        Command::Train(arguments) => train::run(&arguments),
        Command::Eval(arguments) => eval::run(&arguments).map(passed),
        Command::Predict(arguments) => predict::run(&arguments).map(passed),
        Command::Inspect(arguments) => inspect::run(&arguments).map(passed),
        Command::Check(arguments) => check::run(&arguments),
        Command::Ops(arguments) => ops::run(&arguments).map(passed),
        Command::Completions { shell } => completions(shell),
        Command::Man { command } => manual(command.as_deref()),
    });
    match result {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            // Nobody may be there to read it.
            let _ = writeln!(std::io::stderr(), "error: {message}");
            ExitCode::from(2)
        }
    }
}

fn completions(shell: clap_complete::Shell) -> Result<u8, String> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "extensor", &mut text);
    print(&text)
}

fn manual(name: Option<&str>) -> Result<u8, String> {
    let mut command = Arguments::command();
    command.build();
    if let Some(name) = name {
        let Some(found) = command.find_subcommand(name) else {
            return Err(format!("there is no command {name:?}"));
        };
        command = found.clone();
    }
    let mut text = Vec::new();
    let rendered = clap_mangen::Man::new(command).render(&mut text);
    rendered.map_err(|error| error.to_string())?;
    print(&text)
}

/// Prints all of it, or as much as is read.
fn print(text: &[u8]) -> Result<u8, String> {
    match std::io::stdout().lock().write_all(text) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ => Ok(0),
    }
}
