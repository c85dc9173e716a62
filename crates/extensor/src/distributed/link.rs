//! A connection between two ranks that watch each other, and the words that go over it.

use super::watch::Failure;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The rank is there.
    Beat,
    /// The rank has gone, as it should.
    Goodbye,
    /// The rank has failed, and says so itself.
    Failed,
    /// The rank is gone or does not answer.
    Lost,
}

const KINDS: [Kind; 4] = [Kind::Beat, Kind::Goodbye, Kind::Failed, Kind::Lost];

/// A word about a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub kind: Kind,
    pub rank: usize,
    pub text: String,
}

/// A kind, a rank and the length of the text.
const HEAD: usize = 9;
/// Longer texts are cut: what is said is one sentence.
const LONGEST: usize = 4096;

impl Word {
    pub fn new(kind: Kind, rank: usize) -> Word {
        Word { kind, rank, text: String::new() }
    }

    pub fn of(failure: &Failure) -> Word {
        let kind = if failure.alive { Kind::Failed } else { Kind::Lost };
        Word { kind, rank: failure.rank, text: failure.reason.clone() }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut end = self.text.len().min(LONGEST);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let kind = KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(0);
        let mut bytes = vec![kind as u8];
        bytes.extend((self.rank as u32).to_le_bytes());
        bytes.extend((end as u32).to_le_bytes());
        bytes.extend(&self.text.as_bytes()[..end]);
        bytes
    }

    /// The first word of some bytes and how many it takes; `None` while it has not arrived whole.
    fn parse(bytes: &[u8]) -> Option<(Word, usize)> {
        let number = |at: usize| {
            let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_le_bytes(bytes) as usize)
        };
        let kind = KINDS[usize::from(*bytes.first()?) % KINDS.len()];
        let (rank, len) = (number(1)?, number(5)?.min(LONGEST));
        let text = String::from_utf8_lossy(bytes.get(HEAD..HEAD + len)?).into_owned();
        Some((Word { kind, rank, text }, HEAD + len))
    }
}

/// The other end.
pub(super) struct Link {
    pub rank: usize,
    stream: TcpStream,
    /// What has arrived and is no word yet.
    rest: Vec<u8>,
    /// How many looks ago it last said something.
    pub silent: u32,
    /// Whether nothing more is expected of it.
    pub gone: bool,
}

impl Link {
    pub fn new(rank: usize, stream: TcpStream) -> std::io::Result<Link> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Link { rank, stream, rest: Vec::new(), silent: 0, gone: false })
    }

    /// Says a word. Where it cannot, the next look finds out why.
    pub fn say(&mut self, word: &Word) {
        // Words are shorter than any buffer of a connection that is being read; one that is not will be given up.
        let _ = self.stream.write_all(&word.bytes());
    }

    /// Says nothing more.
    pub fn close(&mut self) {
        // What was said last is not to be lost because something was left unread.
        self.hear();
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// What was said since the last time, and whether more can come.
    pub fn hear(&mut self) -> (Vec<Word>, bool) {
        let mut bytes = [0; 1024];
        let open = loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => break false,
                Ok(count) => self.rest.extend(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break error.kind() == ErrorKind::WouldBlock,
            }
        };
        let mut words = Vec::new();
        while let Some((word, taken)) = Word::parse(&self.rest) {
            self.rest.drain(..taken);
            words.push(word);
        }
        (words, open)
    }
}
