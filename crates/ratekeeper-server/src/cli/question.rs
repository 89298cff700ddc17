//! What `check` and `explain` are asked: a policy and a key, or a request.

use clap::Args;
use ratekeeper_sim::hints::quoted;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::cli::Failure;

/// A policy and a key, or a request that is described.
#[derive(Args)]
pub(super) struct Question {
    /// The policy that decides; or a request, as --attributes takes it
    #[arg(index = 1)]
    policy: Option<String>,
    /// Who asks: a value of the policy's key
    #[arg(index = 2)]
    key: Option<String>,
    /// The request instead of a policy and a key: those policies decide that it matches
    #[arg(long, value_name = "METHOD PATH")]
    attributes: Option<String>,
    /// A header field of the request; may be repeated
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = field_of)]
    header: Vec<(String, String)>,
    /// Who is connected, a client or a proxy; `unix` for a Unix socket
    #[arg(long, value_name = "IP")]
    peer: Option<String>,
    /// The client, whoever is connected
    #[arg(long, value_name = "IP", conflicts_with = "peer")]
    ip: Option<String>,
    /// The host that is asked for
    #[arg(long)]
    host: Option<String>,
    /// How many units to take [default: 1 for a policy that is named, else what the policies say]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    cost: Option<u64>,
    /// The key of a limit that has a key of its own; may be repeated
    #[arg(long, value_name = "LIMIT=KEY", value_parser = key_of)]
    key_of: Vec<(String, String)>,
}

fn key_of(text: &str) -> Result<(String, String), String> {
    let (limit, key) = text.split_once('=').ok_or("write LIMIT=KEY, for example tenant=t1")?;
    Ok((limit.to_owned(), key.to_owned()))
}

fn field_of(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write 'NAME: VALUE', for example 'x-api-key: k1'")?;
    let name = name.trim();
    if name.is_empty() {
        return Err("the name of a header field is missing before its `:`".to_owned());
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

/// The body of `POST /v1/check` and `POST /v1/explain`.
#[derive(Serialize)]
struct Body<'q> {
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'q str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'q str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    keys: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<Attributes<'q>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
    peek: bool,
}

#[derive(Serialize)]
struct Attributes<'q> {
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'q str>,
    path: &'q str,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'q str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip: Option<&'q str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<&'q str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    headers: Map<String, Value>,
}

impl Question {
    /// The request, if one is described. No policy has such a name.
    pub(super) fn request(&self) -> Option<&str> {
        let is_request = |text: &&String| text.contains([' ', '/']);
        self.attributes.as_ref().or_else(|| self.policy.as_ref().filter(is_request)).map(|text| text.trim())
    }

    /// The key that was given.
    pub(super) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The cost, as far as it is known here.
    pub(super) fn cost(&self) -> Option<u64> {
        self.cost.or_else(|| self.request().is_none().then_some(1))
    }

    /// The question as a server takes it.
    ///
    /// # Errors
    /// If it is none.
    pub(super) fn body(&self, peek: bool) -> Result<Vec<u8>, Failure> {
        let bad = |message: String| Failure::BadInput(format!("error: {message}"));
        let cost = self.cost();
        let body = match self.request() {
            Some(request) => {
                let is_beside = self.attributes.is_some() && self.policy.is_some();
                if is_beside || self.key.is_some() || !self.key_of.is_empty() {
                    return Err(bad(
                        "a request is described, or a policy and its key are named: not both".into()
                    ));
                }
                let attributes = Some(self.attributes(request));
                Body { policy: None, key: None, keys: Map::new(), attributes, cost, peek }
            }
            None => {
                let Some(policy) = self.policy.as_deref() else {
                    return Err(bad(
                        "name a policy and its key, or describe a request, for example `--attributes 'POST /login'`"
                            .into(),
                    ));
                };
                if let Some(flag) = self.described_by() {
                    return Err(bad(format!(
                        "`{flag}` is of a request, and a policy is named: describe the request, for example `--attributes 'POST /login'`"
                    )));
                }
                Body {
                    policy: Some(policy),
                    key: self.key(),
                    keys: self.keys()?,
                    attributes: None,
                    cost,
                    peek,
                }
            }
        };
        serde_json::to_vec(&body).map_err(|wrong| Failure::Other(format!("error: {wrong}")))
    }

    /// What says something of a request.
    fn described_by(&self) -> Option<&'static str> {
        let said = [
            ("--header", !self.header.is_empty()),
            ("--peer", self.peer.is_some()),
            ("--ip", self.ip.is_some()),
            ("--host", self.host.is_some()),
        ];
        said.into_iter().find(|(_, is_said)| *is_said).map(|(flag, _)| flag)
    }

    fn attributes<'q>(&'q self, request: &'q str) -> Attributes<'q> {
        let (method, path) = match request.split_once(' ') {
            Some((method, path)) => (Some(method), path.trim_start()),
            None => (None, request),
        };
        let mut headers = Map::new();
        for (name, value) in &self.header {
            // Names have no case, and lines of one name stay in their order.
            let lines = headers.entry(name.to_ascii_lowercase()).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(lines) = lines {
                lines.push(value.as_str().into());
            }
        }
        Attributes {
            method,
            path,
            host: self.host.as_deref(),
            ip: self.ip.as_deref(),
            peer: self.peer.as_deref(),
            headers,
        }
    }

    fn keys(&self) -> Result<Map<String, Value>, Failure> {
        let mut keys = Map::new();
        for (limit, key) in &self.key_of {
            if keys.insert(limit.clone(), key.clone().into()).is_some() {
                let message = format!("error: `--key-of`: {} has two keys: give one", quoted(limit));
                return Err(Failure::BadInput(message));
            }
        }
        Ok(keys)
    }
}
