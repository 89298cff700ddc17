//! The header fields of answers.

use std::borrow::Cow;
use std::cell::Cell;

use http::header::{self, Entry, HeaderMap, HeaderName, HeaderValue, OccupiedEntry};
use http::{StatusCode, response};
use ratekeeper::{Clock, Decision, Verdict, XRateLimit, retry_after_seconds, write_decimal};
use ratekeeper_policy::{Dialect, Headers, Stretch, XRateLimit as XOption};

use crate::book::{Book, Place, Places, field_value};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_RATELIMIT: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];
/// What a page of another origin may read of a refusal.
const EXPOSED: HeaderValue = HeaderValue::from_static("Retry-After, RateLimit, RateLimit-Policy");
pub(crate) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The fields of one answer that its limits want to be told.
#[derive(Default)]
pub(crate) struct Fields {
    policy: Option<HeaderValue>,
    limit: Option<HeaderValue>,
    /// Boxed, since hardly anybody wants them and every answer on its way has room for them.
    x: Option<Box<[HeaderValue; 3]>>,
}

/// What an answer is written from.
pub(crate) struct Told<'t> {
    pub(crate) book: &'t Book,
    pub(crate) decision: &'t Decision,
    pub(crate) places: &'t Places,
    pub(crate) clock: &'t dyn Clock,
    /// By how much every wait of a refusal is told longer.
    pub(crate) stretch: Stretch,
}

/// A field value as it is written; none if nothing is.
fn in_buffer(write: impl FnOnce(&mut Vec<u8>)) -> Option<HeaderValue> {
    thread_local! {
        /// The memory of the last value: the next one is copied out of it in one piece.
        static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    BUFFER.with(|buffer| {
        let mut text = buffer.take();
        text.clear();
        write(&mut text);
        let value = if text.is_empty() { None } else { field_value(&text) };
        buffer.set(text);
        value
    })
}

impl Told<'_> {
    /// The limits that were asked; who could not be asked has no numbers.
    fn asked(&self) -> impl Iterator<Item = (Place, Headers, &Verdict)> + Clone {
        let each = self.places.iter().zip(self.decision.limits());
        let asked = each.filter(|(_, verdict)| verdict.has_numbers());
        asked.map(|(place, verdict)| (*place, self.book.headers(*place), verdict))
    }

    /// The fields; with `always` also those that nobody wants to be told of an answer that lets pass.
    pub(crate) fn fields(&self, always: bool) -> Fields {
        let is_wanted = |headers: &Headers| always || headers.ratelimit;
        let wanted = self.asked().filter(|(_, headers, _)| is_wanted(headers));
        let mut fields = Fields { x: self.x(), ..Fields::default() };
        if wanted.clone().next().is_none() {
            return fields;
        }
        let whole = self.book.whole(self.places, self.decision.limits());
        fields.policy = match whole {
            Some(whole) => Some(whole.clone()),
            None => in_buffer(|text| {
                for (place, _, verdict) in wanted.clone() {
                    let Some(item) = self.book.item(place, verdict) else { continue };
                    if !text.is_empty() {
                        text.extend_from_slice(b", ");
                    }
                    text.extend_from_slice(item.policy().as_bytes());
                }
            }),
        };
        fields.limit = in_buffer(|text| self.write_items(is_wanted, whole.is_some(), text));
        fields
    }

    /// The items of `RateLimit`: of all limits, or of a refusal those that refuse for now.
    /// `by_own_numbers`: nobody's limit is another for this key.
    fn write_items(&self, is_wanted: impl Fn(&Headers) -> bool, by_own_numbers: bool, text: &mut Vec<u8>) {
        let passes = self.asked().all(|(.., verdict)| verdict.allowed());
        for (place, headers, verdict) in self.asked() {
            if verdict.allowed() != passes || !is_wanted(&headers) {
                continue;
            }
            // No number of seconds would be true of what can never pass.
            let wait = if passes { Some(verdict.more_after()) } else { verdict.retry_after() };
            let item = match by_own_numbers {
                true => self.book.own_item(place).map(Cow::Borrowed),
                false => self.book.item(place, verdict),
            };
            let (Some(wait), Some(item)) = (wait, item) else { continue };
            let wait = if passes { wait } else { self.stretch.of(wait) };
            if !text.is_empty() {
                text.extend_from_slice(b", ");
            }
            item.write_numbers(text, verdict.remaining(), wait);
            if headers.dialect == Dialect::Both {
                text.extend_from_slice(b";a=");
                write_decimal(text, verdict.remaining());
                text.extend_from_slice(b";w=");
                write_decimal(text, retry_after_seconds(wait));
            }
        }
    }

    /// The older fields, of the limit that binds.
    fn x(&self) -> Option<Box<[HeaderValue; 3]>> {
        let place = *self.places.get(self.decision.binding)?;
        let numbers = |verdict: &Verdict| match self.book.headers(place).x_ratelimit {
            XOption::Off => None,
            XOption::Unix => Some(XRateLimit::unix(verdict, self.clock.now())),
            XOption::Delta => Some(XRateLimit::delta(verdict)),
        };
        let verdict = self.decision.limits().get(self.decision.binding)?;
        let is_told =
            verdict.has_numbers() && self.decision.reason != Some(ratekeeper::Reason::StoreUnavailable);
        let numbers = if is_told { numbers(verdict)? } else { return None };
        Some(Box::new([numbers.limit.into(), numbers.remaining.into(), numbers.reset.into()]))
    }
}

