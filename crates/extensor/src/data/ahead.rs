//! Things made one after the other, by a thread that is a few ahead. It must not know what they are.

use super::loader::bad;
use crate::Result;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

/// What an iterator gives, made when it is asked for or ahead of that by a thread.
///
/// Dropping it ends the thread.
pub(super) enum Ahead<T> {
    Here(Box<dyn Iterator<Item = Result<T>> + Send>),
    Thread { receiver: Option<Receiver<Result<T>>>, thread: Option<JoinHandle<()>> },
}

impl<T: Send + 'static> Ahead<T> {
    /// With so many made ahead by a thread; 0: each is made when it is asked for.
    pub fn new(
        maker: impl Iterator<Item = Result<T>> + Send + 'static,
        count: usize,
    ) -> Result<Ahead<T>> {
        if count == 0 {
            return Ok(Ahead::Here(Box::new(maker)));
        }
        // The thread holds one more than the channel while it waits for room.
        let (sender, receiver) = sync_channel(count - 1);
        let work = move || {
            for made in maker {
                // The receiver is gone: so is the interest in more.
                if sender.send(made).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("extensor-loader".into()).spawn(work);
        let thread =
            thread.map_err(|error| bad("prefetch", "a system with threads to spare", error))?;
        Ok(Ahead::Thread { receiver: Some(receiver), thread: Some(thread) })
    }
}

impl<T> Iterator for Ahead<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        match self {
            Ahead::Here(maker) => maker.next(),
            // The thread ends after the last one, and catches panics.
            Ahead::Thread { receiver, .. } => receiver.as_ref()?.recv().ok(),
        }
    }
}

impl<T> Drop for Ahead<T> {
    fn drop(&mut self) {
        if let Ahead::Thread { receiver, thread } = self {
            // Without a receiver the thread's next send fails, and it ends.
            drop(receiver.take());
            if let Some(thread) = thread.take() {
                let _ = thread.join();
            }
        }
    }
}
