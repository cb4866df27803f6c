//! `setpoint cluster status`, `members`, `move-leader`: the nodes, how each is, and which one leads.

use clap::Args;
use serde_json::json;
use setpoint_client::{Endpoint, Member, MemberStatus};

use super::client_of;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::near;
use crate::output::table::{Table, Widths};
use crate::output::{Format, json as to_json, yaml};
use crate::session::{Done, Session};

#[derive(Args)]
pub struct Status {
    /// table, json or yaml
    #[arg(short = 'o', long = "output", value_name = "FORM", value_parser = Format::parse, default_value = "table")]
    output: Format,
}

#[derive(Args)]
pub struct Members {
    /// table, json or yaml
    #[arg(short = 'o', long = "output", value_name = "FORM", value_parser = Format::parse, default_value = "table")]
    output: Format,
}

#[derive(Args)]
pub struct MoveLeader {
    /// The node that is to lead, by its name
    node: String,
}

/// A member, and how it is: or why nobody knows.
type Found = (Member, Result<MemberStatus, String>);

async fn ask_all(session: &mut Session) -> Result<Vec<Found>, Failure> {
    let members = session.client()?.upkeep().members().await?;
    let settings = session.settings()?;
    let mut asked = Vec::new();
    for member in members {
        let endpoint = member.client_urls.first().and_then(|url| url.parse::<Endpoint>().ok());
        let client = endpoint.map(|endpoint| client_of(session, &settings, endpoint)).transpose()?;
        asked.push(async move {
            let status = match client {
                Some(client) => {
                    client.upkeep().status().await.map_err(|error| Failure::from(error).first_sentence())
                }
                None => Err("it has never started, or says nowhere how it is reached".to_owned()),
            };
            (member, status)
        });
    }
    Ok(futures::future::join_all(asked).await)
}

fn role(found: &Found) -> &'static str {
    match found {
        (_, Ok(status)) if status.leader == Some(status.id) => "leader",
        (member, _) if member.learner => "learner",
        _ => "voter",
    }
}

fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit =
        UNITS.iter().enumerate().rfind(|(power, _)| bytes >= 1 << (10 * power)).map_or(0, |(power, _)| power);
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{:.1} {}", bytes as f64 / (1u64 << (10 * unit)) as f64, UNITS[unit]),
    }
}

impl Status {
    pub async fn run(self, session: &mut Session) -> Done {
        let all = ask_all(session).await?;
        let answered = all.iter().filter(|(_, status)| status.is_ok()).count();
        let voters = all.iter().filter(|(member, _)| !member.learner).count();
        let described = || {
            let one = |found: &Found| {
                let (member, status) = found;
                let status = status.as_ref();
                json!({
                    "name": member.name, "id": format!("{:x}", member.id.0), "endpoints": member.client_urls,
                    "role": role(found), "reachable": status.is_ok(), "problem": status.err(),
                    "term": status.map(|it| it.term).ok(), "applied": status.map(|it| it.applied).ok(),
                    "committed": status.map(|it| it.committed).ok(), "revision": status.map(|it| it.revision.get()).ok(),
                    "storedBytes": status.map(|it| it.stored_bytes).ok(), "liveBytes": status.map(|it| it.live_bytes).ok(),
                    "errors": status.map(|it| it.errors.clone()).unwrap_or_default(),
                })
            };
            json!({"members": all.iter().map(one).collect::<Vec<_>>()})
        };
        match &self.output {
            Format::Json => session.write(&to_json(&described()))?,
            Format::Yaml => session.write(&yaml(&described())?)?,
            Format::JsonPath(template) => session.say(template.render(&described()))?,
            _ => {
                let table = table(&all);
                let text =
                    table.render(&table.widths(&Widths::default()), true, session.stage.terminal.colour);
                session.write(&text)?;
            }
        }
        let ill =
            all.iter().filter_map(|(_, status)| status.as_ref().ok()).any(|status| !status.errors.is_empty());
        if answered * 2 <= voters {
            session.note(format!(
                "only {answered} of {voters} nodes answer: nothing can be written until more than half do"
            ));
        }
        Ok(if ill || answered < all.len() { Exit::No } else { Exit::Done })
    }
}

fn table(all: &[Found]) -> Table {
    let mut table =
        Table::new(["Name", "Endpoint", "Role", "Term", "Applied", "Revision", "Stored", "Live", "Problem"]);
    for found in all {
        let (member, status) = found;
        let endpoint = member.client_urls.first().cloned().unwrap_or_default();
        let head = [member.name.clone(), endpoint, role(found).to_owned()];
        let rest = match status {
            Ok(status) => [
                status.term.to_string(),
                status.applied.to_string(),
                status.revision.to_string(),
                size(status.stored_bytes),
                size(status.live_bytes),
                status.errors.join("; "),
            ],
            Err(problem) => {
                let none = String::new;
                [none(), none(), none(), none(), none(), problem.clone()]
            }
        };
        table.row(head.into_iter().chain(rest));
    }
    table
}

impl Members {
    pub async fn run(self, session: &mut Session) -> Done {
        let members = session.client()?.upkeep().members().await?;
        let described = || {
            let one = |it: &Member| json!({"name": it.name, "id": format!("{:x}", it.id.0), "peerUrls": it.peer_urls, "clientUrls": it.client_urls, "learner": it.learner});
            json!({"members": members.iter().map(one).collect::<Vec<_>>()})
        };
        let text = match &self.output {
            Format::Json => to_json(&described()),
            Format::Yaml => yaml(&described())?,
            Format::JsonPath(template) => template.render(&described()),
            Format::Name => members.iter().map(|it| format!("{}\n", it.name)).collect(),
            _ => {
                let mut table = Table::new(["Name", "Id", "Peers", "Clients", "Votes"]);
                for it in &members {
                    let votes = if it.learner { "no" } else { "yes" };
                    let id = format!("{:x}", it.id.0);
                    table.row([&it.name, &id, &it.peer_urls.join(","), &it.client_urls.join(","), votes]);
                }
                table.plain()
            }
        };
        session.write(&text)?;
        Ok(Exit::Done)
    }
}

impl MoveLeader {
    pub async fn run(self, session: &mut Session) -> Done {
        let all = ask_all(session).await?;
        let Some((target, _)) = all.iter().find(|(member, _)| member.name == self.node) else {
            let names: Vec<&str> = all.iter().map(|(member, _)| member.name.as_str()).collect();
            let hint = near::hint(&self.node, names.iter().copied());
            let text =
                format!("there is no node {:?}{hint}; `setpoint cluster members` lists them", self.node);
            return Err(Failure::new(Exit::NotFound, text.replace("?; ", "? ")));
        };
        if target.learner {
            let text = format!("{} has no vote, and cannot lead; it is still catching up", target.name);
            return Err(Failure::new(Exit::Conflict, text));
        }
        let leader = all.iter().find(|found| role(found) == "leader");
        let Some((leader, _)) = leader else {
            return Err(Failure::new(
                Exit::Unreachable,
                "there is no leader at the moment; see `setpoint cluster status`",
            ));
        };
        if leader.id == target.id {
            session.say(format!("{} leads already", target.name))?;
            return Ok(Exit::Done);
        }
        let endpoint = leader.client_urls.first().and_then(|url| url.parse().ok());
        let endpoint = endpoint
            .ok_or_else(|| Failure::failed(format!("{} says nowhere how it is reached", leader.name)))?;
        let settings = session.settings()?;
        client_of(session, &settings, endpoint)?.upkeep().move_leader(target.id).await?;
        session.say(format!("{} leads, after {}", target.name, leader.name))?;
        Ok(Exit::Done)
    }
}
