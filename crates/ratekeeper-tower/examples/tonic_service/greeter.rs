//! What `tonic-build` would make of a service with one call, as little as it takes:
//!
//! ```proto
//! package greeter;
//! service Greeter { rpc SayHello(Hello) returns (Reply); }
//! message Hello { string name = 1; }
//! message Reply { string message = 1; }
//! ```

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

/// Who is to be greeted.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Hello {
    /// By this name.
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

/// The greeting.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Reply {
    /// In words.
    #[prost(string, tag = "1")]
    pub(crate) message: String,
}

/// The service.
#[derive(Clone)]
pub(crate) struct GreeterServer;

impl NamedService for GreeterServer {
    const NAME: &'static str = "greeter.Greeter";
}

type Answering<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl UnaryService<Hello> for GreeterServer {
    type Response = Reply;
    type Future = Answering<Result<Response<Reply>, Status>>;

    fn call(&mut self, request: Request<Hello>) -> Self::Future {
        Box::pin(async move {
            let message = format!("Hello, {}", request.into_inner().name);
            Ok(Response::new(Reply { message }))
        })
    }
}

impl tower::Service<http::Request<Body>> for GreeterServer {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answering<Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            if request.uri().path() != "/greeter.Greeter/SayHello" {
                let unknown: http::Response<()> =
                    Status::new(Code::Unimplemented, "there is no such call").into_http();
                return Ok(unknown.map(|()| Body::empty()));
            }
            Ok(Grpc::new(ProstCodec::<Reply, Hello>::default()).unary(service, request).await)
        })
    }
}

/// A client of it.
pub(crate) struct GreeterClient {
    inner: tonic::client::Grpc<Channel>,
}

impl GreeterClient {
    /// On a connection.
    pub(crate) fn new(channel: Channel) -> Self {
        Self { inner: tonic::client::Grpc::new(channel) }
    }

    /// The one call.
    pub(crate) async fn say_hello(&mut self, request: Request<Hello>) -> Result<Response<Reply>, Status> {
        self.inner.ready().await.map_err(|wrong| Status::unknown(wrong.to_string()))?;
        let path = http::uri::PathAndQuery::from_static("/greeter.Greeter/SayHello");
        self.inner.unary(request, path, ProstCodec::<Hello, Reply>::default()).await
    }
}
