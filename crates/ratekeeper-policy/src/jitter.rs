//! Waits that are told longer than they are, at random, so that not everybody comes back together.

use core::time::Duration;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

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

    /// The share that one answer gets, of all its waits the same.
    #[must_use]
    pub fn draw(self, chance: &Chance) -> Stretch {
        if self == Self::NONE { Stretch::NONE } else { Stretch(chance.up_to(self.thousandths)) }
    }
}

/// By how much the waits of one answer are told longer: see [`Jitter::draw`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stretch(u16);

impl Stretch {
    /// Waits are told as they are.
    pub const NONE: Self = Self(0);

    /// A wait as it is told: as long as it is, or longer. Never shorter.
    #[must_use]
    pub fn of(self, wait: Duration) -> Duration {
        if self == Self::NONE {
            return wait;
        }
        let share = wait.as_micros().saturating_mul(u128::from(self.0)).div_ceil(1_000);
        wait.saturating_add(Duration::from_micros(u64::try_from(share).unwrap_or(u64::MAX)))
    }
}

/// Numbers that nobody expects, for all threads: for spreading what would otherwise come together, not for secrets.
#[derive(Debug, Default)]
pub struct Chance {
    /// A seed of each one's own, under which the numbers are hashed.
    seed: RandomState,
    next: AtomicU64,
}

impl Chance {
    /// Begins somewhere else each time.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A number from 0 to `most`.
    #[must_use]
    pub fn up_to(&self, most: u16) -> u16 {
        let drawn = self.seed.hash_one(self.next.fetch_add(1, Ordering::Relaxed));
        u16::try_from(drawn % (u64::from(most) + 1)).unwrap_or(most)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::{Chance, Stretch};

    #[test]
    fn a_wait_is_told_longer_and_never_shorter() {
        let wait = Duration::from_micros(1_000_001);
        assert_eq!(Stretch(0).of(wait), wait);
        assert_eq!(Stretch(1).of(wait), Duration::from_micros(1_001_002), "the share is rounded up");
        assert_eq!(Stretch(1_000).of(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn chance_draws_every_number_up_to_the_most_and_no_other() {
        let chance = Chance::new();
        let drawn: Vec<u16> = (0..1_000).map(|_| chance.up_to(4)).collect();
        for n in 0..=4 {
            assert!((100..300).contains(&drawn.iter().filter(|drawn| **drawn == n).count()), "{n}");
        }
        assert!(drawn.iter().all(|drawn| *drawn <= 4));
        assert_eq!(chance.up_to(0), 0);
    }
}
