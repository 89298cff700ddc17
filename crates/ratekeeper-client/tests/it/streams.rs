//! Row 33 on the wire: what HTTP/2 says about a stream that was refused.

use http::Request;
use ratekeeper_client::{Failure, failure_of};

/// Both ends of a conversation; the server does this to the first stream.
async fn refused_by(reason: Option<h2::Reason>) -> Failure {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let server = async move {
        let mut server = h2::server::handshake(theirs).await.expect("a handshake");
        let Some(Ok((_, mut respond))) = server.accept().await else { panic!("a request") };
        match reason {
            Some(reason) => respond.send_reset(reason),
            None => drop(respond),
        }
        // Goes on until the client has gone.
        while server.accept().await.is_some_and(|stream| stream.is_ok()) {}
    };
    let client = async move {
        let (send, connection) = h2::client::handshake(ours).await.expect("a handshake");
        let connection = tokio::spawn(connection);
        let mut send = send.ready().await.expect("it is open");
        let request = Request::get("http://a.test/").body(()).expect("a request");
        let (answer, _) = send.send_request(request, true).expect("it is sent");
        let error = answer.await.expect_err("it was refused");
        connection.abort();
        failure_of(&error)
    };
    let server = tokio::spawn(server);
    let failure = client.await;
    server.abort();
    failure
}

#[tokio::test]
async fn row_33_a_refused_stream_was_not_processed_and_others_may_have_been() {
    assert_eq!(refused_by(Some(h2::Reason::REFUSED_STREAM)).await, Failure::Unprocessed);
    assert_eq!(refused_by(Some(h2::Reason::INTERNAL_ERROR)).await, Failure::MaybeProcessed);
    assert_eq!(refused_by(Some(h2::Reason::CANCEL)).await, Failure::MaybeProcessed);
}

#[tokio::test]
async fn row_33_a_stream_above_the_last_of_a_goaway_was_not_processed() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (send, connection) = h2::client::handshake(ours).await.expect("the preface is written");
    let mut server = h2::server::handshake(theirs).await.expect("a handshake");
    // The server has looked at nothing when it says goodbye.
    server.abrupt_shutdown(h2::Reason::NO_ERROR);
    let server =
        tokio::spawn(async move { while server.accept().await.is_some_and(|stream| stream.is_ok()) {} });
    let mut send = send.ready().await.expect("it has not heard of that");
    let request = Request::get("http://a.test/").body(()).expect("a request");
    let (answer, _) = send.send_request(request, true).expect("it is queued");
    let connection = tokio::spawn(connection);
    let error = answer.await.expect_err("nobody answers");
    assert_eq!(failure_of(&error), Failure::Unprocessed, "{error:?}");
    connection.abort();
    server.abort();
}

#[test]
fn a_connection_that_nobody_took_carried_nothing() {
    let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    assert_eq!(failure_of(&refused), Failure::NeverSent);
    let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    assert_eq!(failure_of(&reset), Failure::MaybeProcessed);
}
