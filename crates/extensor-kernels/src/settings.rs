//! What the environment says: every `EXTENSOR_…` variable that the library reads, in one place.
//!
//! A value that means nothing is an error, found when it is first needed or by [`check`]: a switch
//! that is silently not thrown is worse than none. This module must not know what settings do.

use crate::isa::{Isa, Unit};
use std::sync::OnceLock;

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    /// `EXTENSOR_ISA`: no better instructions than these.
    pub isa: Option<Isa>,
    /// Likewise: no better unit than this.
    pub unit: Option<Unit>,
    /// `EXTENSOR_THREADS`: how many.
    pub threads: Option<usize>,
    /// `EXTENSOR_POOL_MIB`: how many MiB of free memory are kept for reuse.
    pub pool_mib: Option<usize>,
    /// `EXTENSOR_POISON`: whether fresh memory is full of NaN.
    pub poison: bool,
}

impl Settings {
    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Settings, String> {
        let number = |name: &str, least: usize, expected: &str| match variable(name) {
            None => Ok(None),
            Some(text) => match text.parse::<usize>() {
                Ok(number) if number >= least => Ok(Some(number)),
                _ => Err(format!("{name} is {text:?}, expected {expected}")),
            },
        };
        let (isa, unit) = match variable("EXTENSOR_ISA").as_deref() {
            None => (None, None),
            Some("base") => (Some(Isa::Base), Some(Unit::None)),
            Some("v3") => (Some(Isa::V3), Some(Unit::None)),
            Some("v4") => (Some(Isa::V4), Some(Unit::None)),
            Some("bf16") => (Some(Isa::V4), Some(Unit::Bf16)),
            Some("amx") => (Some(Isa::V4), Some(Unit::Amx)),
            Some(text) => {
                let expected = "base, v3, v4, bf16 or amx";
                return Err(format!("EXTENSOR_ISA is {text:?}, expected {expected}"));
            }
        };
        let poison = match variable("EXTENSOR_POISON").as_deref() {
            None | Some("0") => false,
            Some("1") => true,
            Some(text) => return Err(format!("EXTENSOR_POISON is {text:?}, expected 0 or 1")),
        };
        Ok(Settings {
            isa,
            unit,
            threads: number("EXTENSOR_THREADS", 1, "a whole number from 1 up")?,
            pool_mib: number("EXTENSOR_POOL_MIB", 0, "a whole number of MiB")?,
            poison,
        })
    }
}

fn read() -> &'static Result<Settings, String> {
    static SETTINGS: OnceLock<Result<Settings, String>> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        Settings::read(|name| {
            std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
        })
    })
}

/// What is wrong with the environment's settings, in a sentence.
pub fn check() -> Result<(), String> {
    read().as_ref().map(|_| ()).map_err(Clone::clone)
}

/// The settings.
///
/// # Panics
/// If one of them means nothing. A program that wants to say so itself calls [`check`] first.
pub(crate) fn settings() -> &'static Settings {
    match read() {
        Ok(settings) => settings,
        Err(error) => panic!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Isa, Settings, Unit};

    fn of(name: &'static str, value: &'static str) -> Result<Settings, String> {
        Settings::read(|asked| (asked == name).then(|| value.to_string()))
    }

    #[test]
    fn values_that_mean_nothing_are_errors_that_say_what_is_expected() {
        for (name, value, expected) in [
            (
                "EXTENSOR_ISA",
                "avx2",
                "EXTENSOR_ISA is \"avx2\", expected base, v3, v4, bf16 or amx",
            ),
            ("EXTENSOR_ISA", "", "EXTENSOR_ISA is \"\", expected base, v3, v4, bf16 or amx"),
            ("EXTENSOR_THREADS", "two", "EXTENSOR_THREADS is \"two\", expected a whole number"),
            ("EXTENSOR_THREADS", "0", "EXTENSOR_THREADS is \"0\", expected a whole number from 1"),
            ("EXTENSOR_THREADS", "-1", "EXTENSOR_THREADS is \"-1\""),
            ("EXTENSOR_POOL_MIB", "1.5", "EXTENSOR_POOL_MIB is \"1.5\""),
            ("EXTENSOR_POISON", "yes", "EXTENSOR_POISON is \"yes\", expected 0 or 1"),
        ] {
            let error = of(name, value).expect_err(value);
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn values_that_mean_something_are_what_they_say() {
        let none = Settings::default();
        assert_eq!(of("NOTHING", "1"), Ok(none.clone()));
        for (text, isa, unit) in [
            ("base", Isa::Base, Unit::None),
            ("v3", Isa::V3, Unit::None),
            ("v4", Isa::V4, Unit::None),
            ("bf16", Isa::V4, Unit::Bf16),
            ("amx", Isa::V4, Unit::Amx),
        ] {
            let settings = Settings { isa: Some(isa), unit: Some(unit), ..none.clone() };
            assert_eq!(of("EXTENSOR_ISA", text), Ok(settings));
        }
        let threads = Settings { threads: Some(3), ..none.clone() };
        assert_eq!(of("EXTENSOR_THREADS", "3"), Ok(threads));
        let pool = Settings { pool_mib: Some(0), ..none.clone() };
        assert_eq!(of("EXTENSOR_POOL_MIB", "0"), Ok(pool));
        assert_eq!(of("EXTENSOR_POISON", "1"), Ok(Settings { poison: true, ..none }));
    }
}
