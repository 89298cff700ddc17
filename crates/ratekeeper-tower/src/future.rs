//! The answer on its way.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;

use crate::body::ResponseBody;
use crate::fields::Fields;
use crate::layer::Shared;
use crate::options::Answered;
use crate::outcome::Charged;

type Answer<R, E> = Result<Response<ResponseBody<R>>, E>;

pin_project! {
    /// The answer of a limited service: the service's own with the fields of its limits, or the refusal.
    ///
    /// Dropped before the service behind has been called, it gives back what was taken.
    pub struct ResponseFuture<F, R, E> {
        #[pin]
        state: State<F, R, E>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, R, E> {
        Inner { #[pin] future: F, finish: Option<Finish> },
        Denied { response: Option<Response<ResponseBody<R>>> },
        Waiting { future: Pin<Box<dyn Future<Output = Answer<R, E>> + Send>> },
    }
}

/// What is to be done when the service behind has answered.
#[derive(Default)]
pub(crate) struct Finish {
    fields: Fields,
    refund: Option<(Arc<Shared>, Charged)>,
}

impl Finish {
    pub(crate) const fn new(fields: Fields, refund: Option<(Arc<Shared>, Charged)>) -> Self {
        Self { fields, refund }
    }

    pub(crate) fn of<R>(self, response: Response<R>) -> Response<ResponseBody<R>> {
        if self.refund.is_none() && self.fields.is_empty() {
            return response.map(ResponseBody::inner);
        }
        let (mut head, body) = response.into_parts();
        if let Some((shared, charged)) = self.refund
            && let Some(refund_if) = &shared.options.refund_if
            && refund_if(&Answered::new(&head))
        {
            charged.give_back();
        }
        self.fields.add_to(&mut head);
        Response::from_parts(head, ResponseBody::inner(body))
    }
}

impl<F, R, E> ResponseFuture<F, R, E> {
    pub(crate) const fn inner(future: F, finish: Finish) -> Self {
        Self { state: State::Inner { future, finish: Some(finish) } }
    }

    pub(crate) const fn denied(response: Response<ResponseBody<R>>) -> Self {
        Self { state: State::Denied { response: Some(response) } }
    }

    pub(crate) fn waiting(future: impl Future<Output = Answer<R, E>> + Send + 'static) -> Self {
        Self { state: State::Waiting { future: Box::pin(future) } }
    }
}

impl<F, R, E> Future for ResponseFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Answer<R, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Inner { future, finish } => {
                let response = ready!(future.poll(cx))?;
                Poll::Ready(Ok(finish.take().unwrap_or_default().of(response)))
            }
            StateProj::Denied { response } => {
                Poll::Ready(Ok(response.take().expect("a future is not polled after it has answered")))
            }
            StateProj::Waiting { future } => future.as_mut().poll(cx),
        }
    }
}

impl<F, R, E> fmt::Debug for ResponseFuture<F, R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
