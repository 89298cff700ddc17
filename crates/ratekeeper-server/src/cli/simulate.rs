//! `ratekeeper simulate`: decide a trace in virtual time.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use clap::Args;
use ratekeeper::BuildError;
use ratekeeper_core::{MIN_SHARED_WINDOW, ManualClock, Store, StoreUrl};
use ratekeeper_policy::{Config, LimitFlags, Policy};
use ratekeeper_sim::hints::{file_has, nearest, quoted};
use ratekeeper_sim::{SimError, Simulation};

use crate::cli::Failure;
use crate::input::{self, ConfigArgs};
use crate::live;

/// Decide a trace in virtual time: the answers of production without waiting
///
/// The trace has one JSON object per line, for example {"t_us":0,"key":"user:42","cost":1}; every line gets one
/// line of answer on stdout. A step {"op":"refund","of":N} gives back what step N took: `of` is the number of
/// the step, from 0, empty lines not counted.
#[derive(Args)]
pub(super) struct Simulate {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    limit: LimitArgs,
    /// The policy that decides lines which name none [default: the file's only one]
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// The trace; `-` is stdin
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Where states are kept: memory, with the bounds of the policy's own store, or a Redis or Valkey at redis://…,
    /// under keys of the simulation's own
    #[arg(long, value_name = "memory|URL", default_value = "memory")]
    store: String,
}

/// One limit instead of a file.
#[derive(Args)]
struct LimitArgs {
    /// Try one limit instead of a file, for example 10/s or '5 per 10m'; it is called `limit`
    #[arg(
        long,
        value_name = "LIMIT",
        conflicts_with = "config",
        requires = "algorithm",
        allow_hyphen_values = true
    )]
    limit: Option<String>,
    /// How it counts: fixed-window, sliding-window-log, sliding-window-counter, token-bucket, leaky-bucket, gcra
    #[arg(long, value_name = "NAME", requires = "limit")]
    algorithm: Option<String>,
    /// Capacity of a bucket in units
    #[arg(long, value_name = "N", requires = "limit", allow_hyphen_values = true)]
    burst: Option<String>,
    /// leaky-bucket: how many units may wait
    #[arg(long, value_name = "N", requires = "limit", allow_hyphen_values = true)]
    queue: Option<String>,
    /// leaky-bucket with a queue: the longest wait, for example 5s
    #[arg(long, value_name = "D", requires = "limit", allow_hyphen_values = true)]
    max_wait: Option<String>,
    /// fixed-window: epoch, first-request or calendar
    #[arg(long, value_name = "A", requires = "limit")]
    align: Option<String>,
    /// fixed-window with calendar: the time zone, for example Europe/Paris
    #[arg(long, value_name = "Z", requires = "limit")]
    timezone: Option<String>,
}

