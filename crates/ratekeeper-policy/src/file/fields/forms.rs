//! What values look like: forms of values, and grammars of texts.

use ratekeeper_core::{MAX_AMOUNT, Name, Rate, parse_duration};

use super::Place;
use crate::file::values::SIZES;
use crate::glob::MAX_GLOB_BYTES;
use crate::key::{KeyPart, MAX_ARGUMENT_BYTES};
use crate::listen::{MAX_TOKEN_BYTES, MIN_TOKEN_BYTES};
use crate::matcher::MAX_METHOD_BYTES;
use crate::path::MAX_PATTERN_BYTES;
use crate::stores::{MAX_PASSWORD_BYTES, MAX_PREFIX_BYTES, MAX_USERNAME_BYTES};

/// What may be written as a value.
#[derive(Debug)]
pub(in crate::file) enum Form {
    /// A whole number in plain digits, from the first to the second.
    Number(u64, u64),
    /// 0 to 1 in decimals.
    Share,
    Words(&'static [&'static str]),
    Text(&'static Grammar),
    /// A time, from the first to the second in microseconds.
    Duration(u64, u64),
    /// A number of bytes, from the first to the second.
    Size(u64, u64),
    /// A list of so many.
    List(&'static Self, usize, usize),
    /// A list in which nothing is there twice.
    Set(&'static Self, usize, usize),
    Mapping(&'static Place),
    /// A mapping by names of the user's, of so many.
    Named(&'static Grammar, &'static Self, usize, usize),
    Either(&'static [Self]),
}

/// A kind of text.
#[derive(Debug)]
pub(in crate::file) struct Grammar {
    /// Unique among grammars.
    pub(in crate::file) name: &'static str,
    /// What it is, as a part of a sentence.
    pub(in crate::file) doc: &'static str,
    /// A regular expression that every such text fits as a whole, in the syntax of ECMA 262. What it cannot say the decoder
    /// does.
    pub(in crate::file) pattern: fn() -> String,
    /// What YAML takes for a number or truth value is one too, without quotes.
    pub(in crate::file) takes_scalars: bool,
}

const fn grammar(name: &'static str, doc: &'static str, pattern: fn() -> String) -> Grammar {
    Grammar { name, doc, pattern, takes_scalars: false }
}

/// Characters of a token of HTTP, of which names of headers and methods are made; within brackets.
const TOKEN: &str = "!#$%&'+.^_`|~0-9A-Z-";

pub(super) const NAME: Grammar = grammar("name", "letters, digits, `_` and `-`, 1 to 64 of them", || {
    format!("[A-Za-z0-9_-]{{1,{}}}", Name::MAX_LEN)
});
pub(super) const ADDRESS: Grammar = grammar(
    "address",
    "an IP address or a host name, `:` and a port, as in `127.0.0.1:8080`, `[::1]:8080` or `localhost:8080`; port 0 is any free one",
    || String::from(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+(%[0-9]+)?\]):[0-9]+"),
);
pub(in crate::file) const DURATION: Grammar = grammar(
    "duration",
    "a whole number and `us`, `ms`, `s`, `m`, `h` or `d`, as in `2500ms`: one unit, no fractions",
    || format!("[1-9][0-9]*({})", Rate::SUFFIXES.join("|")),
);
pub(in crate::file) const SIZE: Grammar =
    grammar("size", "a whole number and `B`, `KiB`, `MiB` or `GiB`, as in `256MiB`", || {
        format!("[1-9][0-9]*({})", SIZES.map(|(unit, _)| unit).join("|"))
    });
pub(super) const ORIGIN: Grammar = grammar(
    "origin",
    "the origin of a web page as browsers write it, as in `https://app.example` or `http://localhost:3000`, or `*`",
    || String::from(r"\*|[a-z0-9+.-]+://[a-z0-9._\[\]:-]+"),
);
pub(super) const RATE: Grammar = grammar(
    "rate",
    "`N/UNIT` with a unit of `s`, `second`, `minute`, `hour`, `day`, `week`, `month` or `year`, or `N per` and a duration, as in \
     `5 per 10m`; N is 1 to 1,000,000,000 in plain digits, the window at most 366 days, a week 7 days, a month 30 and a year 365",
    || {
        let (units, suffixes) = (Rate::UNITS.join("|"), Rate::SUFFIXES.join("|"));
        format!(
            "([1-9][0-9]{{0,{}}}|{MAX_AMOUNT})(/({units})| per [1-9][0-9]*({suffixes}))",
            MAX_AMOUNT.ilog10() - 1
        )
    },
);
/// So that all numbers up to it are those of fewer digits, and itself.
const _: () = assert!(MAX_AMOUNT == 10_u64.pow(MAX_AMOUNT.ilog10()));
pub(super) const KIND_OF_KEY: Grammar = grammar(
    "kind of key",
    "`ip`, `header:NAME`, `cookie:NAME`, `query:NAME`, `path`, `path:ID` (what a `{ID}` of the match stands for), `host`, `method`, \
     `descriptor`, `descriptor:KEY` (`descriptor:KEY#2` is the second of that key), or `global`, which counts everybody together",
    || {
        let name = format!(r":[^\s,=]{{1,{MAX_ARGUMENT_BYTES}}}");
        let kinds = KeyPart::kinds().map(|(kind, named)| match named {
            Some(false) => kind.to_owned(),
            Some(true) => format!("{kind}{name}"),
            None => format!("{kind}({name})?"),
        });
        kinds.collect::<Vec<String>>().join("|")
    },
);
pub(super) const NETWORK: Grammar = grammar(
    "network",
    "an IP address, or one with `/` and how many of its leading bits count, as in `10.0.0.0/8`; the bits behind those are 0",
    || String::from("[0-9A-Fa-f:.]+(/[0-9]{1,3})?"),
);
pub(super) const METHOD: Grammar =
    grammar("method", "a method of HTTP, in upper case", || format!("[{TOKEN}]{{1,{MAX_METHOD_BYTES}}}"));
pub(super) const PATH: Grammar = grammar(
    "path pattern",
    "begins with `/`; `*` is one segment or any run of characters within one, a last `**` any rest, also none, `{id}` one segment \
     with a name; see [match](reference.md#match)",
    || format!("/[^?#]{{0,{}}}", MAX_PATTERN_BYTES - 1),
);
pub(super) const HOST: Grammar =
    grammar("host pattern", "a host without port, in which `*` is any run of characters", || {
        format!(r"([^\s/:]{{1,{MAX_GLOB_BYTES}}}|\[[^\s/]{{1,{MAX_GLOB_BYTES}}})")
    });
pub(super) const PATTERN: Grammar = grammar(
    "pattern",
    "text in which `*` is any run of characters, at most 16 of them; case counts; what begins with `*` wants quotes",
    || format!(r"[\s\S]{{1,{MAX_GLOB_BYTES}}}"),
);
pub(super) const HEADER: Grammar = grammar("header name", "the name of a header field, in any case", || {
    format!("[a-z*{TOKEN}]{{1,{MAX_ARGUMENT_BYTES}}}")
});
pub(super) const ZONE: Grammar =
    grammar("time zone", "a name of the IANA database, as `Europe/Paris` or `UTC`", || {
        String::from("[A-Za-z][A-Za-z0-9_+/-]*")
    });
pub(super) const FILE: Grammar =
    grammar("file", "a path, seen from where the server was started", || String::from(r"[\s\S]+"));
pub(super) const SECRET: Grammar = Grammar {
    name: "token",
    doc: "16 to 1,024 letters, digits and `-._~+/=`",
    pattern: || format!("[A-Za-z0-9._~+/=-]{{{MIN_TOKEN_BYTES},{MAX_TOKEN_BYTES}}}"),
    takes_scalars: true,
};
pub(super) const STORE_URL: Grammar = grammar(
    "store URL",
    "`redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]`; `redis+sentinel://[…@]HOST,HOST/MASTER[/DATABASE]`, whose hosts are \
     sentinels; `redis+cluster://[…@]HOST,HOST`; with `rediss` for TLS. Ports are 6379, of sentinels 26379, unless they are there; \
     IPv6 stands in brackets; user and password write special characters as `%XX`",
    || String::from(r"rediss?(\+(sentinel|cluster))?://[!-~]+"),
);
pub(super) const PREFIX: Grammar = grammar("prefix", "letters, digits, `_` and `-`, 1 to 32 of them", || {
    format!("[A-Za-z0-9_-]{{1,{MAX_PREFIX_BYTES}}}")
});
pub(super) const NAME_OF_USER: Grammar = Grammar {
    name: "user",
    doc: "text without spaces, at most 256 bytes",
    pattern: || format!(r"\S{{1,{MAX_USERNAME_BYTES}}}"),
    takes_scalars: true,
};
pub(super) const PASSWORD: Grammar = Grammar {
    name: "password",
    doc: "any text, at most 4,096 bytes",
    pattern: || format!(r"[\s\S]{{1,{MAX_PASSWORD_BYTES}}}"),
    takes_scalars: true,
};

impl Form {
    /// From what to what, where a pattern cannot say it.
    pub(in crate::file) fn range(&self) -> Option<String> {
        match self {
            Self::Duration(least, most) => Some(format!("{} to {}", duration(*least), duration(*most))),
            Self::Size(least, most) => Some(format!("{} to {}", size(*least), size(*most))),
            _ => None,
        }
    }

    /// Adds the places and grammars that it is made of, if they are not there yet.
    pub(super) fn collect(&self, places: &mut Vec<&'static Place>, grammars: &mut Vec<&'static Grammar>) {
        match self {
            Self::Number(..) | Self::Share | Self::Words(_) => {}
            Self::Text(grammar) => add(grammar, grammars),
            Self::Duration(..) => add(&DURATION, grammars),
            Self::Size(..) => add(&SIZE, grammars),
            Self::List(of, ..) | Self::Set(of, ..) => of.collect(places, grammars),
            Self::Mapping(place) => {
                if places.iter().all(|known| known.path != place.path) {
                    places.push(place);
                }
            }
            Self::Named(names, of, ..) => {
                add(names, grammars);
                of.collect(places, grammars);
            }
            Self::Either(forms) => forms.iter().for_each(|form| form.collect(places, grammars)),
        }
    }
}

fn add(grammar: &'static Grammar, grammars: &mut Vec<&'static Grammar>) {
    if grammars.iter().all(|known| known.name != grammar.name) {
        grammars.push(grammar);
    }
}

/// Microseconds as the file writes them, in the largest unit that is whole.
pub(super) fn duration(us: u64) -> String {
    let units = Rate::SUFFIXES
        .iter()
        .filter_map(|suffix| Some((parse_duration(&format!("1{suffix}")).ok()?, suffix)));
    written(us, units)
}

/// Bytes as the file writes them, in the largest unit that is whole.
pub(super) fn size(bytes: u64) -> String {
    written(bytes, SIZES.iter().map(|(unit, bytes)| (*bytes, unit)))
}

fn written<'a>(number: u64, units: impl Iterator<Item = (u64, &'a &'static str)>) -> String {
    let whole = units.filter(|(unit, _)| number.is_multiple_of(*unit)).max();
    whole.map_or_else(|| number.to_string(), |(unit, name)| format!("{}{name}", number / unit))
}
