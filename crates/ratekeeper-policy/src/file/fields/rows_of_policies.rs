//! The rows of policies.

use ratekeeper_core::{Algorithm, MAX_AMOUNT, MAX_LIMITS, MAX_WAIT_US};

use super::forms::{HEADER, HOST, KIND_OF_KEY, METHOD, NAME, PATH, PATTERN, RATE, ZONE};
use super::rows::{DIALECT, JITTER, ON_STORE_ERROR, SENDS_HEADERS, USES_STORE};
use super::rows_of_stores::ONLY_EXACT;
use super::{ALGORITHMS, Field, Foreign, Form, Need, Place, Rule, field, inherited, later, words};
use crate::file::overrides::MAX_OVERRIDES;
use crate::key::MAX_ALTERNATIVES;
use crate::limit::ALIGNMENTS;
use crate::matcher::{MAX_MATCH_HEADERS, MAX_METHODS};
use crate::options::{Action, MissingKey, Mode, OnExcess};

const NO_DESCRIPTORS: &str = "descriptors of Envoy are not served in this version";

const MODES: [&str; 3] = words(&Mode::WORDS);
const ACTIONS: [&str; 2] = words(&Action::WORDS);
const MISSING_KEYS: [&str; 3] = words(&MissingKey::WORDS);
const ON_EXCESS: [&str; 2] = words(&OnExcess::WORDS);

/// Alternatives, each of one part or a list of them.
const KEY: Form = Form::List(
    &Form::Either(&[Form::Text(&KIND_OF_KEY), Form::List(&Form::Text(&KIND_OF_KEY), 1, MAX_ALTERNATIVES)]),
    1,
    MAX_ALTERNATIVES,
);

pub(in crate::file) const POLICY: Place = Place {
    path: "policies[]",
    name: "a policy",
    doc: "Every policy whose match fits a request applies to it, or the one that a caller names.",
    fields: &[
        field(
            "name",
            Form::Text(&NAME),
            Need::Required,
            "What callers, header fields and metrics call it; unique in the file.",
            "search",
        ),
        field(
            "key",
            KEY,
            Need::Required,
            "Who is limited: the first alternative that a request has. A list within the list is one key of several parts.",
            "[[header:x-tenant, ip], ip]",
        ),
        field(
            "limits",
            Form::List(&Form::Mapping(&super::LIMIT), 1, MAX_LIMITS),
            Need::Required,
            "All of them hold, and are decided together: a request that one refuses is charged by none. At most one has a queue.",
            "[{ name: burst, algorithm: token-bucket, limit: 10/s, burst: 20 }]",
        ),
        inherited(USES_STORE),
        field(
            "mode",
            Form::Words(&MODES),
            Need::Default("enforce"),
            "Whether limits refuse (`enforce`), decide and are counted but refuse nobody (`shadow`), or are not looked at (`off`).",
            "shadow",
        ),
        inherited(SENDS_HEADERS),
        field(
            "match",
            Form::Mapping(&super::MATCH),
            Need::Optional("every request"),
            "Which requests it is about.",
            "{ method: POST, path: /login }",
        ),
        field(
            "action",
            Form::Words(&ACTIONS),
            Need::Optional("limits decide"),
            "Instead of limits: `block` refuses, and no wait helps; `bypass` lets pass what no other policy refuses.",
            "block",
        ),
        field(
            "group",
            Form::Text(&NAME),
            Need::Optional("none"),
            "Of the policies of one group only the first that fits applies.",
            "plans",
        ),
        field(
            "replaces",
            Form::List(&Form::Text(&NAME), 1, usize::MAX),
            Need::Optional("none"),
            "Policies that do not apply to a request that this one applies to.",
            "[api]",
        ),
        field(
            "missing_key",
            Form::Words(&MISSING_KEYS),
            Need::Default("skip"),
            "What becomes of a request without any alternative of a key: its limits do not apply (`skip`), all such requests are counted \
             together (`shared`), or it is bad input (`reject`). A policy with an `action` does the same without a key (`shared`), \
             unless this is written.",
            "shared",
        ),
        field(
            "cost",
            Form::Either(&[Form::Number(1, u64::MAX), Form::Mapping(&super::COST)]),
            Need::Default("1"),
            "What a request takes that does not say so itself; at most every capacity of the policy.",
            "5",
        ),
        field(
            "on_excess",
            Form::Words(&ON_EXCESS),
            Need::Default("refuse"),
            "What becomes of a cost above what is left: it is refused, or takes what is left and passes as long as there is any (`drain`), \
             for costs that are known only after the fact.",
            "drain",
        ),
        field(
            "overrides",
            Form::List(&Form::Mapping(&super::OVERRIDE), 0, MAX_OVERRIDES),
            Need::Optional("none"),
            "What is different for some keys: the first that fits counts.",
            "[{ key: \"partner-*\", limits: { burst: 300/s } }]",
        ),
        later("sharing", ONLY_EXACT),
        inherited(ON_STORE_ERROR),
        inherited(DIALECT),
        inherited(JITTER),
    ],
    rules: &[Rule::One(&["limits", "action"]), Rule::OrEach("key", "limits")],
    foreign: None,
};

