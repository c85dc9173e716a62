//! Which mutant is on: the one whose number `EXTENSOR_MUTANT` is, or none. With
//! `EXTENSOR_MUTANTS_SEEN` none is, and the numbers of those that are asked for go to that file.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const NONE: u32 = u32::MAX - 2;
const SEEN: u32 = u32::MAX - 1;
const UNREAD: u32 = u32::MAX;
static ON: AtomicU32 = AtomicU32::new(UNREAD);

/// Whether a mutant is on.
#[inline(always)]
pub fn on(id: u32) -> bool {
    let on = ON.load(Ordering::Relaxed);
    if on > NONE { look(id) } else { on == id }
}

#[cold]
#[inline(never)]
fn look(id: u32) -> bool {
    if ON.load(Ordering::Relaxed) == UNREAD {
        let asked = std::env::var("EXTENSOR_MUTANT").ok().and_then(|id| id.parse().ok());
        let recorded = std::env::var_os("EXTENSOR_MUTANTS_SEEN").is_some();
        ON.store(asked.unwrap_or(if recorded { SEEN } else { NONE }), Ordering::Relaxed);
    }
    if ON.load(Ordering::Relaxed) == SEEN {
        note(id);
        return false;
    }
    ON.load(Ordering::Relaxed) == id
}

/// Writes down a number that has not been asked for before.
fn note(id: u32) {
    static NOTED: [AtomicBool; 1 << 14] = [const { AtomicBool::new(false) }; 1 << 14];
    let Some(noted) = NOTED.get(id as usize) else { return };
    if noted.load(Ordering::Relaxed) || noted.swap(true, Ordering::Relaxed) {
        return;
    }
    if let Some(path) = std::env::var_os("EXTENSOR_MUTANTS_SEEN") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        // Whoever reads the file sees what is missing.
        let _ = file.and_then(|mut file| file.write_all(format!("{id}\n").as_bytes()));
    }
}
