//! `setpoint events`: what happened, oldest first.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;
use setpoint_client::{Api, Dynamic, ReadAt, WatchEvent, WatchOptions};
use setpoint_types::Revision;
use setpoint_types::kinds::{EventSpec, EventStatus};
use setpoint_types::object::Object;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::kinds::Kinds;
use crate::output::age::age;
use crate::output::table::{Table, Widths};
use crate::output::{Format, document, json as to_json, yaml};
use crate::session::{Done, Session};
use crate::targets::{self, Selection};

#[derive(Args)]
pub struct Events {
    /// Only about this object: KIND/NAME
    #[arg(long = "for", value_name = "KIND/NAME")]
    about: Option<String>,
    /// Only of these types
    #[arg(long, value_enum, value_delimiter = ',')]
    types: Vec<Type>,
    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Go on with what happens
    #[arg(short = 'w', long)]
    watch: bool,
    /// table, json, yaml, name or jsonpath=EXPRESSION
    #[arg(short = 'o', long = "output", value_name = "FORM", value_parser = Format::parse, default_value = "table")]
    output: Format,
    /// A table without its first line
    #[arg(long)]
    no_headers: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Type {
    Normal,
    Warning,
}

const AGAIN_AFTER: Duration = Duration::from_secs(1);

impl Events {
    pub async fn run(self, session: &mut Session) -> Done {
        let client = session.client()?;
        let mut fields = Vec::new();
        if let Some(about) = &self.about {
            let target =
                targets::parse_one(std::slice::from_ref(about), &mut Kinds::new(client.clone())).await?;
            fields.push(format!("spec.object.kind={}", target.kind.name));
            fields.push(format!("spec.object.name={}", target.name.unwrap_or_default()));
        }
        let selection = Selection {
            all_namespaces: self.all_namespaces,
            selector: String::new(),
            field_selector: fields.join(","),
        };
        let api = client.dynamic("Event", selection.scope(&client));
        let (mut found, after) = api.list_all(&selection.list(ReadAt::Latest)).await?;
        found.retain(|object| self.is_wanted(object));
        found.sort_by_key(|object| status(object).last);
        let mut widths = Widths::default();
        if found.is_empty() && !self.watch {
            session.note("There are no events.");
        } else {
            self.show(session, &found, &mut widths, !self.no_headers)?;
        }
        session.flush()?;
        if self.watch {
            return self.follow(session, &api, &selection.field_selector, after, widths).await;
        }
        Ok(Exit::Done)
    }

    /// What happens after a revision, until nobody reads any more.
    async fn follow(
        &self,
        session: &mut Session,
        api: &Api<Dynamic>,
        fields: &str,
        mut after: Revision,
        mut widths: Widths,
    ) -> Done {
        loop {
            let options =
                WatchOptions { fields: fields.to_owned(), after: Some(after), ..WatchOptions::default() };
            let mut stream = api.watch(&options).await?;
            loop {
                let events = match stream.next().await {
                    Ok(Some(events)) => events,
                    Ok(None) => break,
                    Err(error) if error.is_transient() => {
                        tokio::time::sleep(AGAIN_AFTER).await;
                        break;
                    }
                    Err(error) => return Err(error.into()),
                };
                for event in events {
                    match event {
                        WatchEvent::Added { object, revision, .. }
                        | WatchEvent::Modified { object, revision, .. } => {
                            after = revision.max(after);
                            if self.is_wanted(&object) {
                                self.show(session, &[object], &mut widths, false)?;
                            }
                        }
                        WatchEvent::Deleted { revision, .. } | WatchEvent::Bookmark { revision, .. } => {
                            after = revision.max(after);
                        }
                    }
                }
                session.flush()?;
            }
        }
    }

    fn is_wanted(&self, object: &Object) -> bool {
        let kind = object.spec.get("type").and_then(|it| it.as_str()).unwrap_or("Normal");
        self.types.is_empty() || self.types.iter().any(|it| format!("{it:?}") == kind)
    }

    fn show(
        &self,
        session: &mut Session,
        objects: &[Object],
        widths: &mut Widths,
        headers: bool,
    ) -> Result<(), Failure> {
        let whole = || {
            let items: Vec<_> = objects.iter().map(|object| document(object, false)).collect();
            if headers {
                json!({"kind": "List", "items": items})
            } else {
                items.into_iter().next().unwrap_or_default()
            }
        };
        let text = match &self.output {
            Format::Json => to_json(&whole()),
            Format::Yaml => yaml(&whole())?,
            Format::JsonPath(template) => template.render(&whole()),
            Format::Name => objects.iter().map(|it| format!("event/{}\n", it.metadata.name)).collect(),
            Format::Table | Format::Wide => {
                let table = self.table(objects, session.now());
                *widths = table.widths(widths);
                table.render(widths, headers, session.stage.terminal.colour)
            }
        };
        session.write(&text)
    }

    fn table(&self, objects: &[Object], now: setpoint_types::Timestamp) -> Table {
        let mut headers = vec!["Last Seen", "Type", "Reason", "Object", "Count", "Message"];
        if self.all_namespaces {
            headers.insert(0, "Namespace");
        }
        let mut table = Table::new(headers);
        for object in objects {
            let spec: EventSpec = object.spec().unwrap_or_default();
            let status = status(object);
            let mut cells = vec![
                age(status.last, now),
                format!("{:?}", spec.kind),
                spec.reason,
                format!("{}/{}", spec.object.kind.to_lowercase(), spec.object.name),
                status.count.to_string(),
                spec.message,
            ];
            if self.all_namespaces {
                cells.insert(0, object.metadata.namespace.clone());
            }
            table.row(cells);
        }
        table
    }
}

fn status(object: &Object) -> EventStatus {
    object.status().unwrap_or_default()
}