pub(in crate::file) const MATCH: Place = Place {
    path: "policies[].match",
    name: "`match`",
    doc: "A request fits if it meets all conditions; one on something that is not known of it is not met. See [match](reference.md#match).",
    fields: &[
        field(
            "method",
            Form::Either(&[Form::Text(&METHOD), Form::Set(&Form::Text(&METHOD), 1, MAX_METHODS)]),
            Need::Optional("every method"),
            "One of these.",
            "[GET, HEAD]",
        ),
        field(
            "path",
            Form::Text(&PATH),
            Need::Optional("every path"),
            "`/api/**` fits `/api` and `/api/x/y`, not `/apix`.",
            "\"/tenants/{tenant}/**\"",
        ),
        field(
            "host",
            Form::Text(&HOST),
            Need::Optional("every host"),
            "Compared in lower case, without port and a dot at the end.",
            "\"*.example.com\"",
        ),
        field(
            "headers",
            Form::Named(&HEADER, &Form::Text(&PATTERN), 1, MAX_MATCH_HEADERS),
            Need::Optional("all header fields"),
            "Of each of these fields one line has to fit.",
            "{ x-plan: \"free-*\" }",
        ),
        later("domain", NO_DESCRIPTORS),
        later("descriptor", NO_DESCRIPTORS),
        later("entries", NO_DESCRIPTORS),
    ],
    rules: &[Rule::NotEmpty],
    foreign: Some(Foreign {
        words: &["url", "uri", "prefix", "route", "location"],
        field: "path",
        remedy: "write `path`: `/api/**` is `/api` and all below it",
    }),
};

/// The window of a limit, as others call it.
const WINDOW_WORDS: Foreign = Foreign {
    words: &["period", "window", "rate", "per", "interval", "duration", "unit", "seconds"],
    field: "limit",
    remedy: "the window is a part of the limit: `limit: 10 per 60s`",
};

pub(in crate::file) const COST: Place = Place {
    path: "policies[].cost",
    name: "`cost`",
    doc: "A number is enough; a mapping lets clients say it.",
    fields: &[
        field(
            "header",
            Form::Text(&HEADER),
            Need::Required,
            "The header field that says it, in plain digits.",
            "x-cost",
        ),
        field(
            "default",
            Form::Number(1, u64::MAX),
            Need::Default("1"),
            "What a request without that field costs; at most `max`.",
            "1",
        ),
        field(
            "max",
            Form::Number(1, u64::MAX),
            Need::Required,
            "More is bad input; at most every capacity of the policy.",
            "100",
        ),
    ],
    rules: &[],
    foreign: None,
};

