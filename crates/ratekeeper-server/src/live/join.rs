//! Several things that are waited for together.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Something that is waited for.
pub(super) type Waited<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Waits for all of them at once; what they came to, in their order. Whatever happens looks at each that is not ready,
/// so it is for few: one for each store, and one for each request of a batch that meets several.
pub(super) async fn join_all<T>(futures: Vec<Waited<'_, T>>) -> Vec<T> {
    let mut waited: Vec<Result<T, Waited<'_, T>>> = futures.into_iter().map(Err).collect();
    poll_fn(|context| {
        let mut is_ready = true;
        for one in &mut waited {
            if let Err(future) = one {
                match future.as_mut().poll(context) {
                    Poll::Ready(came) => *one = Ok(came),
                    Poll::Pending => is_ready = false,
                }
            }
        }
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    waited.into_iter().filter_map(Result::ok).collect()
}
