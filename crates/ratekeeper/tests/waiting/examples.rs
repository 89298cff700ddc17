//! The examples, as they are run.

#[path = "../../examples/job_queue.rs"]
mod job_queue;

#[test]
fn the_job_queue_sends_all_its_jobs() {
    job_queue::main().unwrap();
}
