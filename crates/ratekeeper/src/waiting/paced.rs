//! Streams whose items come at an even pace.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use ratekeeper_core::{Key, Reason, Refused};

use super::shaper::{Overflow, Ready, Shaper};

/// Paces streams: brings [`paced`](Pace::paced) to all of them.
pub trait Pace: Stream + Sized {
    /// The same items, each at a start of the shaper's for this key. The stream is not asked for the next one
    /// before, so a slow pace holds back whoever makes them.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    /// # runtime.block_on(async {
    /// # use std::{pin::{Pin, pin}, task::{Context, Poll}};
    /// # struct Jobs(std::ops::Range<u32>);
    /// # impl futures_core::Stream for Jobs {
    /// #     type Item = u32;
    /// #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u32>> { Poll::Ready(self.0.next()) }
    /// # }
    /// use ratekeeper::{Algorithm, Limit, Pace, Shaper};
    /// let shaper = Shaper::new(Limit::per_second(50).algorithm(Algorithm::LeakyBucket).queue(10));
    /// # let shaper = Shaper::builder(*shaper.limit()).clock(ratekeeper::TokioClock::new()).build().unwrap();
    /// # let jobs = Jobs(0..3);
    /// let mut paced = pin!(jobs.paced(&shaper, "mail"));
    /// # async fn next<S: futures_core::Stream>(s: &mut Pin<&mut S>) -> Option<S::Item> {
    /// #     std::future::poll_fn(|cx| s.as_mut().poll_next(cx)).await
    /// # }
    /// while let Some(job) = next(&mut paced).await { // with futures: paced.next().await
    ///     let _job: u32 = job?; // 20 ms apart
    /// }
    /// # Ok::<(), ratekeeper::Refused>(())
    /// # }).unwrap();
    /// ```
    fn paced<'k>(self, shaper: &Shaper, key: impl Into<Key<'k>>) -> Paced<Self>;
}

impl<S: Stream> Pace for S {
    fn paced<'k>(self, shaper: &Shaper, key: impl Into<Key<'k>>) -> Paced<Self> {
        let next = Box::new(shaper.starts(&key.into(), Overflow::Wait));
        Paced { stream: Box::pin(self), next, item: None, ready: None, is_over: false }
    }
}

/// See [`Pace::paced`]. A refusal is an item, and takes none away: the item that was to come is asked a start for
/// again when the stream is polled next. After [`Reason::Closed`] the stream ends.
#[must_use = "streams do nothing unless polled"]
pub struct Paced<S: Stream> {
    stream: Pin<Box<S>>,
    next: Box<dyn Fn() -> Ready + Send + Sync>,
    item: Option<S::Item>,
    ready: Option<Ready>,
    is_over: bool,
}

// The stream is in a box of its own, and nothing else is pinned.
impl<S: Stream> Unpin for Paced<S> {}

impl<S: Stream> Paced<S> {
    /// The stream, and the item that has not had its start yet.
    #[must_use]
    pub fn into_parts(self) -> (Pin<Box<S>>, Option<S::Item>) {
        (self.stream, self.item)
    }
}

impl<S: Stream> Stream for Paced<S> {
    type Item = Result<S::Item, Refused>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(None);
        }
        if this.item.is_none() {
            match ready!(this.stream.as_mut().poll_next(cx)) {
                Some(item) => this.item = Some(item),
                None => {
                    this.is_over = true;
                    return Poll::Ready(None);
                }
            }
        }
        let ready = this.ready.get_or_insert_with(&this.next);
        let answer = ready!(Pin::new(ready).poll(cx));
        this.ready = None;
        match answer {
            Ok(_) => Poll::Ready(this.item.take().map(Ok)),
            Err(refused) => {
                this.is_over = refused.reason() == Some(Reason::Closed);
                Poll::Ready(Some(Err(refused)))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (least, most) = self.stream.size_hint();
        let here = usize::from(self.item.is_some());
        (least.saturating_add(here), most.and_then(|most| most.checked_add(here)))
    }
}
