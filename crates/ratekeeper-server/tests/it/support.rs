//! Starting the binary and talking to it. Whatever is started is ended with its handle, and nothing else is.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The binary under test.
pub(crate) const RATEKEEPER: &str = env!("CARGO_BIN_EXE_ratekeeper");

/// How long a test waits for an answer before it fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(30);

/// Real time, for what really takes some: the end of a process, a wait that a server has promised about.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "the server under test has the real clock")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A folder that is removed with its handle.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("ratekeeper-it-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary folder can be made");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file; its path.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("the folder can be written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The binary with arguments and nothing of this process's environment that would change what it does.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(RATEKEEPER);
    command.args(arguments);
    for variable in ["RATEKEEPER_CONFIG", "RATEKEEPER_SERVER", "RATEKEEPER_LOG", "RATEKEEPER_ADMIN_TOKEN"] {
        command.env_remove(variable);
    }
    command
}

/// Runs the binary to its end with this on stdin.
pub(crate) fn run(arguments: &[&str], stdin: impl AsRef<[u8]>) -> Output {
    run_command(command(arguments), stdin.as_ref())
}

pub(crate) fn run_command(mut command: Command, stdin: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut input = child.stdin.take().expect("stdin is a pipe");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A command that ends early closes its end; that is not this writer's failure.
            let _ = input.write_all(stdin);
        });
        child.wait_with_output().expect("the binary ends")
    })
}

/// What was printed and the exit code, as text.
pub(crate) fn told(output: &Output) -> (String, String, i32) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8 is printed");
    (text(&output.stdout), text(&output.stderr), output.status.code().expect("it ends by itself"))
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    /// What it said when it had begun to listen.
    pub(crate) banner: String,
    /// Where it listens for HTTP.
    pub(crate) address: String,
    /// Where it listens for its operators, if it does.
    pub(crate) admin: String,
    stderr: BufReader<ChildStderr>,
    /// The folder of its configuration, which it looks at as long as it runs.
    folder: Option<Folder>,
}

impl Server {
    /// Starts the binary with these arguments, `--http` at a free port among them, and waits until it listens.
    pub(crate) fn start(arguments: &[&str], folder: Option<&Path>) -> Self {
        let mut command = command(arguments);
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        command.args(["--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        Self::spawn(command)
    }

    /// Starts a command that becomes a server, and waits until it listens.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
        let mut banner = String::new();
        while !banner.contains("Ctrl-C") {
            // Ends by itself: a server that cannot start closes its stderr.
            let read = stderr.read_line(&mut banner).expect("stderr is UTF-8");
            assert_ne!(read, 0, "the server ended: {banner}");
        }
        let after = |word: &str| {
            let url = banner.split(word).nth(1).and_then(|rest| rest.split("://").nth(1));
            url.and_then(|url| url.split('/').next()).unwrap_or_default().to_owned()
        };
        let (address, admin) = (after("  check "), after("  admin "));
        Self { child, banner, address, admin, stderr, folder: None }
    }

    /// Starts a command that listens at `address` and may say nothing about it; what it says is all left to
    /// [`wait`](Self::wait).
    pub(crate) fn spawn_at(mut command: Command, address: &str) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("the binary starts");
        let stderr = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
        let (address, admin, banner) = (address.to_owned(), String::new(), String::new());
        let mut server = Self { child, banner, address, admin, stderr, folder: None };
        while TcpStream::connect(&server.address).is_err() {
            assert!(server.child.try_wait().expect("it is our child").is_none(), "the server ended");
            // Waits for the process to listen, which it does in its own time.
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// A server of this configuration.
    pub(crate) fn of(config: &str) -> Self {
        let folder = Folder::new();
        let file = folder.file("ratekeeper.yaml", config);
        Self::start(&["serve", "--config", file.to_str().expect("UTF-8")], None).keeping(folder)
    }

    /// Keeps the folder of its configuration for as long as it runs.
    pub(crate) fn keeping(mut self, folder: Folder) -> Self {
        self.folder = Some(folder);
        self
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(&self.address)
    }

    /// Replaces its configuration, as an editor or a deploy does: all at once.
    pub(crate) fn replace(&self, config: &str) {
        let folder = self.folder.as_ref().expect("it has a file");
        let new = folder.file("new.yaml", config);
        std::fs::rename(new, folder.path().join("ratekeeper.yaml")).expect("the folder can be written");
    }

    /// Where its configuration is.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.as_ref().expect("it has a file").path().join("ratekeeper.yaml")
    }

    /// Asks its operators' listener.
    pub(crate) fn operate(&self, method: &str, target: &str) -> Response {
        let mut connection = Connection::open(&self.admin);
        let head = format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n");
        connection.send(head.as_bytes());
        connection.response()
    }

    /// Asks the HTTP listener.
    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> Response {
        let mut connection = self.connect();
        connection.send(&request(method, path, "", body.as_bytes()));
        connection.response()
    }

    /// One question on a connection of its own.
    pub(crate) fn check(&self, body: &str) -> Response {
        let mut connection = self.connect();
        connection.send(&post(body));
        connection.response()
    }

    /// Asks the process to end, as a service manager does.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.expect("kill is there").success());
    }

