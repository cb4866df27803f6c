//! Logs of replicas and commands in them, with an agent that only pretends: what is written to which stream, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_client::{AcquireOptions, Client, HostLine, Said, Served, Wanted};
use setpoint_testkit::World;
use setpoint_types::Epoch;

use crate::script::words;
use crate::theatre::{Played, Theatre, act};

/// What an agent was asked for.
type Asked = Arc<Mutex<Vec<Wanted>>>;

/// Attaches as the agent of a node, and serves whatever is asked for.
async fn agent(client: Client, node: &str) -> Asked {
    let lease = AcquireOptions {
        namespace: "setpoint-system".into(),
        lease: format!("node-{node}"),
        holder: node.into(),
        ttl: Some(Duration::from_secs(3600)),
        ..AcquireOptions::default()
    };
    let epoch: Epoch = client.leases().acquire(&lease).await.expect("the lease").fence.epoch;
    let asked = Asked::default();
    for line in client.sessions().lines() {
        let mut attached = line.attach(node, epoch).await.expect("attached");
        let kept = asked.clone();
        tokio::spawn(async move {
            while let Ok(word) = attached.next().await {
                tokio::spawn(serve(line.clone(), word, kept.clone()));
            }
        });
    }
    asked
}

async fn serve(line: HostLine, word: String, asked: Asked) {
    let Served { wanted, mut input, output } = line.serve(word).await.expect("a session");
    asked.lock().push(wanted.clone());
    // Whoever asked may have gone: then the session is over.
    match wanted {
        Wanted::Logs { replica, .. } if replica == "gone" => {
            let _ = output.not_found("no replica default/gone is, or was, here".into(), input).await;
        }
        Wanted::Logs { replica, .. } => {
            let _ = output.ready().await;
            let _ = output.output("one\ntw".into()).await;
            let _ = output.output("o\nthree".into()).await;
            // An agent that is killed says nothing at the end.
            if replica != "cut" {
                let _ = output.end(0, input).await;
            }
        }
        Wanted::Exec { .. } => {
            let _ = output.ready().await;
            let Some(Said::Run { command, interactive }) = input.next().await else { return };
            let _ = output.errors(format!("interactive: {interactive}\n").into()).await;
            if command[0] == "cat" {
                while let Some(Said::Input(bytes)) = input.next().await {
                    let _ = output.output(bytes).await;
                }
            }
            let _ = output.output(format!("{}\n", command.join(" ")).into()).await;
            let _ = output.end(command.len() as u32 - 1, input).await;
        }
    }
}

async fn world(guarded: bool) -> (Theatre, Asked) {
    let theatre = Theatre::new(if guarded { World::guarded() } else { World::new() });
    let connector = theatre.world.connector_as("admin", &["setpoint:admins"]);
    let settings = setpoint_client::Settings::new(vec!["world".parse().expect("a host")]);
    let client =
        Client::with_seams(settings, &connector, setpoint_client::Entropy::seeded(3)).expect("a client");
    act(&client, &words("create '{\"kind\":\"Namespace\",\"metadata\":{\"name\":\"setpoint-system\"}}'"))
        .await
        .expect("made");
    let replica = |name: &str, node: &str| {
        format!(
            "create '{{\"kind\":\"Replica\",\"metadata\":{{\"namespace\":\"default\",\"name\":\"{name}\"}},\"spec\":{{\"workload\":\"web\",\"template\":{{\"image\":\"x\"}}}},\"status\":{{\"node\":\"{node}\"}}}}'"
        )
    };
    for (name, node) in
        [("a", "here"), ("b", "here"), ("gone", "here"), ("cut", "here"), ("far", "away"), ("waits", "")]
    {
        act(&client, &words(&replica(name, node))).await.expect("made");
    }
    let workload = "create '{\"kind\":\"Workload\",\"metadata\":{\"namespace\":\"default\",\"name\":\"web\"},\"spec\":{\"template\":{\"image\":\"x\"}}}'";
    act(&client, &words(workload)).await.expect("made");
    let asked = agent(client, "here").await;
    (theatre, asked)
}

async fn play(theatre: &Theatre, line: &str, input: &str) -> Played {
    theatre.play(&words(&format!("setpoint {line}")), input, Duration::from_secs(60)).await
}

/// Each fails like this, and says so on standard error alone.
async fn check_failures(theatre: &Theatre, cases: &[(&str, u8, &str)]) {
    for (line, exit, says) in cases {
        let failed = play(theatre, line, "").await;
        assert_eq!(failed.exit, Some(*exit), "{line}: {}", failed.err);
        assert!(failed.err.contains(says) && failed.out.is_empty(), "{line}: {}{}", failed.out, failed.err);
    }
}

