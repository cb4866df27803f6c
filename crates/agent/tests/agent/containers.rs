//! The real agent and real containers: from a binding to a serving replica and back, through crashes of the agent and an engine that
//! comes and goes.

use std::time::Duration;

use setpoint_types::kinds::{
    ExecAction, OnDisconnect, PendingReason, Port, Probe, ReplicaTemplate, RestartBackoff, RestartPolicy,
    Stage,
};
use tokio::time::sleep;

use crate::bed::{Bed, alive, until};
use crate::engine::{Engine, OwnEngine};

/// Says that it was started, and goes on until it is told otherwise.
const SERVER: &str =
    "echo $SETPOINT_REPLICA $PORT $PORT_HTTP >> starts; trap 'exit 0' USR1; while :; do sleep 0.05; done";

fn template(engine: &Engine, script: &str) -> ReplicaTemplate {
    ReplicaTemplate {
        image: Some(engine.image.clone()),
        command: ["/bin/sh", "-c", script].map(str::to_owned).into(),
        // The folder of its own.
        working_dir: Some(".".into()),
        ports: vec![Port { name: "http".into(), ..Port::default() }],
        restart_backoff: RestartBackoff { initial_seconds: 0, max_seconds: 1, reset_seconds: 600 },
        termination_grace_seconds: 2,
        ..ReplicaTemplate::default()
    }
}

fn exec(script: &str) -> Option<Probe> {
    let command = ["/bin/sh", "-c", script].map(str::to_owned).into();
    Some(Probe { exec: Some(ExecAction { command }), period_seconds: 1, ..Probe::default() })
}

async fn bed(name: &str, engine: &Engine) -> Bed {
    let parent = format!("setpoint-test-{}-{name}", std::process::id());
    Bed::with(name, &parent, &engine.socket).await
}

