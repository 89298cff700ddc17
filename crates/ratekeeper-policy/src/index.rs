//! Which of many policies a request may fit, without asking each.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

use smallvec::SmallVec;

use crate::matcher::{Match, Seen};
use crate::path::PathPattern;

/// The policies of a file by what their conditions surely need: the first literal segments of the path, or all of it, and
/// the host if that is one alone.
///
/// A request looks once for each depth at which some policy begins, so what it costs depends on the policies that
/// it may fit, not on how many there are.
#[derive(Clone, Debug, Default)]
pub struct Index {
    entries: HashMap<u64, Vec<Entry>, BuildHasherDefault<AsIs>>,
    /// What there is at each depth of a path.
    depths: Vec<Kinds>,
    /// The methods that policies name.
    methods: Vec<Box<str>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    policy: usize,
    /// A bit for each method that will do; all, if any will.
    methods: u64,
}

/// Which kinds of entries there are at one depth.
#[derive(Clone, Copy, Default, Debug)]
struct Kinds {
    /// Of policies for a path alone; and those that name a host too.
    whole: Hosts,
    /// Of policies for paths that begin so.
    begun: Hosts,
}

#[derive(Clone, Copy, Default, Debug)]
struct Hosts {
    any: bool,
    named: bool,
}

/// Methods beyond as many share the last bit, which is the same as not to look at them.
const METHOD_BITS: usize = 64;

/// The policies that a request may fit, by their places in the file.
type Found = SmallVec<[usize; 16]>;

impl Index {
    /// An index of the policies in their order; those without `match` as [`Match::any`].
    pub fn new<'m>(policies: impl IntoIterator<Item = &'m Match>) -> Self {
        let mut index = Self::default();
        for (policy, conditions) in policies.into_iter().enumerate() {
            index.add(policy, conditions);
        }
        index
    }

    fn add(&mut self, policy: usize, conditions: &Match) {
        let entry = Entry { policy, methods: self.bits(conditions) };
        let literal = conditions.path().map_or("", PathPattern::literal);
        let is_whole = conditions.path().is_some_and(PathPattern::is_exact);
        let host =
            conditions.host().filter(|host| host.is_exact()).map(|host| hash_host(host.literal_prefix()));
        let segments = literal.split('/').skip(1).filter(|segment| !segment.is_empty());
        let (depth, path) =
            segments.fold((0, ROOT), |(depth, hash), segment| (depth + 1, add_segment(hash, segment)));
        if self.depths.len() <= depth {
            self.depths.resize(depth + 1, Kinds::default());
        }
        if let Some(kinds) = self.depths.get_mut(depth) {
            let hosts = if is_whole { &mut kinds.whole } else { &mut kinds.begun };
            hosts.any |= host.is_none();
            hosts.named |= host.is_some();
        }
        self.entries.entry(place(path, is_whole, host)).or_default().push(entry);
    }

    fn bits(&mut self, conditions: &Match) -> u64 {
        let mut bits = 0;
        for method in conditions.methods() {
            let known = self.methods.iter().position(|known| **known == *method);
            let bit = known.unwrap_or_else(|| {
                self.methods.push(method.into());
                self.methods.len() - 1
            });
            bits |= 1 << bit.min(METHOD_BITS - 1);
        }
        if bits == 0 { u64::MAX } else { bits }
    }

    /// The policies that a request may fit, in their order: none that fits is missing. Ask each whether it
    /// [fits](Match::fits).
    pub fn candidates(&self, seen: &Seen<'_>) -> impl Iterator<Item = usize> + use<> {
        let mut search =
            Search { index: self, methods: self.methods_of(seen), host: None, found: Found::new() };
        search.host = seen.host().map(hash_host);
        let mut depths = self.depths.iter();
        let mut hash = ROOT;
        let Some(path) = seen.path() else {
            // Conditions on a path are not met: those without one are at the root, and may be others there.
            search.look(hash, false, depths.next().map(|kinds| kinds.begun));
            return search.finish();
        };
        let mut segments = path.segments();
        for kinds in depths {
            search.look(hash, false, Some(kinds.begun));
            match segments.next() {
                Some(segment) => hash = add_segment(hash, segment),
                None => {
                    search.look(hash, true, Some(kinds.whole));
                    break;
                }
            }
        }
        search.finish()
    }

    /// The bit of a request's method: none, if no policy names it.
    fn methods_of(&self, seen: &Seen<'_>) -> u64 {
        let known =
            seen.facts().method.and_then(|method| self.methods.iter().position(|one| **one == *method));
        known.map_or(0, |bit| 1 << bit.min(METHOD_BITS - 1))
    }
}

struct Search<'i> {
    index: &'i Index,
    methods: u64,
    host: Option<u64>,
    found: Found,
}

impl Search<'_> {
    /// Looks for a path, or for what begins with it.
    fn look(&mut self, path: u64, is_whole: bool, hosts: Option<Hosts>) {
        let Some(hosts) = hosts else { return };
        if hosts.any {
            self.take(place(path, is_whole, None));
        }
        if hosts.named && self.host.is_some() {
            self.take(place(path, is_whole, self.host));
        }
    }

    fn take(&mut self, place: u64) {
        let Some(entries) = self.index.entries.get(&place) else { return };
        let fit = |entry: &&Entry| entry.methods == u64::MAX || entry.methods & self.methods != 0;
        self.found.extend(entries.iter().filter(fit).map(|entry| entry.policy));
    }

    fn finish(mut self) -> impl Iterator<Item = usize> + use<> {
        self.found.sort_unstable();
        // Two places are the same only if their hashes are.
        self.found.dedup();
        self.found.into_iter()
    }
}

// The hashes are of what the file names, which its writer chooses: a request can only look, and what it finds by a
// collision does not fit.

const ROOT: u64 = 0x2545_f491_4f6c_dd1d;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of a path and one more segment.
fn add_segment(hash: u64, segment: &str) -> u64 {
    hash_bytes(hash.wrapping_add(FACTOR), segment.as_bytes())
}

fn hash_host(host: &str) -> u64 {
    hash_bytes(FACTOR, host.as_bytes())
}

fn hash_bytes(mut hash: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = mix(hash ^ u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    mix(hash ^ u64::from_le_bytes(last) ^ (bytes.len() as u64).rotate_left(56))
}

fn mix(hash: u64) -> u64 {
    let hash = hash.wrapping_mul(FACTOR);
    hash ^ hash >> 32
}

fn place(path: u64, is_whole: bool, host: Option<u64>) -> u64 {
    let path = if is_whole { !path } else { path };
    mix(path ^ host.unwrap_or_default().rotate_left(17))
}

/// Takes a hash for what it is.
#[derive(Clone, Copy, Default, Debug)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_bytes(self.0, bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests;
