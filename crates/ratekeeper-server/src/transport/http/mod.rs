//! JSON over HTTP/1.1 and HTTP/2. A request comes by `lane`, the short way, or by `routes`, which has hyper; both
//! read its body by `question` and are answered by `service`, in the words of `answer` and `problem`.
//! `connection` has the sockets, `body` reads what is longer than a packet.

mod answer;
mod attributes;
pub(crate) mod body;
mod connection;
mod cors;
mod date;
mod explain;
mod fields;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod lane;
mod planning;
mod probe;
mod problem;
mod question;
mod reply;
mod reserving;
mod routes;
mod service;
mod talk;
mod unsent;
mod waiting;
mod wishes;

pub(crate) use answer::JSON;
pub(crate) use connection::{Site, serve};
pub(crate) use explain::explain;
pub(crate) use fields::Texts;
pub(crate) use probe::{Reader, VERBOSE, policies, probe};
pub(crate) use problem::Problem;
pub(crate) use reply::Reply;
pub(crate) use routes::Answer;
pub(crate) use service::{Service, UnderWay};