impl Fields {
    /// Whether there is nothing to be told.
    pub(crate) const fn is_empty(&self) -> bool {
        self.policy.is_none() && self.limit.is_none() && self.x.is_none()
    }

    /// Adds them to the inner service's answer, unless they would not be true of it: another limiter has refused,
    /// nothing was answered yet, or a cache would show them to others.
    pub(crate) fn add_to(self, answer: &mut response::Parts) {
        let is_foreign =
            matches!(answer.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        let status = answer.status;
        if is_foreign || status.is_informational() || status.is_redirection() || is_public(&answer.headers) {
            return;
        }
        self.merge_into(&mut answer.headers);
    }

    /// Adds them to whatever is there: lists grow, and there are never two lines of one field.
    pub(crate) fn merge_into(self, headers: &mut HeaderMap) {
        for (name, ours) in [(RATELIMIT_POLICY, self.policy), (RATELIMIT, self.limit)] {
            let Some(ours) = ours else { continue };
            match headers.entry(name) {
                Entry::Vacant(place) => drop(place.insert(ours)),
                Entry::Occupied(mut theirs) => {
                    if let Some(joined) = joined(&theirs, &ours) {
                        theirs.insert(joined);
                    }
                }
            }
        }
        let Some(numbers) = self.x else { return };
        // They are about one limit each: another limiter's stay whole.
        if X_RATELIMIT.iter().any(|name| headers.contains_key(name)) {
            return;
        }
        for (name, number) in X_RATELIMIT.into_iter().zip(*numbers) {
            headers.insert(name, number);
        }
    }
}

/// All lines of a list, and ours behind them.
fn joined(theirs: &OccupiedEntry<'_, HeaderValue>, ours: &HeaderValue) -> Option<HeaderValue> {
    let mut text = Vec::new();
    for line in theirs.iter().chain([ours]) {
        if !text.is_empty() {
            text.extend_from_slice(b", ");
        }
        text.extend_from_slice(line.as_bytes());
    }
    field_value(&text)
}

/// Whether a shared cache may keep it.
fn is_public(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::CACHE_CONTROL).into_iter();
    let directives = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    directives.map(<[u8]>::trim_ascii).any(|directive| {
        directive.eq_ignore_ascii_case(b"public")
            || directive.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"s-maxage"))
    })
}

/// What every refusal says of itself beside its limits. A wait that the program's own answer has named stays, if it is
/// longer, or a date.
pub(crate) fn add_wait(headers: &mut HeaderMap, seconds: Option<u64>) {
    if let Some(seconds) = seconds {
        let said = headers.get(header::RETRY_AFTER).map(HeaderValue::as_bytes);
        let is_number = |said: &[u8]| said.iter().all(u8::is_ascii_digit);
        if said.is_none_or(is_number) {
            let said = said.and_then(|said| std::str::from_utf8(said).ok()?.parse::<u64>().ok());
            headers.insert(header::RETRY_AFTER, said.map_or(seconds, |said| said.max(seconds)).into());
        }
        headers.insert(header::CACHE_CONTROL, NO_STORE);
    }
    if !headers.contains_key(header::ACCESS_CONTROL_EXPOSE_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
}

#[cfg(test)]
mod tests;
