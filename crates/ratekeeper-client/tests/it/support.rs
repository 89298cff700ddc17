//! Servers that are lists of answers, and what a client makes of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use ratekeeper_client::{
    Balance, Call, Classify as _, Draw, Failure, Gated, Next, Outcome, Polite, PoliteLayer, PoliteService,
    Profile, ResponseHead, RetryReport, Settings, decide, resolve,
};
use ratekeeper_core::Micros;
use tokio::time::Instant;
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, ServiceExt as _, service_fn};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Ask = Request<Full<Bytes>>;
pub(crate) type Reply = Response<Full<Bytes>>;

/// The `Date` of most answers here, and the time of day of most clients.
pub(crate) const DATE: &str = "Mon, 03 Jun 2019 11:00:00 GMT";
pub(crate) const DATE_S: u64 = 1_559_559_600;

/// Timers of the runtime have whole milliseconds, and are never early.
pub(crate) const TIMER: Duration = Duration::from_millis(1);

pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) const fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A transport's error, which says itself what it is.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) Failure);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Broken {}

/// An answer to be given.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
}

pub(crate) fn answer(status: u16, fields: &[(&str, &str)]) -> Answer {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
    }
    Answer { status: StatusCode::from_u16(status).expect("a status"), headers }
}

pub(crate) fn refusal(fields: &[(&str, &str)]) -> Answer {
    answer(429, fields)
}

pub(crate) fn fine() -> Answer {
    answer(200, &[])
}

impl Answer {
    pub(crate) fn head(&self) -> ResponseHead<'_> {
        ResponseHead { wall: s(DATE_S), ..ResponseHead::new(self.status, &self.headers) }
    }

    fn reply(&self) -> Reply {
        let mut reply = Response::new(Full::from("body"));
        *reply.status_mut() = self.status;
        *reply.headers_mut() = self.headers.clone();
        reply
    }
}

/// The first attempt of a GET, as the pure part sees it.
pub(crate) fn first_get() -> Call {
    Call {
        attempts: 1,
        idempotent: true,
        has_key: false,
        replayable: true,
        previous: Duration::ZERO,
        deadline: None,
    }
}

pub(crate) fn first_post() -> Call {
    Call { idempotent: false, ..first_get() }
}

/// What the pure part decides about an answer.
pub(crate) fn decided(profile: &Profile, head: &ResponseHead<'_>, call: &Call, draw: Draw) -> Next {
    let hint = resolve(head, profile);
    let outcome = Outcome::Answer { status: head.status, class: profile.classify(head), hint: &hint };
    let mut balance = Balance::new(&Settings::DEFAULT.budget);
    decide(&Settings::DEFAULT, call, &outcome, &mut balance, Micros::ZERO, draw)
}

/// The shortest and the longest wait in milliseconds before the next attempt.
pub(crate) fn waits_of(profile: &Profile, head: &ResponseHead<'_>, call: &Call) -> (u64, u64) {
    let wait = |draw| match decided(profile, head, call, draw) {
        Next::Retry { not_before, .. } => not_before.get().div_ceil(1_000),
        other => panic!("{other:?} after {head:?}"),
    };
    (wait(Draw::LEAST), wait(Draw::MOST))
}

/// The same for the first retry of a GET that nobody is known to answer.
pub(crate) fn waits(answer: &Answer) -> (u64, u64) {
    waits_of(&Profile::Generic, &answer.head(), &first_get())
}

/// What was sent, and when.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Duration,
    pub(crate) host: String,
    pub(crate) key: Option<String>,
}

pub(crate) type Polished = PoliteService<BoxCloneSyncService<Ask, Reply, Broken>>;

