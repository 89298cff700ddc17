//! The command line: one file per verb. Data goes to stdout, everything else to stderr.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::voice::Voice;

mod bench;
mod check;
mod completions;
mod demo;
mod explain;
mod man;
mod question;
mod schema;
mod serve;
mod simulate;
mod top;
pub(crate) mod validate;

/// What is true of all commands.
const AROUND: &str = "\
Exit codes:
  0   good
  2   what was typed or read is wrong
  10  check: denied
  1   anything else

Environment:
  RATEKEEPER_CONFIG       the configuration file, without --config
  RATEKEEPER_SERVER       whom check asks, without --server
  RATEKEEPER_ADMIN_TOKEN  the token of an admin listener that has none in the file; explain and top say it
  RATEKEEPER_LOG          the level of log lines: error, warn, info, debug";

/// Rate limiting for a whole team: one configuration file, six exact algorithms.
#[derive(Parser)]
#[command(name = "ratekeeper", version, arg_required_else_help = true, after_long_help = AROUND)]
struct Cli {
    #[command(flatten)]
    voice: Voice,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Demo(demo::Demo),
    Serve(serve::Serve),
    Validate(validate::Validate),
    #[command(mut_arg("policy", |arg| arg.required_unless_present_any(["attributes", "ready"])))]
    Check(Box<check::Check>),
    #[command(mut_arg("policy", |arg| arg.required_unless_present("attributes")))]
    Explain(Box<explain::Explain>),
    Simulate(Box<simulate::Simulate>),
    Schema(schema::Schema),
    Bench(bench::Bench),
    Top(top::Top),
    Completions(completions::Completions),
    Man(man::Man),
}

/// How a command says what it has found.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs: one object on stdout
    Json,
}

/// How a command failed: what to say on stderr, and the exit code.
pub(crate) enum Failure {
    /// What was typed or read is wrong: exit 2.
    BadInput(String),
    /// Anything else: exit 1.
    Other(String),
    /// `check` was answered, by a refusal: exit 10, and it has been said.
    Denied,
    /// Nobody reads our output any more: a quiet end.
    OutputClosed,
}

impl Failure {
    /// A failure to write to stdout.
    pub(crate) fn output(wrong: &io::Error) -> Self {
        match wrong.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Other(format!("error: cannot write the output: {wrong}")),
        }
    }
}

/// Runs the command that was typed; the result is the exit code of the process.
pub(crate) fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // Help and version come this way too, with 0. Should the pipe be closed, there is nobody to tell.
            let _ = usage.print();
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2));
        }
    };
    let voice = cli.voice;
    let done = match cli.verb {
        Verb::Demo(demo) => demo.run(voice),
        Verb::Serve(serve) => serve.run(voice),
        Verb::Validate(validate) => validate.run(voice),
        Verb::Check(check) => check.run(voice),
        Verb::Explain(explain) => explain.run(voice),
        Verb::Simulate(simulate) => simulate.run(),
        Verb::Schema(schema) => schema.run(),
        Verb::Bench(bench) => bench.run(voice),
        Verb::Top(top) => top.run(voice),
        Verb::Completions(completions) => completions.run(Cli::command()),
        Verb::Man(man) => man.run(Cli::command(), voice),
    };
    match done {
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Denied) => ExitCode::from(10),
        Err(Failure::BadInput(message)) => {
            tell(&message);
            ExitCode::from(2)
        }
        Err(Failure::Other(message)) => {
            tell(&message);
            ExitCode::FAILURE
        }
    }
}

/// Says something to the person at the terminal: on stderr, and never a reason to fail.
pub(crate) fn tell(message: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", message.trim_end());
}

/// Writes data to stdout.
///
/// # Errors
/// If it cannot be written; a closed pipe is [`Failure::OutputClosed`].
pub(crate) fn print(data: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(data.as_bytes()).and_then(|()| stdout.flush()).map_err(|wrong| Failure::output(&wrong))
}
