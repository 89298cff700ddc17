//! Loopback ports that nobody else uses.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// The range lies below the ports that systems give to outgoing connections. A port from those could be taken by
/// anybody's connection while its server is down, and a client that keeps dialling such a port may, in the end,
/// be given it as its own and connect to itself.
const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;

/// How far apart two processes with neighbouring numbers begin: further than one of them gets, so that nobody takes
/// the port of a server that another has just killed and will restart. Prime, so that every port is somebody's start.
const STRIDE: u32 = 997;

/// Listens on a free port.
pub(crate) fn listen() -> TcpListener {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..COUNT {
        // Within one process no port comes twice until all have had their turn.
        let start = (std::process::id() % COUNT) * STRIDE;
        let offset = start + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = u16::try_from(FIRST + offset % COUNT).expect("the range ends below 2^16");
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return listener;
        }
    }
    panic!("no port from {FIRST} to {} is free", FIRST + COUNT - 1);
}

/// A port that is free now. Another process may take it first: whoever gives it to a server tries again then.
pub(crate) fn free() -> u16 {
    port_of(&listen())
}

/// Listens no more, at once. Closing alone would not do: a process that another thread is starting has a copy of
/// every socket until it is the other program.
pub(crate) fn close(listener: &TcpListener) {
    let _ = socket2::SockRef::from(listener).shutdown(std::net::Shutdown::Both);
}

/// The port of a listener.
pub(crate) fn port_of(listener: &TcpListener) -> u16 {
    listener.local_addr().expect("a bound socket has an address").port()
}
