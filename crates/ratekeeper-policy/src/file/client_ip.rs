//! `client_ip`: whose word is taken for where a request came from, and what tells clients apart.

use std::collections::HashMap;

use super::decode::{Decoder, Fields};
use super::fields;
use super::policies::all_or_none;
use super::tree::{Node, Value};
use crate::client_ip::{ClientIp, Forwarding, MAX_TRUSTED_PROXIES, Network};
use crate::fault::{Fault, code};
use crate::hints::{shown, thousands};

pub(super) const HEADERS: [(&str, Forwarding); 2] = [
    (Forwarding::XForwardedFor.as_str(), Forwarding::XForwardedFor),
    (Forwarding::Forwarded.as_str(), Forwarding::Forwarded),
];
const EXAMPLE: &str = "for example `trusted_proxies: [10.0.0.0/8]`";

impl Decoder<'_, '_> {
    pub(super) fn client_ip(&mut self, top: &Fields<'_>) -> Option<ClientIp> {
        let default = ClientIp::default();
        let Some(entry) = top.get("client_ip") else { return Some(default) };
        let client_ip = self.fields(&entry.value, "`client_ip`", &fields::CLIENT_IP)?;
        let trusted = client_ip.get("trusted_proxies").map(|entry| self.trusted_proxies(&entry.value));
        let header = client_ip.get("header").map(|entry| self.one_of(&entry.value, "header", &HEADERS));
        let prefix = client_ip.get("ipv6_prefix").map(|entry| self.ipv6_prefix(&entry.value));
        Some(ClientIp {
            trusted: all_or_none(trusted)?.unwrap_or(default.trusted),
            header: all_or_none(header)?.unwrap_or(default.header),
            ipv6_prefix: all_or_none(prefix)?.unwrap_or(default.ipv6_prefix),
        })
    }

    fn trusted_proxies(&mut self, node: &Node) -> Option<Vec<Network>> {
        let items = self.list(node, "`trusted_proxies`", || match &node.value {
            Value::Scalar { text, .. } if Network::parse(text).is_ok() => {
                format!("write `[{}]`", shown(text))
            }
            _ => EXAMPLE.to_owned(),
        })?;
        if let Some(extra) = items.get(MAX_TRUSTED_PROXIES) {
            let most = thousands(MAX_TRUSTED_PROXIES as u64);
            let fault =
                Fault::new(code::OUT_OF_RANGE, format!("`trusted_proxies` has at most {most} networks"));
            self.report(extra, fault.hint("put neighbours together in a larger network"));
            return None;
        }
        let mut seen = HashMap::new();
        let networks: Vec<_> = items.iter().map(|item| self.network(item, &mut seen)).collect();
        networks.into_iter().collect()
    }

    fn network(&mut self, node: &Node, seen: &mut HashMap<Network, usize>) -> Option<Network> {
        let text = self.word(node, "a trusted proxy", "`10.0.0.0/8`")?;
        let network = match Network::parse(text) {
            Ok(network) => network,
            Err(wrong) => {
                self.report(node, wrong.into_fault());
                return None;
            }
        };
        if let Some(first) = seen.get(&network) {
            let fault = Fault::new(code::DUPLICATE_NETWORK, format!("`{network}` is there twice"));
            let line = self.errors.line(*first);
            self.report(node, fault.hint(format!("leave one out; the first is on line {line}")));
            return None;
        }
        seen.insert(network, node.span.start);
        if network.prefix_len() == 0 {
            let fault = Fault::new(code::TRUSTS_EVERYBODY, format!("`{network}` trusts everybody"));
            let hint = "anybody may then name any address as theirs: list the proxies alone";
            self.errors.warn(node.span.clone(), fault.hint(hint));
        }
        Some(network)
    }

    fn ipv6_prefix(&mut self, node: &Node) -> Option<u8> {
        let number = self.number(node, "ipv6_prefix", "`ipv6_prefix: 64`")?;
        let fit = u8::try_from(number).ok().filter(|number| (1..=128).contains(number));
        if fit.is_none() {
            let hint = if number == 0 {
                "0 would make one client of all of IPv6; 64 is usual, 56 where customers have more"
            } else {
                "64 is usual; 128 counts each address alone"
            };
            self.report(node, Fault::new(code::OUT_OF_RANGE, "`ipv6_prefix` is 1 to 128").hint(hint));
        }
        fit
    }
}
