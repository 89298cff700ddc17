//! The page that Prometheus reads, in either of its two formats.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, MetricEncoder, NoLabelSet, prometheus_text, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use ratekeeper::{StoreCounts, StoreStatus};
use ratekeeper_core::Trouble;

use super::histogram::Histogram;
use super::process::Process;
use super::{ACTIONS, Answer, CODES, Listener, Metrics, OTHER_CODES, Protocol, SOURCES, Series};
use crate::live::Watch;

/// A format of the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exposition {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4, which everything reads.
    Prometheus,
}

impl Exposition {
    /// What to send to somebody whose `Accept` field says `accept`.
    pub(crate) fn accepted(accept: Option<&str>) -> Self {
        let names_it = accept.is_some_and(|accept| accept.contains("application/openmetrics-text"));
        if names_it { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The `Content-Type` of the page.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
        }
    }
}

/// What is known elsewhere at the time of a scrape.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// The stores in the order of the configuration.
    pub(crate) stores: Vec<StoreSnapshot>,
    /// How far the wall clock is ahead of the process clock.
    pub(crate) clock_offset_us: i64,
    /// Reservations that are neither settled nor over.
    pub(crate) holds: u64,
    /// Temporary overrides.
    pub(crate) overrides: u64,
}

/// What a store says of itself.
#[derive(Clone, Default)]
pub(crate) struct StoreSnapshot {
    /// Keys that have a place.
    pub(crate) keys: u64,
    /// Decisions on shared state so far.
    pub(crate) overflow_decisions: u64,
    /// What is known of it instead, if a fleet shares it.
    pub(crate) shared: Option<SharedSnapshot>,
}

/// What is known of a store that a fleet shares.
#[derive(Clone)]
pub(crate) struct SharedSnapshot {
    /// How it is.
    pub(crate) status: StoreStatus,
    /// What it has counted.
    pub(crate) counts: StoreCounts,
    /// How long it takes.
    pub(crate) watch: Arc<Watch>,
}

impl fmt::Debug for StoreSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreSnapshot").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// The commit that was built, if whoever built it said so.
const COMMIT: &str = match option_env!("RATEKEEPER_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

impl Metrics {
    /// The page.
    pub(crate) fn encode(&self, format: Exposition, snapshot: Snapshot) -> String {
        let mut registry = Registry::default();
        let scrape = Scrape { series: Arc::clone(&self.series), snapshot, process: Process::read() };
        registry.register_collector(Box::new(scrape));
        let mut page = String::new();
        let written = match format {
            Exposition::OpenMetrics => text::encode(&mut page, &registry),
            Exposition::Prometheus => prometheus_text::encode(&mut page, &registry),
        };
        debug_assert!(written.is_ok(), "a string takes everything");
        page
    }
}

#[derive(Debug)]
struct Scrape {
    series: Arc<Series>,
    snapshot: Snapshot,
    process: Process,
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        self.decisions(&mut page)?;
        self.stores(&mut page)?;
        self.wires(&mut page)?;
        self.configuration(&mut page)?;
        self.process(&mut page)
    }
}

