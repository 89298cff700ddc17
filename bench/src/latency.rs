//! How long single decisions take: percentiles, with the reading of the timer in them.

use std::hint::black_box;
use std::sync::Arc;

use crate::keys::{Random, Stream};

/// Decisions that are timed one by one, per round.
const DECISIONS: usize = 1 << 16;

/// A subject whose single decisions are timed.
pub(crate) struct Probe {
    pub(crate) subject: &'static str,
    pub(crate) stream: Arc<Stream>,
    pub(crate) decide: Box<dyn Fn(&String) -> bool>,
}

pub(crate) struct Latencies {
    clock: quanta::Clock,
    probes: Vec<(Probe, Vec<f64>)>,
}

impl Latencies {
    pub(crate) fn new(probes: Vec<Probe>) -> Self {
        Self {
            clock: quanta::Clock::new(),
            probes: probes.into_iter().map(|probe| (probe, Vec::new())).collect(),
        }
    }

    pub(crate) fn round(&mut self, round: usize) {
        let mut random = Random::new(!(round as u64));
        for (probe, times) in &mut self.probes {
            let (texts, offset) = (&probe.stream.texts, random.next() as usize >> 8);
            for i in 0..DECISIONS + DECISIONS / 8 {
                let key = &texts[offset.wrapping_add(i) % texts.len()];
                let start = self.clock.raw();
                black_box((probe.decide)(black_box(key)));
                let end = self.clock.raw();
                if i >= DECISIONS / 8 {
                    times.push(self.clock.delta_as_nanos(start, end) as f64);
                }
            }
        }
    }

    /// Subjects and their times in nanoseconds.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &[f64])> {
        self.probes.iter().map(|(probe, times)| (probe.subject, times.as_slice()))
    }
}
