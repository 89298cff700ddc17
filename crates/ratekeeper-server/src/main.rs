//! The `ratekeeper` binary; everything is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ratekeeper_server::run()
}
