//! Questions as arguments of the scripts, and answers from what the scripts have read.

use ratekeeper_core::{
    Align, Arithmetic, Ask, BackTerms, Calendar, Evaluation, Limit, LogReading, Micros, Moment, NamedLimit,
    Span, StateRef, Token, UtcCalendar, Window, evaluate, evaluate_log, evaluate_up_to, write_decimal,
};
use smallvec::SmallVec;

use super::keys::letter;

/// Periods of a calendar around an instant, by their boundaries: the script picks the one of its own clock.
pub(super) type Bounds = SmallVec<[Micros; 4]>;

/// What became of a request, as the script says it.
pub(super) const REFUSED: i64 = 0;
pub(super) const ALLOWED: i64 = 1;
pub(super) const CALENDAR_TOO_SHORT: i64 = 2;
pub(super) const NOT_OURS: i64 = 3;
/// Added to the others when each state is its first number, and the rest of it nothing.
pub(super) const BRIEF: i64 = 4;

/// Arithmetic of text for one argument.
struct Words(Vec<u8>);

impl Words {
    fn text(&mut self, text: &[u8]) -> &mut Self {
        if !self.0.is_empty() {
            self.0.push(b' ');
        }
        self.0.extend_from_slice(text);
        self
    }

    fn number(&mut self, number: u64) -> &mut Self {
        if !self.0.is_empty() {
            self.0.push(b' ');
        }
        write_decimal(&mut self.0, number);
        self
    }

    fn span(&mut self, span: Span) -> &mut Self {
        self.number(span.us).number(span.part)
    }
}

/// The numbers that a state was written with, as one word: what another limit reads it by.
fn shape(limit: &Limit) -> Vec<u8> {
    let mut word = Vec::with_capacity(24);
    match limit.arithmetic() {
        Arithmetic::Meter | Arithmetic::Queue => {
            let (p, q) = limit.unit();
            write_decimal(&mut word, p);
            word.push(b'/');
            write_decimal(&mut word, q);
            word.push(b'x');
        }
        Arithmetic::Fixed => {
            write_decimal(&mut word, window_us(limit));
            word.extend_from_slice(alignment(limit).as_bytes());
        }
        Arithmetic::Counter => {
            write_decimal(&mut word, window_us(limit));
            word.push(b's');
        }
        Arithmetic::Log => {
            word.push(b'-');
            return word;
        }
    }
    write_decimal(&mut word, limit.capacity());
    word
}

const fn alignment(limit: &Limit) -> &'static str {
    match limit.alignment() {
        Align::Epoch => "e",
        Align::FirstRequest => "r",
        Align::Calendar(ratekeeper_core::Period::Day) => "cd",
        Align::Calendar(ratekeeper_core::Period::Week) => "cw",
        Align::Calendar(ratekeeper_core::Period::Month) => "cm",
    }
}

/// How a request is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Acquire,
    Peek,
}

/// The argument that asks `cost` of one limit: four letters, eight numbers and the shape of its states. A server takes
/// numbers apart that are written as it computes with them in a quarter of the time that digits take.
pub(super) fn question(op: Op, limit: &NamedLimit, cost: u64, bounds: &Bounds) -> Vec<u8> {
    let (of, drains) = (limit.limit(), limit.is_draining());
    // More than fits at once is never decided by the script: it is asked for nothing, or takes what there is.
    let fits = cost <= of.capacity();
    let cost = if fits || drains { cost.min(of.capacity()) } else { 0 };
    let arithmetic = of.arithmetic();
    let mut numbers = [0.0; NUMBERS];
    numbers[0] = double(cost);
    let align = match arithmetic {
        Arithmetic::Meter | Arithmetic::Queue => {
            let ((p, q), one, most) = (of.unit(), of.span_of(cost), of.span_of(of.capacity()));
            let terms = [p, q, one.us, one.part, most.us, most.part].map(double);
            numbers[1..7].copy_from_slice(&terms);
            numbers[7] = of.max_wait_us().map_or(-1.0, double);
            b'-'
        }
        Arithmetic::Fixed | Arithmetic::Counter | Arithmetic::Log => {
            let bounds = bounds.iter().map(|bound| bound.get());
            let terms = [of.capacity(), window_us(of)].into_iter().chain(bounds);
            numbers[1..].iter_mut().zip(terms).for_each(|(number, term)| *number = double(term));
            alignment(of).as_bytes()[0]
        }
    };
    let op = if op == Op::Peek { b'p' } else { b'a' };
    let mut argument = Vec::with_capacity(4 + 8 * NUMBERS + 28);
    argument.extend_from_slice(&[op, letter(arithmetic), if drains { b'd' } else { b'-' }, align]);
    numbers.iter().for_each(|number| argument.extend_from_slice(&number.to_be_bytes()));
    argument.extend_from_slice(&shape(of));
    argument
}

