//! One way to run a property.

use std::env;
use std::fmt::Debug;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};

/// Checks that `claim` holds for `cases` values of `strategy`.
///
/// The seed is made of the name, so that a run repeats itself; `PROPTEST_RNG_SEED` sets another one and
/// `PROPTEST_CASES` another number of cases.
///
/// # Panics
/// With the seed, the smallest case that could be found and what is wrong with it, if the claim does not hold.
pub fn check<S: Strategy>(name: &str, cases: u32, strategy: S, claim: impl Fn(S::Value) -> Result<(), String>)
where
    S::Value: Debug,
{
    let mut config = Config { failure_persistence: None, max_shrink_iters: 5_000, ..Config::default() };
    if env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => seed_of(name),
    };
    config.rng_seed = RngSeed::Fixed(seed);
    let cases = config.cases;
    let outcome = TestRunner::new(config).run(&strategy, |value| claim(value).map_err(TestCaseError::fail));
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, value)) => panic!(
            "{name} does not hold (PROPTEST_RNG_SEED={seed} PROPTEST_CASES={cases}):\n{reason}\nsmallest case: {value:#?}"
        ),
        Err(TestError::Abort(reason)) => panic!("{name} gave up (PROPTEST_RNG_SEED={seed}): {reason}"),
    }
}

/// One value of `strategy`, the same for every run with this seed: for tests that drive something too slow
/// or too stateful to shrink.
///
/// # Panics
/// If the strategy rejects all it makes.
pub fn sample<S: Strategy>(strategy: &S, seed: u64) -> S::Value {
    let config = Config { rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    let tree = strategy.new_tree(&mut TestRunner::new(config)).expect("a strategy that makes values");
    tree.current()
}

/// FNV-1a: any fixed number will do, but not the same one for every property.
fn seed_of(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
