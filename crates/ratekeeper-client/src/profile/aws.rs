//! AWS names its refusals by codes, in a field or in the body.

use super::{Class, generic};
use crate::hint::{ResponseHead, xml_code};

const THROTTLING: [&str; 15] = [
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottledException",
    "RequestThrottled",
    "TooManyRequestsException",
    "ProvisionedThroughputExceededException",
    "TransactionInProgressException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "LimitExceededException",
    "SlowDown",
    "PriorRequestNotComplete",
    "EC2ThrottledException",
    "ThrottlingError",
];
const TRANSIENT: [&str; 4] =
    ["RequestTimeout", "RequestTimeoutException", "InternalError", "InternalFailure"];

pub(super) fn classify(head: &ResponseHead<'_>) -> Class {
    match (generic(head), code(head)) {
        (Class::Success, _) => Class::Success,
        (_, Some(code)) if THROTTLING.contains(&code) => Class::Throttled,
        (Class::Permanent, Some(code)) if TRANSIENT.contains(&code) => Class::Transient,
        (class, _) => class,
    }
}

/// `ThrottlingException` of `com.amazon.coral.availability#ThrottlingException:http://…`.
fn code<'a>(head: &ResponseHead<'a>) -> Option<&'a str> {
    let in_body = || {
        let json = head.json()?;
        json.value("__type").or_else(|| json.value("code")).or_else(|| xml_code(json.0))
    };
    let code = head.text("x-amzn-errortype").or_else(in_body)?;
    let code = code.split(':').next().unwrap_or(code);
    Some(code.rsplit('#').next().unwrap_or(code))
}
