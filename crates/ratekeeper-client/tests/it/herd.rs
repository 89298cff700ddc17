//! Rows 28 and 29: a hundred callers, one refusal.

use std::time::Duration;

use crate::support::{Polished, World, call, fine, get, ms, polite, refusal, request, s};

async fn all(client: &Polished, calls: usize) -> Vec<u16> {
    let mut tasks = Vec::new();
    for _ in 0..calls {
        let client = client.clone();
        tasks.push(tokio::spawn(async move { call(&client, get()).await.expect("an answer").0 }));
    }
    let mut statuses = Vec::new();
    for task in tasks {
        statuses.push(task.await.expect("no panic"));
    }
    statuses
}

#[tokio::test(start_paused = true)]
async fn row_28_b153_a_hundred_refused_calls_are_a_hundred_and_ten_sends() {
    let takes = ms(200);
    let world = World::slow(takes);
    let client = world.client_of(&polite(), &[refusal(&[("retry-after", "1")])]);
    let statuses = all(&client, 100).await;
    assert!(statuses.iter().all(|status| *status == 429));
    let times = world.times();
    assert!(times.len() <= 110 && times.len() > 100, "{} sends", times.len());
    let first = times[0];
    assert!(times.iter().all(|at| *at == first || *at >= first + takes + s(1)), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn row_29_b153_nobody_is_sent_while_the_gate_is_closed_and_then_one_after_another() {
    let world = World::new();
    let client = world.client_of(&polite(), &[refusal(&[("retry-after", "5")]), fine()]);
    let first = client.clone();
    let first = tokio::spawn(async move { call(&first, get()).await.expect("an answer").0 });
    tokio::time::sleep(ms(1)).await;
    let others = all(&client, 99);
    let elsewhere = async {
        tokio::time::sleep(ms(10)).await;
        call(&client, request("GET", "http://b.test/")).await.expect("an answer");
        world.now()
    };
    let (others, elsewhere) = tokio::join!(others, elsewhere);
    assert!(others.iter().all(|status| *status == 200) && first.await.expect("no panic") == 200);
    assert!(elsewhere < ms(20), "another key waited: {elsewhere:?}");
    let times: Vec<Duration> =
        world.sent().iter().filter(|sent| sent.host == "a.test").map(|sent| sent.at).collect();
    assert_eq!(times.len(), 101);
    let after: Vec<Duration> = times[1..].to_vec();
    assert!(after[0] >= s(5) && after[0] <= ms(5_501), "{after:?}");
    assert!(after.windows(2).all(|pair| pair[1] - pair[0] >= ms(10)), "all at once: {after:?}");
    assert!(after[99] < s(8), "the spread ends: {after:?}");
}
