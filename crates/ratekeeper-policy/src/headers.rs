//! The header fields that tell a client where it stands.

/// The fields of an answer that lets a request pass; a 429 has all that HTTP asks for whatever this says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers {
    /// `RateLimit` and `RateLimit-Policy`.
    pub ratelimit: bool,
    /// `Retry-After`.
    pub retry_after: bool,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`.
    pub x_ratelimit: XRateLimit,
    /// What the numbers of `RateLimit` are called.
    pub dialect: Dialect,
    /// By how much a wait that is told may be longer than it must be.
    pub retry_jitter: Jitter,
}

impl Default for Headers {
    /// `RateLimit` and `Retry-After`.
    fn default() -> Self {
        Self {
            ratelimit: true,
            retry_after: true,
            x_ratelimit: XRateLimit::Off,
            dialect: Dialect::Rt,
            retry_jitter: Jitter::NONE,
        }
    }
}

/// The older fields, and what `X-RateLimit-Reset` means in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum XRateLimit {
    /// They are not sent.
    #[default]
    Off,
    /// The time of the reset in seconds since the Unix epoch, as most services have it.
    Unix,
    /// Seconds to go.
    Delta,
}

/// What the numbers of `RateLimit` are called: the draft of that field is not final.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dialect {
    /// `r` and `t`, as deployed clients read them.
    #[default]
    Rt,
    /// Those, and the same again as `a` and `w`.
    Both,
}

impl Dialect {
    pub(crate) const WORDS: [(&'static str, Self); 2] = [("rt", Self::Rt), ("both", Self::Both)];
}

/// A share of a wait that is added to it at random, so that those who are told together do not come back
/// together. Never taken away: nobody is told to come too early.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Jitter {
    thousandths: u16,
}

impl Jitter {
    /// Nothing is added.
    pub const NONE: Self = Self { thousandths: 0 };

    /// At most that many thousandths of the wait, 0 to 1,000.
    #[must_use]
    pub const fn of_thousandths(thousandths: u16) -> Option<Self> {
        if thousandths <= 1_000 { Some(Self { thousandths }) } else { None }
    }

    /// In thousandths of the wait.
    #[must_use]
    pub const fn thousandths(self) -> u16 {
        self.thousandths
    }

    /// Reads `0.2`: a share of at most 1 with at most three places.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str, most: usize| {
            (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
        };
        if !digits(whole, 1) || !digits(part, 3) {
            return None;
        }
        let thousandths = format!("{whole}{part:0<3}").parse().ok()?;
        Self::of_thousandths(thousandths)
    }
}
