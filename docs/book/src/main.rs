//! Builds the book: `cargo run --release -p extensor-book [FOLDER]`.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

/// Build the book of ExTensor with the generated reference; open FOLDER/index.html to read it.
#[derive(clap::Parser)]
struct Arguments {
    /// Where to; what is there is replaced
    #[arg(default_value = "target/book")]
    folder: PathBuf,
}

fn main() -> ExitCode {
    let folder = <Arguments as clap::Parser>::parse().folder;
    match extensor_book::assemble::build(&folder) {
        Ok(()) => {
            println!("{}", folder.join("index.html").display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
