//! The layer as programs meet it: in axum, in tonic, alone.

mod answers;
#[cfg(feature = "axum")]
mod axum_app;
#[cfg(feature = "axum")]
mod examples;
#[cfg(feature = "tonic")]
mod grpc;
mod policies;
mod properties;
mod refunds;
mod service;
#[cfg(feature = "redis")]
mod shared;
mod support;
mod waiting;

// The examples are tested as they are.
#[cfg(feature = "axum")]
#[path = "../../examples/axum_service.rs"]
#[expect(dead_code, reason = "its main function is the example's own")]
mod axum_service;
#[cfg(feature = "axum")]
#[path = "../../examples/login.rs"]
#[expect(dead_code, reason = "its main function is the example's own")]
mod login;
#[cfg(feature = "axum")]
#[path = "../../examples/sms.rs"]
#[expect(dead_code, reason = "its main function is the example's own")]
mod sms;
#[cfg(feature = "tonic")]
#[path = "../../examples/tonic_service/main.rs"]
#[expect(dead_code, reason = "its main function is the example's own")]
mod tonic_service;
