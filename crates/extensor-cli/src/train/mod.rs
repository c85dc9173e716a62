//! `extensor train`.

pub mod config;