/// How many numbers a question has.
const NUMBERS: usize = 8;

/// A number as the scripts have them: whole up to 2^53, which no term of a limit and no instant passes.
const fn double(number: u64) -> f64 {
    number as f64
}

fn window_us(limit: &Limit) -> u64 {
    u64::try_from(limit.window().as_micros()).unwrap_or(u64::MAX)
}

/// The argument that forgets a key.
pub(super) fn forget() -> Vec<u8> {
    b"x".to_vec()
}

/// The argument that gives an admission back.
pub(super) fn give_back(limit: &Limit, token: &Token) -> Vec<u8> {
    let mut words = amendment(b"r", limit);
    match limit.back_terms(token) {
        BackTerms::Meter { at, until, span, taken } => {
            words.number(at).span(until).span(span).number(taken);
        }
        BackTerms::Queue { at, end, start, taken } => {
            words.number(at).span(end).span(start).number(taken);
        }
        BackTerms::Fixed { start, length, units } => {
            words.number(start).number(length).number(0).number(units);
        }
        BackTerms::Counter { start, units } => {
            words.number(start).number(0).number(0).number(units);
        }
        BackTerms::Log { at, entry, units } => {
            words.number(at).number(entry).number(0).number(units);
        }
    }
    words.0
}

/// The argument that credits units.
pub(super) fn credit(limit: &Limit, units: u64) -> Vec<u8> {
    let mut words = amendment(b"c", limit);
    words.number(units.min(Micros::MAX.get()));
    words.0
}

fn amendment(op: &[u8], limit: &Limit) -> Words {
    let mut words = Words(Vec::with_capacity(96));
    words.text(op).text(&[letter(limit.arithmetic())]).text(&shape(limit));
    words.number(window_us(limit)).text(alignment(limit).as_bytes());
    words
}

/// How many numbers the script answers for a limit, unless the answer is brief.
pub(super) const fn numbers_of(limit: &Limit) -> usize {
    match limit.arithmetic() {
        Arithmetic::Log => 5,
        Arithmetic::Meter | Arithmetic::Queue | Arithmetic::Fixed | Arithmetic::Counter => 3,
    }
}

/// The boundaries of the calendar periods around `about`, for a limit that follows a calendar.
pub(super) fn bounds(limit: &NamedLimit, about: Micros) -> Bounds {
    let Align::Calendar(period) = limit.limit().alignment() else { return Bounds::new() };
    let utc = UtcCalendar(period);
    let calendar: &dyn Calendar = limit.calendar().unwrap_or(&utc);
    let here = calendar.window(about);
    let before = calendar.window(Micros::new(here.start.get().saturating_sub(1)));
    let after = calendar.window(here.end);
    let mut bounds = Bounds::new();
    if before.end == here.start && before.start < here.start {
        bounds.push(before.start);
    }
    bounds.extend([here.start, here.end]);
    if after.start == here.end && after.end > here.end {
        bounds.push(after.end);
    }
    bounds
}

fn period_at(bounds: &Bounds, now: Micros) -> Option<Window> {
    bounds
        .windows(2)
        .map(|pair| Window { start: pair[0], end: pair[1] })
        .find(|w| w.start <= now && now < w.end)
}

/// What one limit says of a request, worked out from what the script has read. `None` if no state is like that.
pub(super) fn evaluation(
    limit: &NamedLimit,
    numbers: &[i64],
    bounds: &Bounds,
    now: Micros,
    (cost, ask): (u64, Ask),
) -> Option<Evaluation> {
    let of = limit.limit();
    let mut at = Moment { now, heals: true, period: period_at(bounds, now) };
    let number = |i: usize| numbers.get(i).and_then(|number| u64::try_from(*number).ok());
    if of.arithmetic() == Arithmetic::Log {
        let [used, oldest, newest, frees_one, frees_cost] =
            [number(0)?, number(1)?, number(2)?, number(3)?, number(4)?];
        let reading = LogReading { used, oldest, newest, frees_one, frees_cost };
        let fits = if limit.is_draining() {
            let room = of.capacity().saturating_sub(used);
            if cost > room { cost.min(room.max(1)) } else { cost }
        } else {
            cost
        };
        return Some(evaluate_log(of, &reading, &at, fits));
    }
    let mut fields = [number(0)?, number(1)?, number(2)?];
    if matches!(of.arithmetic(), Arithmetic::Meter | Arithmetic::Queue) {
        // The script has healed it already, or it must not be healed.
        at.heals = fields[2] == 0;
        fields[2] = 0;
    }
    let state = StateRef::Words(of.state_of(fields)?);
    Some(if limit.is_draining() {
        evaluate_up_to(of, state, &at, cost, ask)
    } else {
        evaluate(of, state, &at, cost, ask)
    })
}
