//! Shaping outgoing work: jobs of several customers, sent to a provider that takes ten a second and no bursts.
//!
//! `cargo run -p ratekeeper --features tokio --example job_queue`

use std::error::Error;

use ratekeeper::{
    Algorithm, Clock as _, KeyedLimiter, Limit, ManualClock, Overflow, ProcessClock, Reason, Shaper, all,
    millis, seconds,
};

/// What the provider takes: a start every 20 ms, and nobody is to wait for more than a second.
const PROVIDER: Limit =
    Limit::per(1, millis(20)).algorithm(Algorithm::LeakyBucket).queue(40).max_wait(seconds(1));
/// What a customer may send: five at once, then twenty a second.
const CUSTOMER: Limit = Limit::per_second(20).burst(5);

/// A job is worth a turn of its customer's, and then a start at the provider.
async fn send(
    job: u32,
    customer: &'static str,
    customers: KeyedLimiter,
    provider: Shaper,
) -> Result<u32, ratekeeper::Refused> {
    customers.acquire(customer).within(seconds(2)).await?;
    provider.run("provider", async move { job }).await
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let customers = KeyedLimiter::new(CUSTOMER);
    let provider = Shaper::builder(PROVIDER).overflow(Overflow::Wait).build()?;
    let started = ProcessClock.now();

    let mut jobs = Vec::new();
    for job in 0..24 {
        let customer = if job % 3 == 0 { "small" } else { "large" };
        jobs.push((job, customer, tokio::spawn(send(job, customer, customers.clone(), provider.clone()))));
    }
    let mut sent = 0;
    for (job, customer, sending) in jobs {
        sent += u32::from(sending.await?.is_ok());
        let ms = (ProcessClock.now().get() - started.get()) / 1_000;
        println(&format!("job {job:2} of {customer} was sent by {ms:4} ms"));
    }
    println(&format!("{sent} of 24 jobs sent, never two within 20 ms"));

    // A customer who is in a hurry is told at once what would come too late, and nothing is taken of any limit.
    let daily = KeyedLimiter::new(Limit::per_day(1));
    all([daily.check("large"), customers.check("large")]).acquire().await?;
    let refused = all([daily.check("large"), customers.check("large")]).acquire().within(seconds(5)).await;
    let refused = refused.err().ok_or("one a day is one a day")?;
    assert_eq!(refused.reason(), Some(Reason::TooLate));
    println(&format!("a second report today: {refused}"));

    // The same code in a test: a clock that is moved serves whoever is due, and nobody sleeps.
    let clock = ManualClock::new();
    let tested = KeyedLimiter::builder(Limit::per_hour(1)).clock(&clock).build()?;
    tested.acquire("k").await?;
    let next = tokio::spawn(tested.acquire("k"));
    tokio::task::yield_now().await;
    clock.advance(seconds(3_600));
    println(&format!("in a test, an hour later: waited {:?}", next.await??.waited()));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example says what it does")]
fn println(line: &str) {
    println!("{line}");
}
