//! How ranks that are to watch each other find rank 0 by TCP.

use super::group::Group;
use super::link::Link;
use crate::Result;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

/// How long rank 0 waits for the others.
const WAIT: Duration = Duration::from_secs(10);
/// How long another waits at each of rank 0's addresses.
const EACH: Duration = Duration::from_secs(2);

/// Connections to those whom this rank watches: rank 0 all others, the others rank 0. `None`, on every rank,
/// where one of them cannot reach it.
pub(super) fn meet(group: &Group) -> Result<Option<Vec<Link>>> {
    let op = "watch";
    let host = host();
    let hosts = group.exchange(op, host.as_bytes())?;
    let one_machine = hosts.iter().all(|other| *other == hosts[0]);
    let listener = match group.is_first() {
        true => listen(one_machine),
        false => None,
    };
    let invitation = listener.as_ref().map(|(_, invitation)| invitation.as_str());
    let invitations = group.exchange(op, invitation.unwrap_or("").as_bytes())?;
    let invitation = String::from_utf8_lossy(&invitations[0]).into_owned();
    let links = match &listener {
        Some((listener, _)) => welcome(listener, &invitation, group.size()),
        None => visit(&invitation, group.rank()).map(|link| vec![link]),
    };
    let met = group.exchange_fixed(op, &[u8::from(links.is_some())], |_| 1)?;
    Ok(links.filter(|_| met.iter().all(|met| met[0] == 1)))
}

/// What this machine is called.
fn host() -> String {
    let file = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = file.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    name.trim().to_string()
}

/// A place to come to, and how the others find it: a word that they say there, then addresses, a line each.
fn listen(one_machine: bool) -> Option<(TcpListener, String)> {
    let at = if one_machine { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
    let listener = TcpListener::bind((at, 0)).ok()?;
    let port = listener.local_addr().ok()?.port();
    // What nobody guesses who was not told by the group.
    let word = [(); 2].map(|()| RandomState::new().build_hasher().finish());
    let mut invitation = format!("{:016x}{:016x}", word[0], word[1]);
    let mut add =
        |address: IpAddr| invitation.push_str(&format!("\n{}", SocketAddr::new(address, port)));
    if one_machine {
        add(IpAddr::V4(at));
    } else {
        // The address that leads out of this machine: nothing is sent to find it.
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok();
        let out = socket.filter(|socket| socket.connect(("192.0.2.1", 9)).is_ok());
        out.and_then(|socket| socket.local_addr().ok()).into_iter().for_each(|at| add(at.ip()));
        let named = (host().as_str(), port).to_socket_addrs().into_iter().flatten();
        named.filter(|at| !at.ip().is_loopback()).for_each(|at| add(at.ip()));
        invitation.push_str(&format!("\n{}:{port}", host()));
    }
    Some((listener, invitation))
}

/// Waits for all others, who say the word and their rank.
fn welcome(listener: &TcpListener, invitation: &str, size: usize) -> Option<Vec<Link>> {
    let word = invitation.lines().next()?;
    listener.set_nonblocking(true).ok()?;
    let started = Instant::now();
    let mut links: Vec<Link> = Vec::with_capacity(size);
    while links.len() + 1 < size {
        if started.elapsed() > WAIT {
            return None;
        }
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        // Whoever else comes is sent away, and does not keep us waiting.
        let mut said = vec![0; word.len() + 4];
        let heard = stream.set_nonblocking(false).is_ok()
            && stream.set_read_timeout(Some(EACH)).is_ok()
            && stream.read_exact(&mut said).is_ok();
        let (theirs, rank) = said.split_at(word.len());
        let rank = rank.try_into().map_or(0, u32::from_le_bytes) as usize;
        let new = (1..size).contains(&rank) && links.iter().all(|link| link.rank != rank);
        if heard && theirs == word.as_bytes() && new {
            links.push(Link::new(rank, stream).ok()?);
        }
    }
    Some(links)
}

/// Goes to rank 0, at the first of its addresses that answers.
fn visit(invitation: &str, rank: usize) -> Option<Link> {
    let mut lines = invitation.lines();
    let word = lines.next()?;
    let addresses = lines.flat_map(|line| line.to_socket_addrs().into_iter().flatten());
    let mut open = addresses.filter_map(|at| TcpStream::connect_timeout(&at, EACH).ok());
    let mut stream = open.next()?;
    let said = [word.as_bytes(), &(rank as u32).to_le_bytes()].concat();
    stream.write_all(&said).ok()?;
    Link::new(0, stream).ok()
}