/// A server, and the clock that its log is written by.
#[derive(Clone)]
pub(crate) struct World {
    start: Instant,
    /// How long its answers take.
    takes: Duration,
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), takes: Duration::ZERO, sent: Arc::default() }
    }

    /// A server that is asked many things before it answers the first.
    pub(crate) fn slow(takes: Duration) -> Self {
        Self { takes, ..Self::new() }
    }

    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.sent.lock().expect("nobody panicked").clone()
    }

    /// When each send was.
    pub(crate) fn times(&self) -> Vec<Duration> {
        self.sent().iter().map(|sent| sent.at).collect()
    }

    /// The waits between sends.
    pub(crate) fn gaps(&self) -> Vec<Duration> {
        self.times().windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    /// A polite client of a server that answers send number n, from 0, with this.
    pub(crate) fn client<F>(&self, polite: &Polite, answers: F) -> Polished
    where
        F: Fn(usize, &Sent) -> Result<Answer, Broken> + Clone + Send + Sync + 'static,
    {
        self.client_by(&PoliteLayer::new(polite.clone()), answers)
    }

    pub(crate) fn client_by<F>(&self, layer: &PoliteLayer, answers: F) -> Polished
    where
        F: Fn(usize, &Sent) -> Result<Answer, Broken> + Clone + Send + Sync + 'static,
    {
        let world = self.clone();
        let server = service_fn(move |request: Ask| {
            let headers = request.headers();
            let key = headers.get("idempotency-key").map(|key| key.to_str().expect("ASCII").to_owned());
            let sent =
                Sent { at: world.now(), host: request.uri().host().unwrap_or_default().to_owned(), key };
            let number = {
                let mut all = world.sent.lock().expect("nobody panicked");
                all.push(sent.clone());
                all.len() - 1
            };
            let reply = answers(number, &sent).map(|answer| answer.reply());
            let takes = world.takes;
            async move {
                if !takes.is_zero() {
                    // Virtual time: what it takes the server to answer.
                    tokio::time::sleep(takes).await;
                }
                reply
            }
        });
        layer.layer(BoxCloneSyncService::new(server))
    }

    /// A client of a server that gives these answers in turn, and the last one for ever.
    pub(crate) fn client_of(&self, polite: &Polite, answers: &[Answer]) -> Polished {
        let answers = answers.to_vec();
        self.client(polite, move |number, _| Ok(answers[number.min(answers.len() - 1)].clone()))
    }
}

pub(crate) fn request(method: &str, url: &str) -> Ask {
    Request::builder().method(method).uri(url).body(Full::from("payload")).expect("a request")
}

pub(crate) fn get() -> Ask {
    request("GET", "http://a.test/")
}

pub(crate) fn post() -> Ask {
    request("POST", "http://a.test/")
}

/// A client with defaults whose time of day is the `Date` of answers.
pub(crate) fn polite() -> Polite {
    Polite::builder().time_of_day(|| s(DATE_S)).build().expect("the defaults are good")
}

/// Sends a request; the answer's status and report.
pub(crate) async fn call(client: &Polished, request: Ask) -> Result<(u16, RetryReport), BoxError> {
    let response = client.clone().oneshot(request).await?;
    let report = *response.extensions().get::<RetryReport>().expect("every answer has a report");
    Ok((response.status().as_u16(), report))
}

pub(crate) fn gated(error: &BoxError) -> Duration {
    error.downcast_ref::<Gated>().expect("the gate is closed").retry_after
}

/// Calls once a server that answers so; status, report, and the waits between the sends.
pub(crate) async fn play(request: Ask, answers: &[Answer]) -> (u16, RetryReport, Vec<Duration>) {
    let world = World::new();
    let client = world.client_of(&polite(), answers);
    let (status, report) = call(&client, request).await.expect("an answer");
    (status, report, world.gaps())
}

/// Each wait is within its bounds in milliseconds, but for what a timer is late.
pub(crate) fn assert_within(waits: &[Duration], bounds: &[(u64, u64)]) {
    assert_eq!(waits.len(), bounds.len(), "{waits:?} and {bounds:?}");
    for (wait, (least, most)) in waits.iter().zip(bounds) {
        assert!(*wait >= ms(*least) && *wait <= ms(*most) + TIMER, "{waits:?} is not within {bounds:?}");
    }
}
