//! Logs of replicas and commands in them, by way of the server: what is read, what is run, and that nothing of a command is left when
//! its session, its replica or the agent has ended.

use std::time::Duration;

use setpoint_client::{ExecEvent, ExecOutput, LogQuery};
use setpoint_types::kinds::Stage;
use tokio::time::timeout;

use crate::bed::{Bed, alive, finished};
use crate::{SERVER, template};

const PATIENCE: Duration = Duration::from_secs(60);

/// Starts three that stay: beside it, in a session of its own, and itself; and says who they are.
const STAYS: &str = "trap '' TERM HUP; sleep 1001 & a=$!; setsid sleep 1002 & b=$!; echo $$ $a $b; wait";

async fn serving(name: &str) -> Bed {
    let mut bed = Bed::new(name).await;
    bed.start_agent("");
    bed.bind("web-0", template(&bed, SERVER)).await;
    bed.stage("web-0", Stage::Serving).await;
    bed
}

async fn cleared(bed: &Bed) {
    bed.delete("web-0").await;
    bed.stopped("web-0").await;
    bed.no_process_is_left().await;
}

/// The numbers that a command says first.
async fn numbers(output: &mut ExecOutput) -> Vec<String> {
    match timeout(PATIENCE, output.next()).await.expect("in time").expect("an answer") {
        ExecEvent::Output(bytes) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            text.split_whitespace().map(str::to_owned).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Three that run.
async fn staying(bed: &Bed) -> (ExecOutput, Vec<String>) {
    let (_input, mut output) = bed.exec("web-0", STAYS, true).await;
    let pids = numbers(&mut output).await;
    assert_eq!(pids.len(), 3, "{pids:?}");
    assert!(pids.iter().all(|pid| alive(pid)), "{pids:?}");
    (output, pids)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_wrote_is_read_while_it_comes_and_ends_with_it() {
    let mut bed = Bed::new("logs").await;
    bed.start_agent("");
    let script = "echo one; echo two; while ! [ -e go ]; do sleep 0.02; done; echo three; sleep 1000";
    bed.bind("web-0", template(&bed, script)).await;
    bed.stage("web-0", Stage::Serving).await;
    let tail = LogQuery { tail: Some(1), ..LogQuery::default() };
    assert_eq!(bed.logs("web-0", &tail, usize::MAX).await, "two\n");
    let followed = LogQuery { follow: true, ..LogQuery::default() };
    let (go, following) = (bed.work("web-0").await.join("go"), bed.logs("web-0", &followed, 14));
    let (text, ()) = tokio::join!(following, async { std::fs::write(go, "").expect("written") });
    assert_eq!(text, "one\ntwo\nthree\n");
    // Deleted while somebody reads, its log has an end.
    let (text, ()) = tokio::join!(bed.logs("web-0", &followed, usize::MAX), bed.delete("web-0"));
    assert_eq!(text, "one\ntwo\nthree\n");
    bed.stopped("web-0").await;
    // What it wrote outlives it.
    assert_eq!(bed.logs("web-0", &followed, usize::MAX).await, "one\ntwo\nthree\n");
    bed.no_process_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_as_its_replica_does_and_says_how_it_ended() {
    let bed = serving("exec").await;
    let (_input, output) =
        bed.exec("web-0", "echo $SETPOINT_REPLICA; pwd; echo bad >&2; exit 3", false).await;
    let work = bed.work("web-0").await;
    let (out, errors, code) = finished(output).await;
    assert_eq!((out, errors, code), (format!("web-0\n{}\n", work.display()), "bad\n".to_owned(), 3));

    // In the same groups, so that it is limited and found as the replica is.
    let (_input, output) = bed.exec("web-0", "cat /proc/self/cgroup", false).await;
    let own = finished(output).await.0;
    let pid = bed.starts_to(1).await[0].split(' ').next().expect("a pid").to_owned();
    let replica = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("its groups");
    assert_eq!(own, replica);

    let (input, output) = bed.exec("web-0", "cat; echo over", true).await;
    let large = vec![b'x'; 300_000];
    let fed = async {
        assert!(input.write(large.clone().into()).await);
        input.end().await;
    };
    let ((), (out, _, code)) = tokio::join!(fed, finished(output));
    assert_eq!((out.len(), &out[300_000..], code), (300_005, "over\n", 0));

    // Nothing is waited for that is not sent.
    let (_input, output) = bed.exec("web-0", "cat; echo over", false).await;
    assert_eq!(finished(output).await.0, "over\n");
    let (_input, output) = bed.exec("web-0", "kill -9 $$", false).await;
    assert_eq!(finished(output).await.2, 137);
    let (_input, output) = bed.exec("web-0", "exec /no/such/program", false).await;
    assert_eq!(finished(output).await.2, 127);
    cleared(&bed).await;
    let refused = bed.try_exec("web-0").await.expect_err("it does not run");
    assert!(refused.contains("does not run at the moment"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_command_is_left_when_its_session_ends_or_it_does() {
    let bed = serving("exec-ends").await;
    let (output, pids) = staying(&bed).await;
    drop(output);
    for pid in &pids {
        bed.gone(pid).await;
    }
    // It ends by itself, and what it left behind goes before its end is told.
    let script = "sleep 1001 & a=$!; setsid sleep 1002 & echo $a $!; exit 4";
    let (_input, output) = bed.exec("web-0", script, false).await;
    let (out, _, code) = finished(output).await;
    let left: Vec<&str> = out.split_whitespace().filter(|pid| alive(pid)).collect();
    assert_eq!((code, left), (4, Vec::new()));
    assert!(alive(bed.started()[0].split(' ').next().expect("a pid")), "the replica goes on");
    cleared(&bed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_ends_with_its_replica_and_with_its_agent() {
    let mut bed = serving("exec-agent").await;
    let (mut output, pids) = staying(&bed).await;
    bed.kill_agent();
    for pid in &pids {
        bed.gone(pid).await;
    }
    let broken = timeout(PATIENCE, output.next()).await.expect("in time").expect_err("its agent is dead");
    assert!(broken.to_string().contains("broke off"), "{broken}");

    bed.start_agent("");
    let (mut output, pids) = staying(&bed).await;
    bed.delete("web-0").await;
    bed.stopped("web-0").await;
    // Nothing is left once it is said to be stopped.
    let left: Vec<&String> = pids.iter().filter(|pid| alive(pid)).collect();
    assert!(left.is_empty(), "{left:?}");
    let end = timeout(PATIENCE, output.next()).await.expect("in time");
    assert!(matches!(end, Ok(ExecEvent::End(137))), "{end:?}");
    bed.no_process_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_read_holds_up_nobody_else() {
    let bed = serving("exec-slow").await;
    let mut slow = Vec::new();
    for _ in 0..8 {
        // More than all windows and pipes on the way hold.
        slow.push(bed.exec("web-0", "head -c 100000000 /dev/zero; echo over", false).await);
    }
    for _ in 0..3 {
        let (_input, output) = bed.exec("web-0", "echo quick", false).await;
        assert_eq!(finished(output).await, ("quick\n".to_owned(), String::new(), 0));
    }
    // And it is all there for who reads in the end.
    let (_input, output) = slow.pop().expect("one of them");
    let (out, _, code) = finished(output).await;
    assert_eq!((out.len(), code), (100_000_005, 0));
    drop(slow);
    cleared(&bed).await;
}
