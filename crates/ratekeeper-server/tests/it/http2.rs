//! A client of HTTP/2 by prior knowledge, one request after another.

use h2::client::SendRequest;
use hyper::body::Bytes;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::support::Response;

/// One connection.
pub(crate) struct Http2 {
    runtime: Runtime,
    requests: SendRequest<Bytes>,
}

impl Http2 {
    pub(crate) fn open(address: &str) -> Self {
        let runtime = runtime();
        let requests = runtime.block_on(async {
            let stream = TcpStream::connect(address).await.expect("the server listens");
            let (requests, connection) = h2::client::handshake(stream).await.expect("both speak HTTP/2");
            tokio::spawn(connection);
            requests
        });
        Self { runtime, requests }
    }

    /// One request with these fields, and its answer.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        authority: &str,
        path: &str,
        fields: &[(String, String)],
        body: &[u8],
    ) -> Response {
        let request = request(method, authority, path, fields);
        self.runtime.block_on(async {
            let requests = self.requests.clone();
            let mut requests = requests.ready().await.expect("the connection is open");
            let (answer, mut sending) = requests.send_request(request, body.is_empty()).expect("a stream");
            if !body.is_empty() {
                sending.send_data(Bytes::copy_from_slice(body), true).expect("a body");
            }
            read(answer).await.expect("an answer")
        })
    }
}

/// A runtime for the connections of one thread.
pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

pub(crate) fn request(
    method: &str,
    authority: &str,
    path: &str,
    fields: &[(String, String)],
) -> hyper::Request<()> {
    let mut request = hyper::Request::builder().method(method).uri(format!("http://{authority}{path}"));
    for (name, value) in fields {
        request = request.header(name, value);
    }
    request.body(()).expect("a request")
}

/// The answer to a request, whole.
pub(crate) async fn read(answer: h2::client::ResponseFuture) -> Result<Response, h2::Error> {
    let (head, mut body) = answer.await?.into_parts();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        bytes.extend_from_slice(&data);
    }
    let text = |value: &hyper::header::HeaderValue| value.to_str().expect("ASCII").to_owned();
    Ok(Response {
        status: head.status.as_u16(),
        headers: head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        body: String::from_utf8(bytes).expect("UTF-8"),
    })
}
