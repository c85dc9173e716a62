//! Every block of Rust in the book compiles, runs, and prints what the page says. The tests are made by `build.rs`, one a
//! block, named after its page and line; a block's lines have the same numbers in the source that the compiler sees.

#![allow(clippy::all, missing_docs, unused, unnameable_test_items)]

use std::cell::RefCell;
use std::fmt::{Arguments, Display, Write};
use std::sync::Once;

thread_local! {
    static PRINTED: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What the blocks' `print!` and `println!` call.
fn write(text: Arguments) {
    PRINTED.with_borrow_mut(|printed| printed.write_fmt(text).expect("a string takes it"));
}

macro_rules! print {
    ($($text:tt)*) => { crate::write(format_args!($($text)*)) };
}

macro_rules! println {
    () => { crate::write(format_args!("\n")) };
    ($($text:tt)*) => { { crate::write(format_args!($($text)*)); crate::write(format_args!("\n")); } };
}

/// What a block's `fn main()` may return.
trait Outcome {
    fn result(self) -> extensor::Result<()>;
}

impl Outcome for () {
    fn result(self) -> extensor::Result<()> {
        Ok(())
    }
}

impl Outcome for extensor::Result<()> {
    fn result(self) -> extensor::Result<()> {
        self
    }
}

/// Runs a block and compares what it printed, and its error if it is to fail, with the output on the page.
fn run(
    page: &str,
    line: usize,
    shown: Option<&str>,
    should_fail: bool,
    block: impl FnOnce() -> extensor::Result<()>,
) {
    static FOLDER: Once = Once::new();
    FOLDER.call_once(|| {
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("book-rust");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::env::set_current_dir(&folder).unwrap();
    });
    let result = block();
    let mut printed = PRINTED.take();
    match result {
        Ok(()) if should_fail => panic!("pages/{page}:{line}: should fail, and did not"),
        Err(error) if should_fail => printed.push_str(&error.to_string()),
        Err(error) => panic!("pages/{page}:{line}: {error}"),
        Ok(()) => {}
    }
    if let Some(difference) = extensor_book::compare::difference(shown.unwrap_or(""), &printed) {
        panic!("pages/{page}:{line}: {difference}");
    }
}

/// What the code in tables of names (`Rust` in the heading, pages in `coming-from/`) may use without saying where it comes from; it is compiled, not run.
mod given {
    pub use extensor::check::Options;
    pub use extensor::ops::*;
    pub use extensor::prelude::*;
    pub use extensor::{autodiff, check, compile, data, debug, gradients, io, metrics, nn, ops};
    pub use extensor::{optim, precision, threads, train};

    pub struct Given {
        pub x: Tensor,
        pub y: Tensor,
        pub w: Tensor,
        pub b: Tensor,
        pub labels: Tensor,
        pub index: Tensor,
        pub mask: Tensor,
        pub key: Key,
        pub model: nn::models::Mlp,
        pub grads: nn::models::Mlp,
        pub optimizer: optim::AdamW,
        pub state: optim::State<nn::models::Mlp>,
        pub layer: nn::Linear,
        pub loader: data::Loader,
    }
}

include!(concat!(env!("OUT_DIR"), "/rust_blocks.rs"));