impl Simulate {
    pub(super) fn run(self) -> Result<(), Failure> {
        let url = self.url()?;
        let config = self.configuration()?;
        let policy = self.policy.as_deref().map(|name| find(&config, name)).transpose()?;
        let clock = ManualClock::new();
        let cannot = |wrong: BuildError| Failure::Other(format!("error: cannot build the store: {wrong}"));
        let Some(url) = url else {
            let stores = live::build_stores(&config, Some(&clock)).map_err(cannot)?;
            return at_once(self.decide(Simulation::new(&config, policy, &stores, clock)));
        };
        long_enough(&config)?;
        let store = live::simulated(&url, clock.clone()).map_err(cannot)?;
        let stores: Vec<_> = config.stores.iter().map(|of| (of.name.clone(), store.clone())).collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|wrong| Failure::Other(format!("error: cannot start a runtime: {wrong}")))?;
        runtime.block_on(self.decide(Simulation::new(&config, policy, &stores, clock)))
    }

    /// Decides the trace.
    async fn decide<S: Store>(&self, mut simulation: Simulation<'_, S>) -> Result<(), Failure> {
        let done = if input::is_stdin(&self.trace) {
            // Line by line: the trace may be somebody's typing.
            simulation.run(io::stdin().lock(), io::stdout().lock()).await
        } else {
            let trace = open(&self.trace)?;
            simulation.run(trace, BufWriter::new(io::stdout().lock())).await
        };
        done.map_err(|wrong| failure(&wrong, &input::shown(&self.trace)))
    }

    /// Where the states are kept, if not in memory.
    fn url(&self) -> Result<Option<StoreUrl>, Failure> {
        if self.store == "memory" {
            return Ok(None);
        }
        if !self.store.contains("://") {
            let (store, hint) =
                (quoted(&self.store), "use `--store memory`, or a URL as redis://127.0.0.1:6379");
            return Err(Failure::BadInput(format!("error: unknown store {store}: {hint}")));
        }
        // Not shown: it may have a password.
        StoreUrl::parse(&self.store)
            .map(Some)
            .map_err(|wrong| Failure::BadInput(format!("error: `--store`: {wrong}: {}", wrong.hint())))
    }

    fn configuration(&self) -> Result<Config, Failure> {
        let flags = &self.limit;
        if let (Some(limit), Some(algorithm)) = (&flags.limit, &flags.algorithm) {
            return Config::single(&LimitFlags {
                limit,
                algorithm,
                burst: flags.burst.as_deref(),
                queue: flags.queue.as_deref(),
                max_wait: flags.max_wait.as_deref(),
                align: flags.align.as_deref(),
                timezone: flags.timezone.as_deref(),
            })
            .map_err(|errors| {
                let lines: Vec<String> = errors.iter().map(|error| format!("error: {error}")).collect();
                Failure::BadInput(lines.join("\n"))
            });
        }
        let file = self.config.file();
        if input::is_stdin(&file) && input::is_stdin(&self.trace) {
            let message =
                "error: `--config -` and `--trace -` cannot both be stdin: name a file for one of them";
            return Err(Failure::BadInput(message.to_owned()));
        }
        input::config(&file)
    }
}

/// Whether a store of Redis can hold all limits.
fn long_enough(config: &Config) -> Result<(), Failure> {
    for policy in &config.policies {
        let mut limits = policy.limits().iter().map(|limit| &limit.named);
        if let Some(limit) = limits.find(|limit| limit.limit().window() < MIN_SHARED_WINDOW) {
            return Err(Failure::BadInput(format!(
                "error: limit `{}.{}` has a window below 1 ms, which Redis cannot hold: use `--store memory`",
                policy.name(),
                limit.name()
            )));
        }
    }
    Ok(())
}

fn find<'c>(config: &'c Config, name: &str) -> Result<&'c Policy, Failure> {
    // The policy of `--limit` has a name that nobody gave it.
    let found = if config.is_from_flags() { None } else { config.policy(name) };
    found.ok_or_else(|| {
        let names = || config.policies.iter().map(|policy| policy.name().as_str());
        let hint = match nearest(name, names()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => file_has(names()),
        };
        let hint = if config.is_from_flags() {
            "`--limit` has no policies: leave `--policy` out".to_owned()
        } else {
            hint
        };
        Failure::BadInput(format!("error: `--policy`: unknown policy {}: {hint}", quoted(name)))
    })
}

fn open(trace: &Path) -> Result<impl BufRead, Failure> {
    let open = File::open(trace);
    open.map(BufReader::new).map_err(|wrong| {
        Failure::BadInput(format!("error: cannot read the trace {}: {wrong}", input::shown(trace)))
    })
}

fn failure(wrong: &SimError, trace: &str) -> Failure {
    match wrong {
        SimError::Wrong(line) => Failure::BadInput(line.in_file(trace).to_string()),
        SimError::Output(wrong) => Failure::output(wrong),
        SimError::Input(wrong) => {
            let message = format!("error: cannot read the trace {trace}: {wrong}");
            match wrong.kind() {
                io::ErrorKind::IsADirectory => Failure::BadInput(message),
                _ => Failure::Other(message),
            }
        }
        other => Failure::Other(other.to_string()),
    }
}

/// Drives a run over stores in memory, whose futures are ready at once: there is nothing to wait for, so there
/// is no runtime.
pub(super) fn at_once<T>(run: impl Future<Output = T>) -> T {
    let mut run = pin!(run);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(done) = run.as_mut().poll(&mut context) {
            return done;
        }
    }
}
