//! One caller alone.

use std::time::Instant;

use tokio::runtime::Runtime;

use crate::Failed;
use crate::cases::Subject;
use crate::load::KEYS;

/// Decisions of one subject before another has its turn: all see the same moments of a machine.
const BLOCK: usize = 250;

/// Times of one subject's decisions in microseconds: of each round, sorted.
pub(crate) struct Lone {
    pub(crate) name: &'static str,
    pub(crate) rounds: Vec<Vec<f64>>,
}

impl Lone {
    /// All of them, sorted.
    pub(crate) fn all(&self) -> Vec<f64> {
        let mut all = self.rounds.concat();
        all.sort_by(f64::total_cmp);
        all
    }
}

/// Asks `count` decisions of each subject, one after another.
pub(crate) fn measure(
    runtime: &Runtime,
    subjects: Vec<Subject>,
    rounds: usize,
    count: usize,
) -> Result<Vec<Lone>, Failed> {
    let caller = async move {
        let lone = |subject: &Subject| Lone { name: subject.name, rounds: vec![Vec::new(); rounds] };
        let mut all: Vec<Lone> = subjects.iter().map(lone).collect();
        let mut key = 0;
        for block in 0..rounds * count.div_ceil(BLOCK * rounds) {
            for turn in 0..subjects.len() {
                // There and back, so that none always comes first.
                let at = if block % 2 == 0 { turn } else { subjects.len() - 1 - turn };
                let times = &mut all[at].rounds[block % rounds];
                for _ in 0..BLOCK {
                    key = (key + 7_919) % KEYS;
                    let begun = Instant::now();
                    subjects[at].decide(key).await?;
                    times.push(begun.elapsed().as_secs_f64() * 1e6);
                }
            }
        }
        all.iter_mut().flat_map(|lone| &mut lone.rounds).for_each(|times| times.sort_by(f64::total_cmp));
        Ok(all)
    };
    runtime.block_on(runtime.spawn(caller))?
}
