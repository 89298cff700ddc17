//! Real servers on free ports, ended with the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use tokio::time::Instant;

/// A `redis-server` process.
pub(super) struct Server {
    pub(super) port: u16,
    dir: PathBuf,
    options: Vec<String>,
    child: Child,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

pub(super) fn free_port() -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        // A cluster's node uses the port 10,000 further, too.
        if port < 55_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
}

impl Server {
    pub(super) fn start(options: &[&str]) -> Self {
        let port = free_port();
        let number = COUNT.fetch_add(1, SeqCst);
        let dir = std::env::temp_dir().join(format!("ratekeeper-link-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let options: Vec<String> = options.iter().map(|&word| word.to_owned()).collect();
        let child = Self::spawn(port, &dir, &options);
        let server = Self { port, dir, options, child };
        server.wait();
        server
    }

    /// A sentinel of the master at `port`.
    pub(super) fn sentinel(port: u16) -> Self {
        let number = COUNT.fetch_add(1, SeqCst);
        let dir = std::env::temp_dir().join(format!("ratekeeper-link-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let text = format!(
            "sentinel monitor main 127.0.0.1 {port} 1\nsentinel down-after-milliseconds main 500\n\
             sentinel failover-timeout main 3000\n"
        );
        let file = dir.join("sentinel.conf");
        std::fs::write(&file, text).unwrap();
        let options = vec![file.display().to_string(), "--sentinel".to_owned()];
        let port = free_port();
        let child = Self::spawn(port, &dir, &options);
        let server = Self { port, dir, options, child };
        server.wait();
        server
    }

    fn spawn(port: u16, dir: &PathBuf, options: &[String]) -> Child {
        Command::new("redis-server")
            .args(options.iter().filter(|word| word.ends_with(".conf")))
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(options.iter().filter(|word| !word.ends_with(".conf")))
            .current_dir(dir)
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn wait(&self) {
        let end = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < end, "redis-server does not start");
            // A process is starting.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(super) fn signal(&self, name: &str) {
        Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
    }

    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(super) fn restart(&mut self) {
        self.kill();
        self.child = Self::spawn(self.port, &self.dir, &self.options);
        self.wait();
    }

    /// Says something to it, and reads what `redis-cli` makes of the answer.
    pub(super) fn cli(&self, words: &[&str]) -> String {
        let out =
            Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(words).output().unwrap();
        String::from_utf8_lossy(&out.stdout).trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Passes bytes on to a server, and can swallow what comes back.
pub(super) struct Proxy {
    pub(super) port: u16,
    /// Replies vanish, and the connection is closed instead.
    pub(super) cuts: Arc<AtomicBool>,
}

impl Proxy {
    pub(super) fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let cuts = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&cuts);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", to))) else {
                    return;
                };
                let (mut there, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut BufReader::new(client), &mut there);
                });
                let cuts = Arc::clone(&theirs);
                std::thread::spawn(move || {
                    let mut server = server;
                    let mut buffer = [0; 4096];
                    while let Ok(count @ 1..) = server.read(&mut buffer) {
                        if cuts.load(SeqCst) {
                            let _ = back.shutdown(std::net::Shutdown::Both);
                            let _ = server.shutdown(std::net::Shutdown::Both);
                            return;
                        }
                        let _ = back.write_all(&buffer[..count]);
                    }
                    let _ = back.shutdown(std::net::Shutdown::Both);
                });
            }
        });
        Self { port, cuts }
    }
}

/// Three masters with a third of the slots each, and no replicas.
pub(super) fn cluster() -> Vec<Server> {
    let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
    let nodes: Vec<Server> = (0..3).map(|_| Server::start(&options)).collect();
    let slots = [("0", "5460"), ("5461", "10922"), ("10923", "16383")];
    for (node, (first, last)) in nodes.iter().zip(slots) {
        assert_eq!(node.cli(&["cluster", "addslotsrange", first, last]), "OK");
        let port = nodes[0].port.to_string();
        assert_eq!(node.cli(&["cluster", "meet", "127.0.0.1", &port]), "OK");
    }
    let end = Instant::now() + Duration::from_secs(20);
    let knows = |node: &Server| {
        node.cli(&["cluster", "info"]).contains("cluster_state:ok")
            && BufReader::new(node.cli(&["cluster", "slots"]).as_bytes()).lines().count() >= 12
    };
    while !nodes.iter().all(knows) {
        assert!(Instant::now() < end, "the cluster does not form");
        // Real nodes are getting to know each other.
        std::thread::sleep(Duration::from_millis(50));
    }
    nodes
}
