//! The layer as programs meet it: in axum, in tonic, alone.

#[cfg(feature = "axum")]
mod axum_app;
mod support;
