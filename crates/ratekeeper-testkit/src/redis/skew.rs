//! A server's wall clock, shifted by a preloaded library (`skew.c`).

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::folder::Folder;

const SOURCE: &str = include_str!("skew.c");

/// The library, compiled when the first of several servers needs it and removed with the last.
#[derive(Debug)]
struct Library {
    folder: Folder,
}

impl Library {
    fn shared() -> Arc<Self> {
        static LAST: Mutex<Weak<Library>> = Mutex::new(Weak::new());
        // A failed compilation in another test leaves no half-made value behind.
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = last.upgrade() {
            return library;
        }
        let library = Arc::new(Self::compile());
        *last = Arc::downgrade(&library);
        library
    }

    fn compile() -> Self {
        let library = Self { folder: Folder::new() };
        let source = library.folder.path().join("skew.c");
        std::fs::write(&source, SOURCE).expect("the temporary folder can be written");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library.path(), &source])
            .output()
            .unwrap_or_else(|error| {
                panic!("a shifted clock needs a C compiler, `cc` (package gcc): {error}")
            });
        assert!(compiled.status.success(), "cc: {}", String::from_utf8_lossy(&compiled.stderr));
        library
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("skew.so")
    }
}

/// The shift of one server.
#[derive(Debug)]
pub(crate) struct Skew {
    library: Arc<Library>,
    file: PathBuf,
}

impl Skew {
    /// No shift yet; the file lies in the server's folder.
    pub(crate) fn new(folder: &Path) -> Self {
        let skew = Self { library: Library::shared(), file: folder.join("skew") };
        std::fs::write(&skew.file, 0_i64.to_ne_bytes()).expect("the server's folder can be written");
        skew
    }

    /// Has `command` start with this clock.
    pub(crate) fn apply(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.library.path()).env("RATEKEEPER_SKEW_FILE", &self.file);
    }

    pub(crate) fn set_us(&self, shift_us: i64) {
        // Written in place: another file of this name would not be the one that the server has mapped.
        let file = OpenOptions::new().write(true).open(&self.file).expect("the file of the shift is there");
        file.write_all_at(&shift_us.to_ne_bytes(), 0).expect("eight bytes can be written");
    }
}