    /// Resident memory of the process in bytes.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the system tells");
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        1_024 * kilobytes
    }

    /// Reads the next line that it says.
    pub(crate) fn read_line(&mut self, line: &mut String) {
        self.stderr.read_line(line).expect("stderr is UTF-8");
    }

    /// Waits for the end of the process; what else it said.
    pub(crate) fn wait(&mut self) -> (ExitStatus, String) {
        for _ in 0..3_000 {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                let mut rest = String::new();
                self.stderr.read_to_string(&mut rest).expect("stderr is UTF-8");
                return (status, rest);
            }
            // Waits for the process to end, which it does in its own time.
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server does not end");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A question as an HTTP/1.1 request.
pub(crate) fn post(body: &str) -> Vec<u8> {
    request("POST", "/v1/check", "", body.as_bytes())
}

/// A request with more header lines, each ended by `\r\n`.
pub(crate) fn request(method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: test\r\n{headers}content-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// A connection that knows just enough of HTTP/1.1 to see everything.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

/// An answer as it was sent.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Connection {
    pub(crate) fn open(address: &str) -> Self {
        Self::try_open(address).expect("the server listens")
    }

    pub(crate) fn try_open(address: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket has a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket has a timeout");
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// The same connection twice: to write to one while the other is read from.
    pub(crate) fn split(self) -> (Self, Self) {
        let other = self.stream.get_ref().try_clone().expect("a socket has two ends");
        (self, Self { stream: BufReader::new(other) })
    }

    /// How long a write may wait for the server to read.
    pub(crate) fn set_write_timeout(&mut self, patience: Duration) {
        self.stream.get_mut().set_write_timeout(Some(patience)).expect("a socket has a timeout");
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("the server reads");
    }

    /// Sends to a server that may have answered and closed before it has read all.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Says that nothing more will be sent; the server may have closed already.
    pub(crate) fn finish(&self) {
        let _ = self.stream.get_ref().shutdown(std::net::Shutdown::Write);
    }

    /// An answer.
    pub(crate) fn response(&mut self) -> Response {
        let mut response = self.head();
        let length = response.header("content-length").map_or(0, |n| n.parse().expect("a number"));
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("the body comes whole");
        response.body = String::from_utf8(body).expect("UTF-8");
        response
    }

    /// The head of an answer, which is all of it if `HEAD` was asked.
    pub(crate) fn head(&mut self) -> Response {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("an answer comes");
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line: {line:?}"));
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).expect("a head ends");
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
        Response { status, headers, body: String::new() }
    }

    /// What is still sent until the server closes.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset is an end too: the server closed while we had more to say.
        let _ = self.stream.read_to_end(&mut rest);
        rest
    }

    pub(crate) fn read_exact(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = vec![0; n];
        self.stream.read_exact(&mut bytes).expect("so much is sent");
        bytes
    }
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|wrong| panic!("{wrong}: {}", self.body))
    }
}
