//! `ratekeeper man`: the pages that `man` shows.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};

use crate::cli::{self, Failure};
use crate::voice::Voice;

/// Write the pages for man: one for ratekeeper and one for each of its commands
///
/// For example: ratekeeper man /usr/local/share/man/man1
#[derive(Args)]
pub(super) struct Man {
    /// The folder to write them to, made if it is not there; `-` prints the first page
    #[arg(value_name = "DIR", default_value = "-")]
    folder: PathBuf,
}

impl Man {
    /// `command` is the whole command line.
    pub(super) fn run(self, command: Command, voice: Voice) -> Result<(), Failure> {
        let pages = pages(command).map_err(|wrong| Failure::Other(format!("error: no page: {wrong}")))?;
        if self.folder.as_os_str() == "-" {
            return pages.first().map_or(Ok(()), |page| cli::print(&String::from_utf8_lossy(&page.text)));
        }
        write(&self.folder, &pages).map_err(|(path, wrong)| {
            Failure::Other(format!("error: cannot write {}: {wrong}", path.display()))
        })?;
        if !voice.is_quiet() {
            cli::tell(&format!("{} pages in {}", pages.len(), self.folder.display()));
        }
        Ok(())
    }
}

struct Page {
    /// `ratekeeper-serve.1`.
    file: String,
    text: Vec<u8>,
}

/// The page of the whole, then those of its commands.
fn pages(command: Command) -> io::Result<Vec<Page>> {
    // That help has a command too needs no page.
    let mut command = command.disable_help_subcommand(true);
    // From here on each command is called `ratekeeper-serve`, and typed `ratekeeper serve`.
    command.build();
    let mut pages = vec![page(command.clone())?];
    for verb in command.get_subcommands() {
        pages.push(page(verb.clone())?);
    }
    Ok(pages)
}

fn page(command: Command) -> io::Result<Page> {
    let man = clap_mangen::Man::new(command).source(concat!("ratekeeper ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    man.render(&mut text)?;
    Ok(Page { file: man.get_filename(), text })
}

/// # Errors
/// Which path could not be written, and why.
fn write(folder: &Path, pages: &[Page]) -> Result<(), (PathBuf, io::Error)> {
    fs::create_dir_all(folder).map_err(|wrong| (folder.to_owned(), wrong))?;
    for page in pages {
        let path = folder.join(&page.file);
        fs::write(&path, &page.text).map_err(|wrong| (path, wrong))?;
    }
    Ok(())
}
