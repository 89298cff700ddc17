//! What is wrong and what to write instead, before anybody knows where it stands.

/// A mistake without its place: the file adds a span, the command line a flag.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// Stable, kebab-case.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Fault {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }
}

/// The codes of mistakes: part of the JSON form of the errors, so they never change their meaning.
pub(crate) mod code {
    // The text is no file of ours at all.
    pub(crate) const FILE_TOO_LARGE: &str = "file-too-large";
    pub(crate) const FILE_EMPTY: &str = "file-empty";
    pub(crate) const NOT_UTF8: &str = "not-utf-8";
    pub(crate) const BYTE_ORDER_MARK: &str = "byte-order-mark";
    pub(crate) const YAML_SYNTAX: &str = "yaml-syntax";
    pub(crate) const TAB: &str = "tab";
    pub(crate) const NESTED_TOO_DEEP: &str = "nested-too-deep";
    // YAML that a configuration does not use.
    pub(crate) const SEVERAL_DOCUMENTS: &str = "several-documents";
    pub(crate) const ANCHOR: &str = "anchor";
    pub(crate) const ALIAS: &str = "alias";
    pub(crate) const TAG: &str = "tag";
    pub(crate) const DUPLICATE_KEY: &str = "duplicate-key";
    pub(crate) const KEY_NOT_TEXT: &str = "key-not-text";
    // Variables of the environment.
    pub(crate) const UNSET_VARIABLE: &str = "unset-variable";
    pub(crate) const BAD_VARIABLE: &str = "bad-variable";
    pub(crate) const QUOTED_VARIABLE: &str = "quoted-variable";
    // Fields and their types.
    pub(crate) const UNSUPPORTED_VERSION: &str = "unsupported-version";
    pub(crate) const UNKNOWN_FIELD: &str = "unknown-field";
    pub(crate) const NOT_AVAILABLE: &str = "not-available";
    pub(crate) const MISSING_FIELD: &str = "missing-field";
    pub(crate) const WRONG_TYPE: &str = "wrong-type";
    pub(crate) const EMPTY: &str = "empty";
    pub(crate) const UNKNOWN_WORD: &str = "unknown-word";
    pub(crate) const BAD_NUMBER: &str = "bad-number";
    pub(crate) const BAD_SIZE: &str = "bad-size";
    pub(crate) const BAD_DURATION: &str = "bad-duration";
    pub(crate) const OUT_OF_RANGE: &str = "out-of-range";
    pub(crate) const BAD_ADDRESS: &str = "bad-address";
    pub(crate) const BAD_NAME: &str = "bad-name";
    // Stores.
    pub(crate) const BAD_STORE_URL: &str = "bad-store-url";
    pub(crate) const TIMEOUT_ABOVE_DEADLINE: &str = "timeout-above-deadline";
    pub(crate) const STORES_MEET: &str = "stores-meet";
    // Client addresses.
    pub(crate) const BAD_NETWORK: &str = "bad-network";
    pub(crate) const BAD_ORIGIN: &str = "bad-origin";
    pub(crate) const DUPLICATE_NETWORK: &str = "duplicate-network";
    pub(crate) const TRUSTS_EVERYBODY: &str = "trusts-everybody";
    // Listeners.
    pub(crate) const DUPLICATE_LISTENER: &str = "duplicate-listener";
    pub(crate) const BAD_TOKEN: &str = "bad-token";
    pub(crate) const TOKEN_REQUIRED: &str = "token-required";
    // Policies.
    pub(crate) const DUPLICATE_NAME: &str = "duplicate-name";
    pub(crate) const UNKNOWN_STORE: &str = "unknown-store";
    pub(crate) const STORE_REQUIRED: &str = "store-required";
    pub(crate) const TOO_MANY_POLICIES: &str = "too-many-policies";
    pub(crate) const TOO_MANY_LIMITS: &str = "too-many-limits";
    pub(crate) const NO_POLICIES: &str = "no-policies";
    pub(crate) const TWO_QUEUES: &str = "two-queues";
    pub(crate) const QUEUES_MEET: &str = "queues-meet";
    pub(crate) const UNKNOWN_POLICY: &str = "unknown-policy";
    pub(crate) const REPLACED_IN_A_CIRCLE: &str = "replaced-in-a-circle";
    pub(crate) const NEVER_APPLIES: &str = "never-applies";
    pub(crate) const COST_NEVER_FITS: &str = "cost-never-fits";
    pub(crate) const UNKNOWN_LIMIT: &str = "unknown-limit";
    pub(crate) const TOO_MANY_OVERRIDES: &str = "too-many-overrides";
    pub(crate) const MISSING_KEY: &str = "missing-key";
    pub(crate) const INVENTED_KEY: &str = "invented-key";
    pub(crate) const FINER_THAN_SECONDS: &str = "finer-than-seconds";
    pub(crate) const BAD_KEY: &str = "bad-key";
    pub(crate) const BAD_PATTERN: &str = "bad-pattern";
    pub(crate) const UNREACHABLE_KEY: &str = "unreachable-key";
    // Limits.
    pub(crate) const BAD_LIMIT: &str = "bad-limit";
    pub(crate) const OPTION_NOT_TAKEN: &str = "option-not-taken";
    pub(crate) const OPTIONS_EXCLUDE: &str = "options-exclude-each-other";
    pub(crate) const OPTION_NEEDS: &str = "option-needs-another";
    pub(crate) const UNKNOWN_ZONE: &str = "unknown-timezone";
    pub(crate) const CALENDAR_WINDOW: &str = "calendar-window";
}