impl Scrape {
    fn decisions(&self, page: &mut Page<'_>) -> fmt::Result {
        let policies = &self.series.policies;
        let help = "Requests decided, by the limit that was binding and what became of them";
        let mut family = page.family("ratekeeper_decisions", help, None, MetricType::Counter)?;
        for policy in policies {
            for (limit, answers) in &policy.limits {
                for answer in Answer::ALL {
                    if matches!(answer, Answer::Delayed) && policy.delay.is_none() {
                        continue;
                    }
                    let labels = [
                        ("policy", policy.name.as_str()),
                        ("limit", limit.as_str()),
                        ("decision", answer.name()),
                    ];
                    family.counter(&labels, read(&answers[answer as usize]))?;
                }
            }
        }
        for policy in policies {
            for (decision, count) in ACTIONS.iter().zip(&*policy.actions) {
                let labels = [("policy", policy.name.as_str()), ("limit", ""), ("decision", decision)];
                family.counter(&labels, read(count))?;
            }
        }
        let help = "Requests decided, by how the answer was reached";
        let mut family = page.family("ratekeeper_decision_source", help, None, MetricType::Counter)?;
        for policy in policies {
            for (source, count) in SOURCES.iter().zip(&*policy.sources).take(policy.sources_shown) {
                let labels = [("policy", policy.name.as_str()), ("source", source.name())];
                family.counter(&labels, read(count))?;
            }
        }
        let help = "How long admitted requests are told to wait, of policies with a queue";
        let mut family =
            page.family("ratekeeper_delay", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for policy in policies {
            if let Some(delay) = &policy.delay {
                family.histogram(&[("policy", policy.name.as_str())], delay)?;
            }
        }
        Ok(())
    }

    fn stores(&self, page: &mut Page<'_>) -> fmt::Result {
        let said = |i| self.snapshot.stores.get(i).cloned().unwrap_or_default();
        let stores = self.series.stores.iter().enumerate();
        let stores: Vec<(&str, StoreSnapshot)> =
            stores.map(|(i, store)| (store.name.as_str(), said(i))).collect();
        let help = "How long a store takes to decide a request";
        let seconds = Some(&Unit::Seconds);
        let mut family = page.family("ratekeeper_decision_duration", help, seconds, MetricType::Histogram)?;
        for store in &self.series.stores {
            family.histogram(&[("store", store.name.as_str())], &store.took)?;
        }
        let in_memory = || stores.iter().filter(|(_, said)| said.shared.is_none());
        let help = "Pairs of key and limit that have a place in a store";
        let mut family = page.family("ratekeeper_keys", help, None, MetricType::Gauge)?;
        for (store, said) in in_memory() {
            family.gauge(&[("store", *store)], said.keys)?;
        }
        let help = "Decisions on state that keys share because a store is full";
        let mut family = page.family("ratekeeper_overflow_decisions", help, None, MetricType::Counter)?;
        for (store, said) in in_memory() {
            family.counter(&[("store", *store)], said.overflow_decisions)?;
        }
        let help = "Whether a store answers";
        let mut family = page.family("ratekeeper_store_up", help, None, MetricType::Gauge)?;
        for (store, said) in &stores {
            let is_up = said.shared.as_ref().is_none_or(|shared| shared.status.is_up);
            family.gauge(&[("store", *store)], u64::from(is_up))?;
        }
        let shared = stores.iter().filter_map(|(store, said)| Some((*store, said.shared.as_ref()?)));
        let shared: Vec<_> = shared.collect();
        if !shared.is_empty() {
            shared_stores(page, &shared)?;
        }
        page.single("ratekeeper_holds", "Open reservations", None, self.snapshot.holds)?;
        let help = "Overrides that hold for a while beside the file";
        page.single("ratekeeper_overrides", help, None, self.snapshot.overrides)?;
        let help = "How far the wall clock is ahead of the clock that times decisions";
        let offset = seconds_of(self.snapshot.clock_offset_us, 1_000_000);
        page.single("ratekeeper_clock_offset", help, Some(&Unit::Seconds), offset)
    }

    fn wires(&self, page: &mut Page<'_>) -> fmt::Result {
        let shared = &self.series.shared;
        let help = "Requests answered, by protocol and status";
        let mut family = page.family("ratekeeper_requests", help, None, MetricType::Counter)?;
        for protocol in Protocol::ALL {
            let codes = CODES.iter().map(ToString::to_string).chain([OTHER_CODES.to_owned()]);
            for (code, count) in codes.zip(&shared.requests[protocol as usize]) {
                family.counter(&[("protocol", protocol.name()), ("code", &code)], read(count))?;
            }
        }
        let help = "Open connections, by listener";
        let mut family = page.family("ratekeeper_connections", help, None, MetricType::Gauge)?;
        for listener in Listener::ALL {
            let open = read(&shared.connections[listener as usize]);
            family.gauge(&[("listener", listener.name())], open)?;
        }
        Ok(())
    }

    fn configuration(&self, page: &mut Page<'_>) -> fmt::Result {
        let shared = &self.series.shared;
        let help = "Whether the last attempt to load a configuration succeeded";
        let success = u64::from(!shared.reload_failed.load(Ordering::Relaxed));
        page.single("ratekeeper_config_last_reload_success", help, None, success)?;
        let help = "When the configuration at work was loaded, in Unix time";
        let loaded_at = i64::try_from(read(&shared.loaded_at_us)).unwrap_or(i64::MAX);
        let loaded_at = seconds_of(loaded_at, 1_000_000);
        page.single("ratekeeper_config_last_reload_timestamp", help, Some(&Unit::Seconds), loaded_at)?;
        let help = "The configuration at work";
        let mut family = page.family("ratekeeper_config", help, None, MetricType::Info)?;
        family.0.encode_info(&[("sha", &*self.series.sha)])?;
        let help = "The program that runs";
        let mut family = page.family("ratekeeper_build", help, None, MetricType::Info)?;
        family.0.encode_info(&[("version", env!("CARGO_PKG_VERSION")), ("commit", COMMIT)])
    }

    fn process(&self, page: &mut Page<'_>) -> fmt::Result {
        let of_ms = |ms: u64| seconds_of(i64::try_from(ms).unwrap_or(i64::MAX), 1_000);
        let Process { resident_bytes, virtual_bytes, cpu_ms, open_fds, max_fds, started_ms } = self.process;
        let (bytes, seconds) = (Some(&Unit::Bytes), Some(&Unit::Seconds));
        if let Some(resident) = resident_bytes {
            page.single("process_resident_memory", "Memory that is in use", bytes, resident)?;
        }
        if let Some(reserved) = virtual_bytes {
            page.single("process_virtual_memory", "Memory that is addressed", bytes, reserved)?;
        }
        if let Some(cpu) = cpu_ms {
            let help = "Time that processors spent on the process";
            let mut family = page.family("process_cpu", help, seconds, MetricType::Counter)?;
            family.0.encode_counter::<NoLabelSet, f64, f64>(&of_ms(cpu), None)?;
        }
        if let Some(open) = open_fds {
            page.single("process_open_fds", "Open file descriptors", None, open)?;
        }
        if let Some(most) = max_fds {
            page.single("process_max_fds", "File descriptors that may be open", None, most)?;
        }
        if let Some(started) = started_ms {
            page.single(
                "process_start_time",
                "When the process started, in Unix time",
                seconds,
                of_ms(started),
            )?;
        }
        Ok(())
    }
}

/// The families of stores that a fleet shares.
fn shared_stores(page: &mut Page<'_>, stores: &[(&str, &SharedSnapshot)]) -> fmt::Result {
    let help = "Whether a store is not asked for a moment, because it has failed too often";
    let mut family = page.family("ratekeeper_store_breaker_open", help, None, MetricType::Gauge)?;
    for (store, said) in stores {
        family.gauge(&[("store", *store)], u64::from(said.status.breaker_is_open))?;
    }
    let help = "How long a store takes to answer a command";
    let seconds = Some(&Unit::Seconds);
    let mut family =
        page.family("ratekeeper_store_operation_duration", help, seconds, MetricType::Histogram)?;
    for (store, said) in stores {
        for (op, took) in said.watch.operations().all() {
            family.histogram(&[("store", *store), ("op", op)], took)?;
        }
    }
    let help = "Questions that a store did not answer, by why";
    let mut family = page.family("ratekeeper_store_errors", help, None, MetricType::Counter)?;
    for (store, said) in stores {
        for (kind, count) in Trouble::ALL.iter().zip(said.counts.errors) {
            family.counter(&[("store", *store), ("kind", kind.name())], count)?;
        }
    }
    let help = "Scripts that had to be sent to a store again";
    let mut family = page.family("ratekeeper_script_reloads", help, None, MetricType::Counter)?;
    for (store, said) in stores {
        family.counter(&[("store", *store)], said.counts.script_reloads)?;
    }
    let help = "Units given back to a store because another limit refused, by whether that succeeded";
    let mut family = page.family("ratekeeper_undo", help, None, MetricType::Counter)?;
    for (store, said) in stores {
        for (result, count) in ["done", "failed"].iter().zip(said.counts.undone) {
            family.counter(&[("store", *store), ("result", *result)], count)?;
        }
    }
    Ok(())
}

/// The page as it is written, family by family.
struct Page<'e>(DescriptorEncoder<'e>);

