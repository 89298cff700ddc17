//! What an error reply means: whether the script ran, and what is done about it.

use ratekeeper_core::Trouble;

use super::Failure;

/// What follows from an error reply.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The script is not known there: it is sent with its text.
    NoScript,
    /// The slot has another owner.
    Moved { slot: u16, host: String, port: u16 },
    /// This once, another node is asked.
    Ask { host: String, port: u16 },
    /// The keys are on their way to another node.
    TryAgain,
    /// It is a replica.
    Readonly,
    /// Nothing more is done.
    Final(Failure),
}

/// Reads an error reply. Redis 7 puts the code of an error inside a script first, Redis 6 puts it into the middle of
/// a sentence: apart from the redirections, which concern the whole call, codes are looked for as whole words.
pub(super) fn judge(text: &str) -> Verdict {
    let mut words = text.split_ascii_whitespace();
    match words.next().unwrap_or("") {
        "NOSCRIPT" => return Verdict::NoScript,
        "TRYAGAIN" => return Verdict::TryAgain,
        "MOVED" => {
            if let Some((slot, host, port)) = redirection(words) {
                return Verdict::Moved { slot, host, port };
            }
        }
        "ASK" => {
            if let Some((_, host, port)) = redirection(words) {
                return Verdict::Ask { host, port };
            }
        }
        _ => {}
    }
    let trouble = trouble_of(text);
    if trouble == Trouble::Readonly && has_word(text, "READONLY") {
        return Verdict::Readonly;
    }
    // Everything that is recognised is said before a script writes. Anything else may come from its middle.
    let is_known = trouble != Trouble::Other || has_word(text, "BUSY") || has_word(text, "CROSSSLOT");
    Verdict::Final(Failure { trouble, may_have_run: !is_known })
}

/// The kind of an error. BUSY, a script of somebody else that runs too long, is `Other`: it is neither loading nor
/// the lack of a right, and it ends when that script does.
pub(super) fn trouble_of(text: &str) -> Trouble {
    const CODES: [(&str, Trouble); 14] = [
        ("RKCORRUPT", Trouble::Corrupt),
        ("WRONGTYPE", Trouble::Corrupt),
        ("NOAUTH", Trouble::Auth),
        ("NOPERM", Trouble::Auth),
        ("WRONGPASS", Trouble::Auth),
        // Protected mode.
        ("DENIED", Trouble::Auth),
        ("LOADING", Trouble::Loading),
        ("MASTERDOWN", Trouble::Loading),
        ("CLUSTERDOWN", Trouble::Loading),
        ("OOM", Trouble::Oom),
        ("READONLY", Trouble::Readonly),
        ("MISCONF", Trouble::Readonly),
        ("NOREPLICAS", Trouble::Readonly),
        ("NOSCRIPT", Trouble::Other),
    ];
    // What has no code of its own, as of Redis 6.2, 7.0, 7.2 and Valkey 8.
    const PHRASES: [(&str, Trouble); 7] = [
        ("unknown command", Trouble::Auth),
        ("unknown redis command", Trouble::Auth),
        ("can't run this command", Trouble::Auth),
        ("can't access at least one", Trouble::Auth),
        ("no permissions", Trouble::Auth),
        ("acl failure", Trouble::Auth),
        ("max number of clients", Trouble::Connect),
    ];
    if let Some((_, trouble)) = CODES.iter().find(|(code, _)| has_word(text, code)) {
        return *trouble;
    }
    let text = text.to_ascii_lowercase();
    PHRASES.iter().find(|(phrase, _)| text.contains(phrase)).map_or(Trouble::Other, |(_, trouble)| *trouble)
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric()).any(|found| found == word)
}

/// `3999 127.0.0.1:6381`, `3999 ::1:6381`, `3999 :6381`: an empty host is that of the node which was asked.
fn redirection<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<(u16, String, u16)> {
    let slot = words.next()?.parse().ok()?;
    let (host, port) = words.next()?.rsplit_once(':')?;
    Some((slot, host.to_owned(), port.parse().ok()?))
}

/// An error as it may be shown: one line, without the keys of the call and without the arguments that a server
/// quotes.
pub(super) fn presentable<'a>(text: &str, keys: impl Iterator<Item = &'a [u8]>) -> String {
    /// Longer texts are cut: what matters is at their start.
    const LONGEST: usize = 200;
    let mut text = text.split(", with args").next().unwrap_or("").to_owned();
    for key in keys {
        if let Ok(key) = std::str::from_utf8(key)
            && !key.is_empty()
            && text.contains(key)
        {
            text = text.replace(key, "<key>");
        }
    }
    text.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(text: &str) -> (Trouble, bool) {
        match judge(text) {
            Verdict::Final(failure) => (failure.trouble, failure.may_have_run),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn codes_are_found_first_or_inside() {
        assert_eq!(
            last("WRONGTYPE Operation against a key holding the wrong kind of value"),
            (Trouble::Corrupt, false)
        );
        let old =
            "ERR Error running script (call to f_1): @user_script:1: -WRONGTYPE Operation against a key";
        assert_eq!(last(old), (Trouble::Corrupt, false));
        assert_eq!(
            last("ERR user_script:1: RKCORRUPT state script: 12, on @user_script:1."),
            (Trouble::Corrupt, false)
        );
        assert_eq!(last("OOM command not allowed when used memory > 'maxmemory'."), (Trouble::Oom, false));
        assert_eq!(last("MISCONF Redis is configured to save RDB snapshots"), (Trouble::Readonly, false));
        assert_eq!(last("NOREPLICAS Not enough good replicas to write."), (Trouble::Readonly, false));
        assert_eq!(last("LOADING Redis is loading the dataset in memory"), (Trouble::Loading, false));
        assert_eq!(last("CLUSTERDOWN Hash slot not served"), (Trouble::Loading, false));
        assert_eq!(last("BUSY Redis is busy running a script."), (Trouble::Other, false));
        assert_eq!(last("NOAUTH Authentication required."), (Trouble::Auth, false));
        assert_eq!(
            last("ERR unknown command 'EVALSHA', with args beginning with: 'a'"),
            (Trouble::Auth, false)
        );
        assert_eq!(last("ERR user_script:1: attempt to index a nil value"), (Trouble::Other, true));
        let inside = "ERR Error running script: -READONLY You can't write against a read only replica.";
        assert!(matches!(judge(inside), Verdict::Readonly));
        assert!(matches!(judge("NOSCRIPT No matching script. Please use EVAL."), Verdict::NoScript));
    }

    #[test]
    fn redirections_are_read_only_where_they_belong() {
        assert!(
            matches!(judge("MOVED 3999 ::1:6381"), Verdict::Moved { slot: 3999, host, port: 6381 } if host == "::1")
        );
        assert!(matches!(judge("ASK 1 :7"), Verdict::Ask { host, port: 7 } if host.is_empty()));
        assert_eq!(last("MOVED 70000 h:1"), (Trouble::Other, true));
        assert_eq!(last("MOVED"), (Trouble::Other, true));
        assert_eq!(last("ERR a script said MOVED 1 h:1"), (Trouble::Other, true));
        assert_eq!(last(""), (Trouble::Other, true));
    }

    #[test]
    fn keys_and_arguments_are_not_shown() {
        let text = "ERR unknown command 'X', with args beginning with: 'secret'";
        assert_eq!(presentable(text, std::iter::empty()), "ERR unknown command 'X'");
        assert_eq!(presentable("bad rk1:{a}\nx", [&b"rk1:{a}"[..]].into_iter()), "bad <key> x");
    }
}
