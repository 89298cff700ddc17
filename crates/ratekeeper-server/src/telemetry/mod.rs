//! What an operator sees of a server: numbers (`metrics`), lines (`log`), the keys that are refused most
//! (`sketch`), and the secret that hides keys in them (`secret`).
//!
//! # What is not here
//! No listener, no sampling of clocks and no decision: whoever decides calls `decided`, and the admin listener
//! asks for the page. Nothing here is a reason to fail, to wait, or to allocate on an admission.

pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod secret;
pub(crate) mod sketch;

/// How a request came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    /// The JSON interface.
    Http,
}

impl Protocol {
    const ALL: [Self; 1] = [Self::Http];

    /// The word in labels and lines.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
        }
    }
}

/// What is listened on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Listener {
    /// For those who ask for decisions.
    Http,
    /// For those who run the server.
    Admin,
}

impl Listener {
    const ALL: [Self; 2] = [Self::Http, Self::Admin];

    /// The word in labels and lines.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Admin => "admin",
        }
    }
}
