//! `listen`: addresses, and what holds for those who connect to them.

use core::ops::{Range, RangeInclusive};
use core::time::Duration;

use ratekeeper_core::parse_duration;

use super::decode::{Decoder, Fields};
use super::fields::{self, Place};
use super::policies::all_or_none;
use super::tree::{Node, Value};
use crate::fault::{Fault, code};
use crate::hints::{shown, thousands};
use crate::limit::limit_fault;
use crate::listen::{
    ADMIN_TOKEN_VARIABLE, DEFAULT_ADMIN, DEFAULT_HTTP, Listen, Listener, MAX_DEADLINE, MAX_MAX_CONNECTIONS,
    MIN_DEADLINE, Secret, Tls, TokenError, admin_token, is_address, is_loopback, is_same,
};

/// What can be said in place of a weak token.
const MAKE_TOKEN: &str = "`openssl rand -hex 16` makes one";

/// A listener as far as it could be read.
struct Found {
    /// Its address, and where that stands.
    address: Option<(String, Range<usize>)>,
    /// A token is there, or was meant to be.
    names_token: bool,
    whole: Option<Listener>,
}

impl Decoder<'_, '_> {
    /// The listeners of a file; those it does not name are not opened.
    pub(super) fn listen(
        &mut self,
        top: &Fields<'_>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Option<Listen> {
        let Some(entry) = top.get("listen") else {
            let Listen { http, admin } = Listen::default();
            let token = self.env_token(env, top.node.mark())?;
            return Some(Listen { http, admin: admin.map(|admin| Listener { token, ..admin }) });
        };
        let listen = self.fields(&entry.value, "`listen`", &fields::LISTEN)?;
        let http = listen
            .get("http")
            .map(|entry| self.listener(&entry.value, "`http`", DEFAULT_HTTP, &fields::LISTENER));
        let admin = listen
            .get("admin")
            .map(|entry| self.listener(&entry.value, "`admin`", DEFAULT_ADMIN, &fields::ADMIN));
        self.apart(http.as_ref(), admin.as_ref());
        let http = http.map(|found| found.whole);
        let admin = admin.map(|found| self.guarded(found, env));
        Some(Listen { http: all_or_none(http)?, admin: all_or_none(admin)? })
    }

    /// Two listeners cannot have one address.
    fn apart(&mut self, http: Option<&Found>, admin: Option<&Found>) {
        let address = |found: Option<&Found>| found?.address.clone();
        let (Some((http, first)), Some((admin, second))) = (address(http), address(admin)) else { return };
        if is_same(&http, &admin) {
            let (later, earlier, at, other) = if first.start < second.start {
                ("admin", "http", second, first)
            } else {
                ("http", "admin", first, second)
            };
            let fault =
                Fault::new(code::DUPLICATE_LISTENER, format!("`{later}` listens where `{earlier}` does"));
            let line = self.errors.line(other.start);
            self.errors.add(at, fault.hint(format!("take another port; `{earlier}` is on line {line}")));
        }
    }

    /// The admin listener with its token, which it needs off loopback.
    fn guarded(&mut self, found: Found, env: &dyn Fn(&str) -> Option<String>) -> Option<Listener> {
        if found.names_token {
            return found.whole;
        }
        let (address, at) = found.address?;
        let token = self.env_token(env, at.clone())?;
        if token.is_none() && !is_loopback(&address) {
            let port = address.rsplit_once(':').map_or("9090", |(_, port)| port);
            let fault = Fault::new(code::TOKEN_REQUIRED, "`admin` needs a `token` off loopback");
            let hint = format!("set {ADMIN_TOKEN_VARIABLE} or `token`, or listen on `127.0.0.1:{port}`");
            self.errors.add(at, fault.hint(hint));
            return None;
        }
        Some(Listener { token, ..found.whole? })
    }

    /// The token of the environment; None, reported at `at`, if it is none.
    fn env_token(
        &mut self,
        env: &dyn Fn(&str) -> Option<String>,
        at: Range<usize>,
    ) -> Option<Option<Secret>> {
        let refused = |wrong: TokenError| {
            let fault = token_fault(wrong);
            Fault { message: format!("{ADMIN_TOKEN_VARIABLE}: {}", fault.message), ..fault }
        };
        admin_token(env).map_err(|wrong| self.errors.add(at, refused(wrong))).ok()
    }

