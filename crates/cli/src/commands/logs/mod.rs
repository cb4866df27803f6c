//! `setpoint logs`: what replicas write, by way of any node of the cluster ([ADR 19](../../../../../docs/adr/0019-sessions.md)).
//!
//! - [`lines`]: one replica's log, line by line

mod lines;

use std::time::Duration;

use clap::Args;
use futures::StreamExt as _;
use futures::stream::SelectAll;
use lines::lines;
use setpoint_client::{Client, ListOptions, LogQuery};
use setpoint_types::Timestamp;
use setpoint_types::object::Object;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::kinds::Kinds;
use crate::session::{Done, Session};
use crate::targets;

#[derive(Args)]
pub struct Logs {
    /// A replica, or workload/NAME for all of its replicas
    #[arg(required = true, value_name = "REPLICA")]
    targets: Vec<String>,
    /// Go on with what is written, until the replicas have ended
    #[arg(short = 'f', long)]
    follow: bool,
    /// Only the last so many lines of each replica
    #[arg(long, value_name = "LINES")]
    tail: Option<u64>,
    /// Only what was written in so long: 10m
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    since: Option<Duration>,
    /// With the time before each line, in milliseconds since 1970
    #[arg(long)]
    timestamps: bool,
    /// With the replica before each line; so it is with several anyway
    #[arg(long)]
    prefix: bool,
}

/// Replicas whose logs are read at a time.
const REPLICAS_MAX: usize = 50;

impl Logs {
    pub async fn run(self, session: &mut Session) -> Done {
        let client = session.client()?;
        let replicas = self.replicas(&client).await?;
        let since = |since: Duration| {
            let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
            Timestamp(session.now().0.saturating_sub(millis))
        };
        let query = LogQuery {
            follow: self.follow,
            tail: self.tail,
            since: self.since.map(since),
            timestamps: self.timestamps,
        };
        let mut streams = SelectAll::new();
        let several = replicas.len() > 1 || self.prefix;
        let mut failed: Option<Failure> = None;
        for replica in &replicas {
            let name = &replica.metadata.name;
            match client.sessions().logs(name, &query).await.map_err(Failure::from) {
                Ok(stream) => streams.push(lines(name.clone(), stream)),
                Err(failure) if replicas.len() > 1 => {
                    session.note(format!("error: {failure}"));
                    failed.get_or_insert(Failure::said(failure.exit()));
                }
                Err(failure) => return Err(failure),
            }
        }
        while let Some((name, line)) = streams.next().await {
            match (line, several) {
                (Ok(line), true) => session.say(format!("[{name}] {line}"))?,
                (Ok(line), false) => session.say(line)?,
                (Err(failure), _) => {
                    session.note(format!("error: {failure}"));
                    failed.get_or_insert(Failure::said(failure.exit()));
                }
            }
            if self.follow {
                session.flush()?;
            }
        }
        failed.map_or(Ok(Exit::Done), Err)
    }

    async fn replicas(&self, client: &Client) -> Result<Vec<Object>, Failure> {
        // A word by itself is a replica: it is what logs are of.
        let words: Vec<String> = match self.targets.as_slice() {
            [only] if !only.contains('/') => vec![format!("replica/{only}")],
            words => words.to_vec(),
        };
        let mut replicas = Vec::new();
        for target in targets::parse_named(&words, &mut Kinds::new(client.clone())).await? {
            let name = target.name.as_deref().unwrap_or_default();
            match target.kind.name.as_str() {
                "Replica" => replicas.push(target.api(client, &client.home()).get(name).await?),
                "Workload" => {
                    target.api(client, &client.home()).get(name).await?;
                    let options =
                        ListOptions { fields: format!("spec.workload={name}"), ..ListOptions::default() };
                    let api = client.dynamic("Replica", client.home());
                    let (mut found, _) = api.list_all(&options).await?;
                    found.retain(|replica| {
                        replica.status["node"].as_str().is_some_and(|node| !node.is_empty())
                    });
                    if found.is_empty() {
                        let text = format!(
                            "no replica of workload/{name} has a node yet; `setpoint describe workload/{name}` says why"
                        );
                        return Err(Failure::new(Exit::NotFound, text));
                    }
                    replicas.extend(found);
                }
                kind => {
                    return Err(Failure::usage(format!(
                        "a {kind} writes nothing; name a replica or a workload"
                    )));
                }
            }
        }
        if replicas.len() > REPLICAS_MAX {
            let text = format!(
                "these are {} replicas, the most is {REPLICAS_MAX}; name some of them",
                replicas.len()
            );
            return Err(Failure::usage(text));
        }
        Ok(replicas)
    }
}
