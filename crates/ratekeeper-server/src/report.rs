//! What is right or wrong with a configuration, for programs: `validate --format json`, and a reload that failed.

use ratekeeper_policy::{Config, ConfigError, ConfigErrors, Severity};
use serde::Serialize;

use crate::cli::validate::limits::Explained;
use crate::cli::validate::stores::Asked;
use crate::input::Unreadable;

/// What is said of a file, as JSON.
#[derive(Serialize)]
pub(crate) struct Report<'a> {
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    policies: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<usize>,
    errors: Vec<Mistake<'a>>,
    warnings: Vec<Mistake<'a>>,
    /// What each limit lets through at worst, if that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) explain_limits: Option<Vec<Explained>>,
    /// Whether its shared stores can serve, if that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stores: Option<Vec<Asked>>,
}

#[derive(Serialize)]
struct Mistake<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    severity: &'static str,
    code: &'static str,
    message: &'a str,
    hint: Option<&'a str>,
}

impl<'a> Report<'a> {
    /// What is right or wrong with a file that could be read.
    pub(crate) fn new(
        file: &'a str,
        config: Result<&Config, &'a ConfigErrors>,
        warnings: &'a [ConfigError],
    ) -> Self {
        let mistakes = |items: &'a [ConfigError]| items.iter().map(|item| Mistake::new(file, item)).collect();
        let warnings = mistakes(warnings);
        match config {
            Ok(config) => Self {
                file,
                policies: Some(config.policies.len()),
                limits: Some(config.policies.iter().map(|policy| policy.limits().len()).sum()),
                errors: Vec::new(),
                warnings,
                explain_limits: None,
                stores: None,
            },
            Err(errors) => Self {
                file,
                policies: errors.policies,
                limits: errors.limits,
                errors: mistakes(&errors.items),
                warnings,
                explain_limits: None,
                stores: None,
            },
        }
    }

    /// Of a file that could not be read: like a mistake at its beginning.
    pub(crate) fn unreadable(file: &'a str, why: &'a Unreadable) -> Self {
        Self::of_whole(file, "unreadable", &why.message, why.hint)
    }

    /// Of a file that cannot be used, whatever stands in it.
    pub(crate) fn of_whole(
        file: &'a str,
        code: &'static str,
        message: &'a str,
        hint: Option<&'a str>,
    ) -> Self {
        let mistake = Mistake { file, line: 1, column: 1, severity: "error", code, message, hint };
        Self {
            file,
            policies: None,
            limits: None,
            errors: vec![mistake],
            warnings: Vec::new(),
            explain_limits: None,
            stores: None,
        }
    }

    /// Warnings become errors.
    pub(crate) fn be_strict(&mut self) {
        let severity = Severity::Error.as_str();
        let warnings = self.warnings.drain(..);
        self.errors.extend(warnings.map(|warning| Mistake { severity, ..warning }));
    }

    /// The object.
    pub(crate) fn json(&self) -> String {
        // Texts and numbers alone cannot fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl<'a> Mistake<'a> {
    fn new(file: &'a str, item: &'a ConfigError) -> Self {
        Self {
            file,
            line: item.line,
            column: item.column,
            severity: item.severity.as_str(),
            code: item.code,
            message: &item.message,
            hint: item.hint.as_deref(),
        }
    }
}