pub(in crate::file) const OVERRIDE: Place = Place {
    path: "policies[].overrides[]",
    name: "an override",
    doc: "It is for values of the policy's key; limits with a key of their own stay as they are.",
    fields: &[
        field(
            "key",
            Form::Either(&[Form::Text(&PATTERN), Form::List(&Form::Text(&PATTERN), 2, MAX_ALTERNATIVES)]),
            Need::Required,
            "Whom it is for: a pattern, for `ip` a network, for a key of several parts a list with one for each. `header:x-plan=free` \
             names the alternative that is meant.",
            "\"partner-*\"",
        ),
        field(
            "limits",
            Form::Named(
                &NAME,
                &Form::Either(&[Form::Text(&RATE), Form::Mapping(&super::OVERRIDDEN)]),
                1,
                MAX_LIMITS,
            ),
            Need::Required,
            "Other numbers, by the names of limits.",
            "{ minute: 3000/minute }",
        ),
        field(
            "action",
            Form::Words(&ACTIONS),
            Need::Optional("limits decide"),
            "Instead of limits: `block` refuses them, `bypass` lets them pass.",
            "bypass",
        ),
    ],
    rules: &[Rule::One(&["limits", "action"])],
    foreign: None,
};

const AT_ONCE: Field = field(
    "burst",
    Form::Number(1, MAX_AMOUNT),
    Need::Optional("N of the limit"),
    "How much fits at once, in all; at most 366 days to refill.",
    "20",
);
const WAITING: Field = field(
    "queue",
    Form::Number(0, MAX_AMOUNT - 1),
    Need::Optional("none: what does not fit is refused"),
    "How many may wait for their turn.",
    "10",
);
const LONGEST_WAIT: Field = field(
    "max_wait",
    Form::Duration(1, MAX_WAIT_US),
    Need::Optional("as long as the queue"),
    "The longest wait; who would wait longer is refused.",
    "5s",
);

pub(in crate::file) const OVERRIDDEN: Place = Place {
    path: "policies[].overrides[].limits.NAME",
    name: "the numbers of an override",
    doc: "A rate is enough; a mapping says more. What is not there stays as it is.",
    fields: &[
        field(
            "limit",
            Form::Text(&RATE),
            Need::Optional("that of the limit"),
            "Another N and window; of a calendar another N.",
            "3000/minute",
        ),
        AT_ONCE,
        WAITING,
        LONGEST_WAIT,
    ],
    rules: &[Rule::NotEmpty],
    foreign: Some(WINDOW_WORDS),
};

pub(in crate::file) const LIMIT: Place = Place {
    path: "policies[].limits[]",
    name: "a limit",
    doc: "Numbers that are absent are never unlimited, and 0 is not either.",
    fields: &[
        field(
            "name",
            Form::Text(&NAME),
            Need::Required,
            "What it is called in answers; unique in its policy.",
            "burst",
        ),
        field(
            "algorithm",
            Form::Words(&ALGORITHMS),
            Need::Required,
            "How it counts: see [algorithms](algorithms.md).",
            "token-bucket",
        ),
        field(
            "limit",
            Form::Text(&RATE),
            Need::Required,
            "How much in which time; for `sliding-window-log` at most 100,000.",
            "5 per 10m",
        ),
        AT_ONCE,
        WAITING,
        LONGEST_WAIT,
        field(
            "align",
            Form::Words(&ALIGNMENTS),
            Need::Default("epoch"),
            "Where windows begin: at multiples of their length since 1970, at a key's first request, or by a calendar, for `/day`, \
             `/week` and `/month`.",
            "first-request",
        ),
        field("timezone", Form::Text(&ZONE), Need::Optional("none"), "Whose calendar it is.", "Europe/Paris"),
        field(
            "key",
            KEY,
            Need::Optional("the policy's"),
            "Who is limited by this limit; callers that name the policy give its value in `keys`.",
            "[global]",
        ),
    ],
    rules: &[
        Rule::OnlyFor("burst", "algorithm", || names_of(Algorithm::takes_burst)),
        Rule::OnlyFor("queue", "algorithm", || names_of(|algorithm| algorithm == Algorithm::LeakyBucket)),
        Rule::Exclude("queue", "burst"),
        Rule::Needs("max_wait", "queue"),
        Rule::OnlyFor("align", "algorithm", || names_of(|algorithm| algorithm == Algorithm::FixedWindow)),
        Rule::OnlyFor("timezone", "align", || vec!["calendar"]),
        Rule::NeedsIf("align", "calendar", "timezone"),
    ],
    foreign: Some(WINDOW_WORDS),
};

fn names_of(takes: fn(Algorithm) -> bool) -> Vec<&'static str> {
    Algorithm::ALL.into_iter().filter(|algorithm| takes(*algorithm)).map(Algorithm::name).collect()
}
