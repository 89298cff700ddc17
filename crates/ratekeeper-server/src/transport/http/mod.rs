//! JSON over HTTP/1.1 and HTTP/2: `facts` reads a question, `wire` writes what goes back, `serve` answers
//! requests, `connection` has the sockets.

mod connection;
mod facts;
mod serve;
mod wire;

pub(crate) use connection::serve;