struct Family<'e>(MetricEncoder<'e>);

impl Page<'_> {
    /// Begins a family. The format appends the unit to its name, and `_total` or `_info` to its samples.
    fn family<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
        unit: Option<&'s Unit>,
        kind: MetricType,
    ) -> Result<Family<'s>, fmt::Error> {
        self.0.encode_descriptor(name, help, unit, kind).map(Family)
    }

    /// A gauge without labels.
    fn single(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: impl EncodeGaugeValue,
    ) -> fmt::Result {
        self.family(name, help, unit, MetricType::Gauge)?.0.encode_gauge(&value)
    }
}

impl Family<'_> {
    fn counter(&mut self, labels: &impl EncodeLabelSet, value: u64) -> fmt::Result {
        self.0.encode_family(labels)?.encode_counter::<NoLabelSet, u64, f64>(&value, None)
    }

    fn gauge(&mut self, labels: &impl EncodeLabelSet, value: u64) -> fmt::Result {
        self.0.encode_family(labels)?.encode_gauge(&value)
    }

    fn histogram(&mut self, labels: &impl EncodeLabelSet, histogram: &Histogram) -> fmt::Result {
        let buckets = histogram.buckets();
        // Not counted apart: it is what the buckets have, whatever is added while they are read.
        let count = buckets.iter().map(|(_, count)| count).sum();
        let mut encoder = self.0.encode_family(labels)?;
        encoder.encode_histogram::<NoLabelSet>(histogram.sum(), count, &buckets, None)
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[expect(clippy::float_arithmetic, reason = "the format writes seconds as decimals; nothing decides by them")]
fn seconds_of(units: i64, per_second: i64) -> f64 {
    units as f64 / per_second as f64
}