    fn listener(&mut self, node: &Node, what: &str, example: &str, place: &'static Place) -> Found {
        let Value::Map(_) = node.value else {
            let address = self.address(node, example);
            let whole = address.as_ref().map(|(address, _)| Listener::new(address.as_str()));
            return Found { address, names_token: false, whole };
        };
        let Some(listener) = self.fields(node, what, place) else {
            return Found { address: None, names_token: false, whole: None };
        };
        if listener.lacks("address") {
            let fault = Fault::new(code::MISSING_FIELD, "`address` is missing");
            self.report(node, fault.hint(format!("for example `address: {example}`")));
        }
        let address = listener.get("address").and_then(|entry| self.address(&entry.value, example));
        let deadline = listener
            .get("deadline")
            .map(|entry| self.waiting(&entry.value, "deadline", MIN_DEADLINE..=MAX_DEADLINE, "1ms to 60s"));
        let tls = listener.get("tls").map(|entry| self.tls(&entry.value));
        let connections = listener.get("max_connections").map(|entry| self.max_connections(&entry.value));
        let takes_token = place.field("token").is_some();
        let token = if takes_token { listener.get("token") } else { None };
        let token = token.map(|entry| self.token(&entry.value));
        let whole = || {
            let default = Listener::new(address.as_ref()?.0.as_str());
            Some(Listener {
                deadline: all_or_none(deadline)?.unwrap_or(default.deadline),
                tls: all_or_none(tls)?,
                max_connections: all_or_none(connections)?.unwrap_or(default.max_connections),
                token: all_or_none(token)?,
                ..default
            })
        };
        let whole = whole();
        Found { address, names_token: takes_token && !listener.lacks("token"), whole }
    }

    fn address(&mut self, node: &Node, example: &str) -> Option<(String, Range<usize>)> {
        let text = self.word(node, "an address", &format!("`{example}`"))?;
        if is_address(text) {
            return Some((text.to_owned(), node.span.clone()));
        }
        let fault = Fault::new(code::BAD_ADDRESS, format!("`{}` is no address to listen on", shown(text)));
        let hint = match text.strip_prefix(':') {
            Some(port) if port.parse::<u16>().is_ok() => {
                format!("write `127.0.0.1:{port}`, or `0.0.0.0:{port}` for everybody")
            }
            _ => format!("an address or host name with a port, for example `{example}`"),
        };
        self.report(node, fault.hint(hint));
        None
    }

    /// How long an answer may take; `bounds` are the least and the most, in words.
    pub(super) fn waiting(
        &mut self,
        node: &Node,
        name: &str,
        range: RangeInclusive<Duration>,
        bounds: &str,
    ) -> Option<Duration> {
        let text = self.word(node, &format!("`{name}`"), &format!("`{name}: 50ms`"))?;
        // Zero is refused for what it means, not for its missing unit.
        let read = if text == "0" { Ok(0) } else { parse_duration(text) };
        let waiting = match read {
            Ok(us) => Duration::from_micros(us),
            Err(error) => {
                let digits = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
                let fault = limit_fault(error);
                let fault = if digits { fault.hint(format!("write `{}ms`", shown(text))) } else { fault };
                self.report(node, fault);
                return None;
            }
        };
        if range.contains(&waiting) {
            return Some(waiting);
        }
        let hint =
            if waiting.is_zero() { "an answer takes time; 0 is never unlimited" } else { "50ms is usual" };
        self.report(node, Fault::new(code::OUT_OF_RANGE, format!("`{name}` is {bounds}")).hint(hint));
        None
    }

    fn max_connections(&mut self, node: &Node) -> Option<u32> {
        let number = self.number(node, "max_connections", "`max_connections: 10000`")?;
        let fit = u32::try_from(number).ok().filter(|number| (1..=MAX_MAX_CONNECTIONS).contains(number));
        if fit.is_none() {
            let message = format!("`max_connections` is 1 to {}", thousands(MAX_MAX_CONNECTIONS.into()));
            let hint = if number == 0 {
                "connections are always bounded; 0 is never unlimited"
            } else {
                "take fewer"
            };
            self.report(node, Fault::new(code::OUT_OF_RANGE, message).hint(hint));
        }
        fit
    }

    fn tls(&mut self, node: &Node) -> Option<Tls> {
        let tls = self.fields(node, "`tls`", &fields::TLS)?;
        for (name, example) in [("cert", "cert: server.pem"), ("key", "key: server.key")] {
            if tls.lacks(name) {
                let fault = Fault::new(code::MISSING_FIELD, format!("`{name}` is missing"));
                self.report(node, fault.hint(format!("for example `{example}`")));
            }
        }
        let mut path = |name: &str| {
            let entry = tls.get(name)?;
            let text = self.text(&entry.value, &format!("`{name}`"), &format!("`{name}: server.pem`"));
            Some(text.map(str::to_owned))
        };
        let (cert, key, client_ca) = (path("cert"), path("key"), path("client_ca"));
        Some(Tls { cert: cert??, key: key??, client_ca: all_or_none(client_ca)? })
    }

    fn token(&mut self, node: &Node) -> Option<Secret> {
        // Digits are a token too, and no message may ask to quote it: it would repeat it.
        let text = self.word(node, "`token`", "the output of `openssl rand -hex 16`")?;
        Secret::token(text).map_err(|wrong| self.report(node, token_fault(wrong))).ok()
    }
}

fn token_fault(wrong: TokenError) -> Fault {
    Fault::new(code::BAD_TOKEN, wrong.to_string()).hint(MAKE_TOKEN)
}
