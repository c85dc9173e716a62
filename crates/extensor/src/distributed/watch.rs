//! Who watches over ranks that are processes: each tells rank 0 twice a second that it is there, rank 0 tells
//! the others, and what befalls one is told to all.
//!
//! This goes by TCP, on a thread of its own: MPI tells nobody that a process is gone or stopped, and a rank
//! that computes for an hour sends nothing. Time is counted in looks, not by the clock: if all ranks are
//! stopped together (a laptop sleeps), none is missed when they go on.

use super::group::Group;
use super::link::{Kind, Link, Word};
use super::meet::meet;
use crate::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often a rank looks at what others say.
const LOOK: Duration = Duration::from_millis(50);
/// How many looks apart it says that it is there.
const BEAT: u32 = 10;
/// After how many looks without a word a rank is given up: 5 seconds.
const SILENT: u32 = 100;
/// How many looks a rank that knows of a failure has to return from its call before its process is ended:
/// 3 seconds. It may be in a call of MPI's that never returns.
const GRACE: u32 = 60;

/// What befell a rank.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub rank: usize,
    pub reason: String,
    /// Whether it said so itself, and can say it to the user, too.
    pub alive: bool,
}

/// What the group and the thread that watches share.
pub(super) struct Watch {
    rank: usize,
    size: usize,
    /// The failure that all ranks end with: the first that rank 0 heard of.
    failure: OnceLock<Failure>,
    /// This rank's own, to be told.
    own: Mutex<Option<String>>,
    /// Which ranks have gone as they should.
    left: Vec<AtomicBool>,
    leaving: AtomicBool,
    /// Whether the program knows of the failure.
    noticed: AtomicBool,
    /// Whether nobody looks any more.
    over: AtomicBool,
}

impl Watch {
    /// Meets the other ranks; `None` where they cannot reach rank 0 by TCP.
    pub fn start(group: &Group) -> Result<Option<Arc<Watch>>> {
        let Some(links) = meet(group)? else { return Ok(None) };
        let watch = Arc::new(Watch {
            rank: group.rank(),
            size: group.size(),
            failure: OnceLock::new(),
            own: Mutex::new(None),
            left: (0..group.size()).map(|_| AtomicBool::new(false)).collect(),
            leaving: AtomicBool::new(false),
            noticed: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        let shared = watch.clone();
        let named = std::thread::Builder::new().name("extensor-watch".into());
        let started = named.spawn(move || {
            shared.look(links);
            shared.over.store(true, Ordering::Relaxed);
        });
        Ok(started.is_ok().then_some(watch))
    }

    /// What befell a rank, if something did.
    pub fn failure(&self) -> Option<&Failure> {
        let failure = self.failure.get();
        if failure.is_some() {
            self.noticed.store(true, Ordering::Relaxed);
        }
        failure
    }

    /// Whether a rank has gone as it should.
    pub fn has_left(&self, rank: usize) -> bool {
        self.left[rank].load(Ordering::Relaxed)
    }

    /// Tells that this rank has failed. What all ranks end with is known soon after.
    pub fn tell(&self, reason: &str) {
        self.noticed.store(true, Ordering::Relaxed);
        self.own().get_or_insert_with(|| reason.to_string());
    }

    /// What all ranks end with, once that is known, if it is soon.
    pub fn agree(&self, within: Duration) -> Option<&Failure> {
        let started = Instant::now();
        while self.failure.get().is_none() && started.elapsed() < within {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.failure()
    }

    /// Tells that this rank goes as it should, and returns when it has been told.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
        for _ in 0..4 * LOOK.as_millis() {
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether this rank is the one that tells the user about a failure: the one that failed, if it can, or
    /// the first of the others.
    pub fn speaks(&self, failure: &Failure) -> bool {
        match failure.alive {
            true => failure.rank == self.rank,
            false => (0..self.size).find(|&rank| rank != failure.rank) == Some(self.rank),
        }
    }

    fn own(&self) -> MutexGuard<'_, Option<String>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches until all that are watched have gone.
    fn look(&self, mut links: Vec<Link>) {
        let (mut looks, mut told, mut known_for) = (0u32, false, 0);
        while !links.is_empty() || self.is_unnoticed() {
            std::thread::sleep(LOOK);
            looks = looks.wrapping_add(1);
            let mut found = None;
            for link in &mut links {
                self.listen(link, &mut found);
            }
            if let Some(reason) = self.own().clone().filter(|_| !told) {
                told = true;
                let failure = Failure { rank: self.rank, reason, alive: true };
                match self.rank {
                    0 => found = found.or(Some(failure)),
                    _ => links.iter_mut().for_each(|link| link.say(&Word::of(&failure))),
                }
            }
            if let Some(failure) = found.filter(|_| self.failure.get().is_none()) {
                if self.rank == 0 {
                    links.iter_mut().for_each(|link| link.say(&Word::of(&failure)));
                }
                let _ = self.failure.set(failure);
            }
            if let Some(failure) = self.failure.get() {
                known_for += 1;
                if known_for > GRACE && self.is_unnoticed() {
                    self.end(failure);
                }
            }
            if looks.is_multiple_of(BEAT) {
                links.iter_mut().for_each(|link| link.say(&Word::new(Kind::Beat, self.rank)));
            }
            if self.leaving.load(Ordering::Relaxed) {
                for link in &mut links {
                    link.say(&Word::new(Kind::Goodbye, self.rank));
                    link.close();
                }
                return;
            }
            let gone: Vec<usize> =
                links.iter().filter(|link| link.gone).map(|link| link.rank).collect();
            links.retain(|link| !link.gone);
            for rank in gone.into_iter().filter(|_| self.rank == 0) {
                links.iter_mut().for_each(|link| link.say(&Word::new(Kind::Goodbye, rank)));
            }
        }
    }

    /// Whether there was a failure of which the program does not know.
    fn is_unnoticed(&self) -> bool {
        self.failure.get().is_some() && !self.noticed.load(Ordering::Relaxed)
    }

    /// Takes in what a rank says, and how long it has said nothing.
    fn listen(&self, link: &mut Link, found: &mut Option<Failure>) {
        let (words, open) = link.hear();
        link.silent = if words.is_empty() { link.silent + 1 } else { 0 };
        for word in words {
            match word.kind {
                Kind::Beat => {}
                Kind::Goodbye => {
                    if let Some(left) = self.left.get(word.rank) {
                        left.store(true, Ordering::Relaxed);
                    }
                    link.gone |= word.rank == link.rank;
                }
                Kind::Failed | Kind::Lost => {
                    let (rank, reason) = (word.rank, word.text);
                    let alive = word.kind == Kind::Failed;
                    found.get_or_insert(Failure { rank, reason, alive });
                }
            }
        }
        if link.gone {
            return;
        }
        let seconds = LOOK.as_secs_f64() * f64::from(SILENT);
        let reason = match (open, link.silent) {
            (false, _) => "has ended without a word".to_string(),
            (true, silent) if silent > SILENT => format!("has not answered for {seconds} seconds"),
            _ => return,
        };
        link.gone = !open;
        found.get_or_insert(Failure { rank: link.rank, reason, alive: false });
    }

    /// Ends a process whose program does not come back to be told.
    fn end(&self, failure: &Failure) -> ! {
        if self.speaks(failure) {
            eprintln!("error: rank {} {}", failure.rank, failure.reason);
        }
        std::process::exit(1)
    }
}
