//! One caller alone.

use std::time::Instant;

use tokio::runtime::Runtime;

use crate::Failed;
use crate::cases::Subject;
use crate::load::KEYS;

/// Decisions of one side before the other has its turn: both see the same moments of a machine.
const BLOCK: usize = 250;

/// Times of single decisions in microseconds, sorted: of the plain client, and of ours.
pub(crate) type Singles = [Vec<f64>; 2];

pub(crate) fn measure(runtime: &Runtime, sides: [Subject; 2], count: usize) -> Result<Singles, Failed> {
    let caller = async move {
        let mut times: Singles = [Vec::with_capacity(count), Vec::with_capacity(count)];
        let mut key = 0;
        for block in 0..2 * count.div_ceil(BLOCK) {
            // A, B, B, A: neither always comes second.
            let side = usize::from(block % 4 == 1 || block % 4 == 2);
            for _ in 0..BLOCK {
                key = (key + 7_919) % KEYS;
                let begun = Instant::now();
                sides[side].decide(key).await?;
                times[side].push(begun.elapsed().as_secs_f64() * 1e6);
            }
        }
        times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        Ok(times)
    };
    runtime.block_on(runtime.spawn(caller))?
}