#[tokio::test(start_paused = true)]
async fn logs_come_by_way_of_the_cluster() {
    let (theatre, asked) = world(false).await;
    let one = play(&theatre, "logs a --tail 3 -f --since 1m", "").await;
    assert_eq!((one.out.as_str(), one.exit), ("one\ntwo\nthree\n", Some(0)), "{}", one.err);
    let Some(Wanted::Logs { namespace, replica, query, .. }) = asked.lock().pop() else {
        panic!("a question")
    };
    assert_eq!((namespace.as_str(), replica.as_str()), ("default", "a"));
    assert_eq!((query.follow, query.tail, query.timestamps), (true, Some(3), false));
    assert_eq!(query.since.map(|since| since.0 / 1000), Some(theatre.world.now().0 / 1000 - 60));
    let two = play(&theatre, "logs replica/a replica/b", "").await;
    assert_eq!(two.out.lines().filter(|line| line.starts_with("[a] ")).count(), 3, "{}", two.out);
    assert_eq!(two.out.lines().filter(|line| line.starts_with("[b] ")).count(), 3, "{}", two.out);
    check_failures(
        &theatre,
        &[
            ("logs gone", 3, "error: node/here: no replica default/gone is, or was, here"),
            ("logs far", 6, "the agent of node/away is not attached to this node of the cluster"),
            ("logs waits", 3, "has no node yet"),
            ("logs nobody", 3, "nobody"),
            ("logs node/here", 2, "writes nothing"),
        ],
    )
    .await;
    let cut = play(&theatre, "logs cut", "").await;
    assert_eq!((cut.out.as_str(), cut.exit), ("one\ntwo\n", Some(6)), "{}", cut.err);
    assert!(cut.err.contains("the log was cut") && cut.err.contains("--since"), "{}", cut.err);
    // Of a workload, what can be had is shown, and what cannot is said.
    let all = play(&theatre, "logs workload/web", "").await;
    assert_eq!((all.out.lines().count(), all.err.lines().count()), (8, 3), "{}{}", all.out, all.err);
}

#[tokio::test(start_paused = true)]
async fn a_command_has_its_input_its_two_outputs_and_its_code() {
    let (theatre, _asked) = world(false).await;
    let done = play(&theatre, "exec a -- true", "nobody reads this").await;
    assert_eq!(
        (done.out.as_str(), done.err.as_str(), done.exit),
        ("true\n", "interactive: false\n", Some(0))
    );
    let failed = play(&theatre, "exec replica/a -- sh -c 'exit 2'", "").await;
    assert_eq!((failed.out.as_str(), failed.exit), ("sh -c exit 2\n", Some(2)), "{}", failed.err);
    let fed = play(&theatre, "exec -i a -- cat", "some\ninput").await;
    assert_eq!((fed.out.as_str(), fed.exit), ("some\ninputcat\n", Some(0)), "{}", fed.err);
    assert_eq!(fed.err, "interactive: true\n");
    check_failures(
        &theatre,
        &[
            ("exec a", 2, "<COMMAND>..."),
            ("exec a ls", 2, "ls"),
            ("exec workload/web -- ls", 2, "commands are run in a replica, not in a workload"),
            ("exec far -- ls", 6, "the agent of node/away is not attached"),
            ("exec waits -- ls", 3, "has no node yet"),
            ("exec nobody -- ls", 3, "there is no Replica nobody in namespace default"),
            ("exec a -- ''", 2, "must name a program"),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn roles_decide_who_reads_logs_and_who_runs_commands() {
    let (mut theatre, asked) = world(true).await;
    let admin = ("admin".to_owned(), vec!["setpoint:admins".to_owned()]);
    theatre.user = admin.clone();
    for (name, role) in [("vera", "setpoint-viewer"), ("ed", "setpoint-editor"), ("root", "setpoint-admin")] {
        let binding = format!(
            "{{kind: RoleBinding, metadata: {{name: {name}}}, spec: {{role: {role}, subjects: [\"user:{name}\"]}}}}"
        );
        let applied = theatre.play(&words("setpoint apply -f -"), &binding, Duration::from_secs(60)).await;
        assert_eq!(applied.exit, Some(0), "{}", applied.err);
    }
    // Everything by a star is not this.
    let own = "kind: Role\nmetadata: {name: all}\nspec: {rules: [{verbs: ['*'], kinds: ['*', 'Replica/*']}]}\n---\n\
               kind: RoleBinding\nmetadata: {name: all}\nspec: {role: all, subjects: ['user:star']}\n";
    let applied = theatre.play(&words("setpoint apply -f -"), own, Duration::from_secs(60)).await;
    assert_eq!(applied.exit, Some(0), "{}", applied.err);
    for (name, reads, runs) in [
        ("nobody", false, false),
        ("vera", true, false),
        ("ed", true, false),
        ("star", true, false),
        ("root", true, true),
    ] {
        theatre.user = (name.to_owned(), Vec::new());
        asked.lock().clear();
        let logs = play(&theatre, "logs a", "").await;
        assert_eq!(logs.exit, Some(if reads { 0 } else { 5 }), "{name}: {}", logs.err);
        let exec = play(&theatre, "exec a -- true", "").await;
        assert_eq!(exec.exit, Some(if runs { 0 } else { 5 }), "{name}: {}", exec.err);
        assert!(
            runs || exec
                .err
                .contains(&format!("user:{name} may not create Replica/exec a in namespace default"))
        );
        if reads {
            let can = play(&theatre, "auth can-i create replicas/exec a", "").await;
            assert_eq!(can.exit, Some(u8::from(!runs)), "{name}: {}", can.out);
        }
        assert_eq!(asked.lock().len(), usize::from(reads) + usize::from(runs), "{name}");
    }
    // Nobody but who may write a node's status speaks for it.
    let stranger = theatre.world.client_as("vera");
    let line = stranger.sessions().lines().remove(0);
    let refused = line.attach("here", Epoch(1)).await.err().expect("refused").to_string();
    assert!(refused.contains("user:vera may not update Node/status here"), "{refused}");
    let refused = line.serve("some word".into()).await.err().expect("refused").to_string();
    assert!(refused.contains("user:vera may not update Node/status"), "{refused}");
    let root = theatre.world.client_as("root").sessions().lines().remove(0);
    let refused = root.attach("here", Epoch(7)).await.err().expect("refused").to_string();
    assert!(refused.contains("is not held at epoch 7"), "{refused}");
}
