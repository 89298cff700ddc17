//! The application, three times: without limits, with our layer, with `tower_governor`.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::Request;
use ratekeeper::Limit;
use ratekeeper_tower::{LimitBy as _, RateLimitLayer, global, header};
use tower_governor::GovernorLayer;
use tower_governor::errors::GovernorError;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::{GlobalKeyExtractor, KeyExtractor};

/// The hidden argument: a process of its own, so that its CPU time and memory are its own too.
pub(crate) const SUBCOMMAND: &str = "application";

/// Behind it, for a process that a flood is sent to.
pub(crate) const FOR_FLOOD: &str = "for-flood";

/// The header that says who asks.
pub(crate) const USER: &str = "x-user";

/// For how many keys our table has room where new ones come without an end; else it is what the layer takes unless
/// told otherwise.
const FLOOD_KEYS: u64 = 1_000_000;

/// Its layer has a type for every choice.
macro_rules! governor {
    ($key:expr, $period:expr, $burst:expr) => {{
        let mut builder = GovernorConfigBuilder::default();
        builder.period($period).burst_size($burst);
        let config = builder.use_headers().key_extractor($key).finish().expect("numbers above 0");
        GovernorLayer::new(config)
    }};
}

/// The inner layer is asked after the outer one has charged: the limit per user goes first, as one would have it.
macro_rules! both {
    ($period:expr, $burst:expr) => {
        get(hello)
            .layer::<_, std::convert::Infallible>(governor!(
                GlobalKeyExtractor,
                Duration::from_micros(1),
                1_000_000
            ))
            .layer(governor!(User, $period, $burst))
    };
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum App {
    Bare,
    Ours,
    Governor,
}

impl App {
    pub(crate) const ALL: [Self; 3] = [Self::Bare, Self::Ours, Self::Governor];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare axum",
            Self::Ours => "ratekeeper-tower",
            Self::Governor => "tower_governor",
        }
    }

    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|app| app.name() == name)
    }

    /// The one path that a flood of new keys goes to, and nothing beside it that takes memory.
    fn router_for_flood(self) -> Router {
        match self {
            Self::Bare => Router::new().route("/key", get(hello)),
            Self::Ours => Router::new().route("/key", get(hello).layer(ours_for_flood())),
            Self::Governor => Router::new()
                .route("/key", get(hello).layer(governor!(User, Duration::from_micros(1), 1_000_000))),
        }
    }

    fn router(self) -> Router {
        match self {
            Self::Bare => {
                Router::new().route("/key", get(hello)).route("/both", get(hello)).route("/none", get(hello))
            }
            Self::Ours => Router::new()
                .route("/key", get(hello).layer(ours(Limit::per_second(1_000_000), false)))
                .route("/both", get(hello).layer(ours(Limit::per_second(1_000_000), true)))
                .route("/none", get(hello).layer(ours(Limit::per_day(1), true)))
                .route("/soon", get(hello).layer(ours(Limit::per_second(4).burst(1), false))),
            Self::Governor => {
                let (fast, day) = (Duration::from_micros(1), Duration::from_secs(86_400));
                Router::new()
                    .route("/key", get(hello).layer(governor!(User, fast, 1_000_000)))
                    .route("/both", both!(fast, 1_000_000))
                    .route("/none", both!(day, 1))
                    .route("/soon", get(hello).layer(governor!(User, Duration::from_millis(250), 1)))
            }
        }
    }
}

async fn hello() -> &'static str {
    "hello"
}

/// Our layer: a limit per user, and with `all` one for everybody that is decided with it.
fn ours(limit: Limit, all: bool) -> RateLimitLayer {
    let layer = RateLimitLayer::builder().limit(limit.by(header(USER)).named("user"));
    let everybody = Limit::per_second(1_000_000).by(global()).named("all");
    let layer = if all { layer.limit(everybody) } else { layer };
    layer.build().expect("a good layer")
}

fn ours_for_flood() -> RateLimitLayer {
    let limit = Limit::per_second(1_000_000).by(header(USER));
    RateLimitLayer::builder().max_keys(FLOOD_KEYS).limit(limit).build().expect("a good layer")
}

#[derive(Clone)]
struct User;

impl KeyExtractor for User {
    type Key = String;

    fn extract<T>(&self, request: &Request<T>) -> Result<String, GovernorError> {
        let value = request.headers().get(USER).and_then(|value| value.to_str().ok());
        value.map(str::to_owned).ok_or(GovernorError::UnableToExtractKey)
    }
}

/// Says where it listens, and serves until it is ended.
pub(crate) fn serve(app: App, for_flood: bool) -> io::Result<()> {
    let router = if for_flood { app.router_for_flood() } else { app.router() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?.port());
        axum::serve(listener, router).await
    })
}