/// What a replica wrote when it was started, each time.
async fn starts(bed: &Bed, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(bed.work(name).await.join("starts")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_serves_at_its_port_is_stopped_when_it_is_deleted_and_leaves_nothing() {
    let Some(engine) = Engine::find("serves").await else { return };
    let mut bed = bed("box-serves", &engine).await;
    bed.keep_ended = 0;
    bed.start_agent("");
    let mut template = template(&engine, SERVER);
    template.readiness_probe = exec("cat starts");
    bed.bind("web-0", template).await;
    let status = bed.stage("web-0", Stage::Serving).await.status.expect("a status");
    let port = status.endpoints[0].port.to_string();
    assert_eq!(starts(&bed, "web-0").await, [format!("web-0 {port} {port}")]);
    let mark = bed.mark();
    assert_eq!(engine.running(&mark).await, 1);

    // No news, no writes.
    let revision = bed.revision();
    sleep(Duration::from_millis(2500)).await;
    assert_eq!(bed.revision(), revision, "something was written although nothing changed");

    bed.delete("web-0").await;
    bed.stopped("web-0").await;
    assert_eq!(engine.running(&mark).await, 0);
    let status = bed.replica("web-0").await.status.expect("a status");
    assert_eq!(status.last_exit.map(|exit| exit.reason).as_deref(), Some("Stopped"));
    until("nothing is left", async || engine.containers(&mark).await.is_empty().then_some(())).await;
    engine.clear(&mark).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_end_when_it_is_asked_is_killed_after_its_grace_and_says_so() {
    let Some(engine) = Engine::find("killed").await else { return };
    let mut bed = bed("box-killed", &engine).await;
    bed.start_agent("");
    let mut template = template(&engine, "echo >> starts; trap '' USR1 TERM; while :; do sleep 0.05; done");
    template.readiness_probe = exec("cat starts");
    template.pre_stop =
        Some(ExecAction { command: ["/bin/sh", "-c", "echo bye > bye"].map(str::to_owned).into() });
    bed.bind("web-0", template).await;
    bed.stage("web-0", Stage::Serving).await;
    let bye = bed.work("web-0").await.join("bye");
    bed.delete("web-0").await;
    bed.stopped("web-0").await;
    assert_eq!(engine.running(&bed.mark()).await, 0);
    let exit = bed.replica("web-0").await.status.and_then(|status| status.last_exit).expect("an end");
    assert_eq!((exit.signal, exit.reason.as_str()), (Some(9), "Killed"));
    assert_eq!(std::fs::read_to_string(bye).unwrap_or_default(), "bye\n", "preStop was not run");
    engine.clear(&bed.mark()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_killed_anywhere_leaves_one_container_and_the_next_takes_it_up() {
    let Some(engine) = Engine::find("crash").await else { return };
    for point in ["agent.recorded", "docker.created", "agent.told"] {
        let mut bed = bed(&format!("box-{}", point.replace('.', "-")), &engine).await;
        bed.start_agent(&format!("{point}=crash@1"));
        let mut template = template(&engine, SERVER);
        template.readiness_probe = exec("cat starts");
        bed.bind("web-0", template).await;
        bed.agent_died(point).await;
        bed.start_agent("");
        let replica = bed.stage("web-0", Stage::Serving).await;
        assert_eq!(replica.status.expect("a status").restarts, 0, "after {point}");
        // And once more, while it runs.
        bed.kill_agent();
        bed.start_agent("");
        bed.taken_up(2).await;
        bed.stage("web-0", Stage::Serving).await;
        assert_eq!(starts(&bed, "web-0").await.len(), 1, "after {point}");
        assert_eq!(engine.running(&bed.mark()).await, 1, "after {point}");
        bed.delete("web-0").await;
        bed.stopped("web-0").await;
        assert_eq!(engine.running(&bed.mark()).await, 0, "after {point}");
        bed.kill_agent();
        engine.clear(&bed.mark()).await;
        engine.make().await;
    }
    engine.clear("none").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_ends_is_started_again_and_its_end_is_told() {
    let Some(engine) = Engine::find("ends").await else { return };
    let mut bed = bed("box-ends", &engine).await;
    bed.start_agent("");
    let script = "echo >> starts; if [ -e again ]; then sleep 1000; fi; >again; exit 6";
    bed.bind("web-0", template(&engine, script)).await;
    let status = bed.restarted("web-0").await.status.expect("a status");
    let exit = status.last_exit.expect("an end");
    assert_eq!((exit.code, exit.reason.as_str()), (Some(6), "Error"));
    bed.stage("web-0", Stage::Serving).await;
    // Killed by somebody, while nobody looks: told by the next agent.
    bed.kill_agent();
    for (id, _) in engine.containers(&bed.mark()).await {
        engine.docker.kill_container(&id, None).await.ok();
    }
    bed.start_agent("");
    let status =
        bed.seen("web-0", "two restarts", |status| status.restarts == 2).await.status.expect("a status");
    let exit = status.last_exit.expect("an end");
    assert_eq!((exit.signal, exit.reason.as_str()), (Some(9), "Killed"));
    bed.stage("web-0", Stage::Serving).await;

    let mut once = template(&engine, "x=aaaaaaaa; while :; do x=$x$x; done");
    once.restart_policy = RestartPolicy::Never;
    once.resources = [("memory".to_owned(), 16 << 20)].into_iter().collect();
    bed.bind("big-0", once).await;
    let status = bed.stage("big-0", Stage::Failed).await.status.expect("a status");
    assert_eq!(status.last_exit.map(|exit| exit.reason).as_deref(), Some("OutOfMemory"));
    bed.kill_agent();
    engine.clear(&bed.mark()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_nowhere_is_named_and_not_asked_for_all_the_time() {
    let Some(engine) = Engine::find("nowhere").await else { return };
    let mut bed = bed("box-nowhere", &engine).await;
    bed.start_agent("");
    let mut template = template(&engine, "");
    template.image = Some("127.0.0.1:1/no/such/image:2".into());
    bed.bind("web-0", template).await;
    let named = |status: &setpoint_types::kinds::ReplicaStatus| {
        let blocked = status.blocked.as_ref();
        blocked.is_some_and(|it| {
            it.reason == PendingReason::Image && it.message.contains("127.0.0.1:1/no/such/image:2")
        })
    };
    bed.seen("web-0", "a reason", named).await;
    let revision = bed.revision();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(bed.revision(), revision, "the same is told again and again");
    bed.delete("web-0").await;
    bed.stopped("web-0").await;
    engine.clear(&bed.mark()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_no_record_tells_of_is_ended_only_once_the_server_was_heard() {
    let Some(engine) = Engine::find("stray").await else { return };
    let mut bed = bed("box-stray", &engine).await;
    bed.start_agent("");
    bed.bind("web-0", template(&engine, SERVER)).await;
    bed.stage("web-0", Stage::Serving).await;
    let before = engine.containers(&bed.mark()).await;
    bed.kill_agent();
    std::fs::remove_dir_all(bed.state().join("replicas")).expect("removed");
    bed.cut();
    bed.start_agent("");
    until("the agent runs", async || (bed.log().matches("the agent runs").count() == 2).then_some(())).await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(engine.containers(&bed.mark()).await, before, "it was ended without a word of the server");
    bed.mend();
    // It is bound here, and begun again, once nothing of it runs.
    let ended =
        async || engine.containers(&bed.mark()).await.iter().all(|it| !before.contains(it)).then_some(());
    until("it is ended", ended).await;
    bed.kill_agent();
    engine.clear(&bed.mark()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_one_name_at_one_engine_leave_each_other_alone() {
    let Some(engine) = Engine::find("shared").await else { return };
    let mut first = bed("box-first", &engine).await;
    first.start_agent("");
    let mut template = template(&engine, SERVER);
    template.readiness_probe = exec("cat starts");
    first.bind("web-0", template.clone()).await;
    first.stage("web-0", Stage::Serving).await;
    let mut second = bed("box-second", &engine).await;
    second.start_agent("");
    second.bind("web-0", template).await;
    second.stage("web-0", Stage::Serving).await;
    second.delete("web-0").await;
    second.stopped("web-0").await;
    assert_eq!((engine.running(&first.mark()).await, engine.running(&second.mark()).await), (1, 0));
    assert_eq!(first.replica("web-0").await.status.expect("a status").restarts, 0);
    for bed in [&mut first, &mut second] {
        bed.kill_agent();
        engine.clear(&bed.mark()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_server_an_exclusive_container_ends_while_its_agent_lives() {
    let Some(engine) = Engine::find("cut").await else { return };
    let mut bed = bed("box-cut", &engine).await;
    bed.start_agent("");
    let mut exclusive = template(&engine, SERVER);
    exclusive.on_disconnect = OnDisconnect::Exclusive;
    bed.bind("only-0", exclusive).await;
    bed.stage("only-0", Stage::Serving).await;
    bed.bind("web-0", template(&engine, SERVER)).await;
    bed.stage("web-0", Stage::Serving).await;
    bed.cut();
    until("one is left", async || (engine.running(&bed.mark()).await == 1).then_some(())).await;
    bed.mend();
    let status = bed.stage("only-0", Stage::Failed).await.status.expect("a status");
    assert_eq!(status.last_exit.map(|exit| exit.reason).as_deref(), Some("Fenced"));
    assert_eq!(engine.running(&bed.mark()).await, 1);
    bed.kill_agent();
    engine.clear(&bed.mark()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_may_go_and_come_back() {
    let Some(mut own) = OwnEngine::new() else { return };
    let docker = own.start(true).await;
    let engine = own.with_image(docker, "own").await;
    let mut bed = bed("box-own", &engine).await;
    bed.start_agent("");
    let mut web = template(&engine, SERVER);
    web.readiness_probe = exec("cat starts");
    // It says nothing about the replica that nobody can be asked about it.
    let patient = |probe| Probe { period_seconds: 2, timeout_seconds: 2, failure_threshold: 3, ..probe };
    web.liveness_probe = exec("cat starts").map(patient);
    bed.bind("web-0", web).await;
    bed.stage("web-0", Stage::Serving).await;
    let process = ReplicaTemplate {
        command: ["/bin/sh", "-c", "echo $$ >> $STARTS; exec sleep 1000"].map(str::to_owned).into(),
        env: vec![setpoint_types::kinds::EnvVar {
            name: "STARTS".into(),
            value: bed.starts().display().to_string(),
        }],
        ..ReplicaTemplate::default()
    };
    bed.bind("process-0", process).await;
    bed.stage("process-0", Stage::Serving).await;
    let pid = bed.starts_to(1).await[0].clone();

    // The engine is restarted, and its containers survive that.
    own.stop().await;
    sleep(Duration::from_secs(7)).await;
    own.start(true).await;
    bed.stage("web-0", Stage::Serving).await;
    assert_eq!((starts(&bed, "web-0").await.len(), engine.running(&bed.mark()).await), (1, 1));

    // An agent that comes back while there is no engine takes up what it can see, and the rest when it can.
    own.stop().await;
    bed.kill_agent();
    bed.start_agent("");
    bed.taken_up(1).await;
    bed.node().await;
    assert!(alive(&pid));
    // It cannot be ended now, and is not said to be.
    bed.delete("web-0").await;
    sleep(Duration::from_secs(2)).await;
    assert!(bed.binding("web-0").await.status.is_none_or(|status| status.stopped.is_none()));
    own.start(true).await;
    bed.stopped("web-0").await;
    assert_eq!(engine.running(&bed.mark()).await, 0);
    let status = bed.replica("web-0").await.status.expect("a status");
    assert_eq!(status.restarts, 0, "{:?}", status.last_exit);

    // An engine that takes its containers with it: they are started again.
    bed.bind("next-0", template(&engine, SERVER)).await;
    bed.stage("next-0", Stage::Serving).await;
    own.stop().await;
    own.start(false).await;
    bed.restarted("next-0").await;
    bed.stage("next-0", Stage::Serving).await;
    assert!(alive(&pid), "what has nothing to do with it was ended");
    bed.kill_agent();
    engine.clear(&bed.mark()).await;
    own.stop().await;
}
