//! `setpoint api-resources`: the kinds a cluster serves.

use clap::Args;
use serde_json::json;

use crate::exit::Exit;
use crate::kinds::Kinds;
use crate::output::table::{Table, Widths};
use crate::output::{Format, json, yaml};
use crate::session::{Done, Session};

#[derive(Args)]
pub struct ApiResources {
    /// table, json, yaml or name
    #[arg(short = 'o', long = "output", value_name = "FORM", value_parser = Format::parse, default_value = "table")]
    output: Format,
    /// A table without its first line
    #[arg(long)]
    no_headers: bool,
}

impl ApiResources {
    pub async fn run(self, session: &mut Session) -> Done {
        let mut kinds = Kinds::new(session.client()?);
        let kinds = kinds.all().await?;
        let described = || {
            let kind = |it: &std::sync::Arc<crate::kinds::KindEntry>| {
                json!({"kind": it.name, "plural": it.plural, "shortNames": it.short_names, "namespaced": it.namespaced,
                    "custom": it.custom, "selectableFields": it.selectable_fields})
            };
            json!({"kind": "List", "items": kinds.iter().map(kind).collect::<Vec<_>>()})
        };
        let text = match &self.output {
            Format::Json => json(&described()),
            Format::Yaml => yaml(&described())?,
            Format::JsonPath(template) => template.render(&described()),
            Format::Name => kinds.iter().map(|kind| format!("{}\n", kind.plural)).collect(),
            Format::Table | Format::Wide => {
                let mut table = Table::new(["Name", "Short Names", "Namespaced", "Kind", "Custom"]);
                for kind in kinds {
                    table.row([
                        kind.plural.clone(),
                        kind.short_names.join(","),
                        kind.namespaced.to_string(),
                        kind.name.clone(),
                        kind.custom.to_string(),
                    ]);
                }
                table.render(
                    &table.widths(&Widths::default()),
                    !self.no_headers,
                    session.stage.terminal.colour,
                )
            }
        };
        session.write(&text)?;
        Ok(Exit::Done)
    }
}
