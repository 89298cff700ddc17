use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{MAX_WAITING_BYTES, Queue};

const PATIENCE: Duration = Duration::from_secs(30);

/// Hands each write on, and does nothing until it is let.
struct Gate {
    entered: Sender<String>,
    open: Receiver<()>,
}

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.entered.send(String::from_utf8_lossy(bytes).into_owned());
        let _ = self.open.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn reader_that_does_not_read_blocks_nobody_and_costs_bounded_memory() {
    let ((entered, writes), (gate, open)) = (channel(), channel());
    let queue = Queue::start(Box::new(Gate { entered, open })).expect("a thread");
    assert!(queue.push("first\n".to_owned()));
    assert_eq!(writes.recv().expect("the writer has it"), "first\n");
    // It is stuck in there now.
    let line = "x".repeat(1_023) + "\n";
    let taken = (0..).take_while(|_| queue.push(line.clone())).count();
    assert_eq!(taken, MAX_WAITING_BYTES / 1_024);
    queue.flush(Duration::from_millis(1));
    drop(gate);
    queue.flush(PATIENCE);
    assert_eq!(writes.try_iter().count(), taken);
    assert!(queue.push(line), "there is place again");
}

#[derive(Clone, Default)]
struct Failing(Arc<Mutex<Vec<u8>>>);

impl Write for Failing {
    /// Takes four bytes of what begins with `torn`, and then no more of it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.starts_with(b"gone") || bytes.starts_with(b" in") {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let taken = if bytes.starts_with(b"torn") { 4 } else { bytes.len() };
        self.0.lock().expect("no panic").extend(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn failing_sink_ends_nothing_and_joins_no_lines() {
    let sink = Failing::default();
    let queue = Queue::start(Box::new(sink.clone())).expect("a thread");
    for line in ["one\n", "torn in the middle\n", "two\n", "gone\n", "three\n", "four\n"] {
        assert!(queue.push(line.to_owned()));
    }
    queue.flush(PATIENCE);
    assert_eq!(String::from_utf8_lossy(&sink.0.lock().expect("no panic")), "one\ntorn\ntwo\n\nthree\nfour\n");
}

#[test]
fn lines_that_wait_are_written_when_the_queue_ends() {
    let ((entered, writes), (gate, open)) = (channel(), channel());
    let queue = Queue::start(Box::new(Gate { entered, open })).expect("a thread");
    for i in 0..3 {
        assert!(queue.push(format!("{i}\n")));
    }
    drop(queue);
    drop(gate);
    // The writer's end closes when it ends.
    assert_eq!(writes.iter().collect::<Vec<_>>(), ["0\n", "1\n", "2\n"]);
}
