//! `setpoint top`: how much of nodes and namespaces is taken: what is reserved, out of the ledgers that the scheduler's commits are checked
//! against. What processes use in fact is not measured.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use setpoint_client::{Ledger, ListOptions, ReadAt, Scope};
use setpoint_types::quantity::Unit;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::live::{Live, bar};
use crate::output::table::{Table, Widths};
use crate::output::{Format, json as to_json, yaml};
use crate::session::{Done, Session};

#[derive(Subcommand)]
pub enum Top {
    /// How much of each node is reserved for its replicas, of what it offers
    #[command(visible_aliases = ["node", "no"])]
    Nodes(View),
    /// How much the replicas of each namespace have reserved, of what its quota allows
    #[command(visible_aliases = ["namespace", "ns"])]
    Namespaces(View),
}

#[derive(Args)]
pub struct View {
    #[command(flatten)]
    live: Live,
    /// table, json or yaml
    #[arg(short = 'o', long = "output", value_name = "FORM", value_parser = Format::parse, default_value = "table")]
    output: Format,
}

/// What is shown of every ledger, if anything of it is there.
const DIMENSIONS: [&str; 3] = ["cpu", "memory", "replicas"];
const BAR: usize = 10;

impl Top {
    pub async fn run(self, session: &mut Session) -> Done {
        let (view, prefix) = match self {
            Self::Nodes(view) => (view, "node/"),
            Self::Namespaces(view) => (view, "quota/"),
        };
        if matches!(view.output, Format::Table | Format::Wide) {
            return view.live.show(session, async |session| table(session, prefix).await).await;
        }
        let rows = rows(session, prefix).await?;
        let described = json!({"kind": "List", "items": rows.iter().map(described).collect::<Vec<_>>()});
        session.write(&match &view.output {
            Format::Yaml => yaml(&described)?,
            Format::JsonPath(template) => template.render(&described),
            _ => to_json(&described),
        })?;
        Ok(Exit::Done)
    }
}

/// A name, its ledger, and how many replicas it has.
struct Row {
    name: String,
    ledger: Ledger,
}

async fn rows(session: &mut Session, prefix: &str) -> Result<Vec<Row>, Failure> {
    let client = session.client()?;
    let (ledgers, _) = client.ledgers().list(prefix, ReadAt::Latest).await?;
    let mut rows: Vec<Row> = ledgers
        .into_iter()
        .filter_map(|ledger| {
            let name = ledger.name.strip_prefix(prefix)?.to_owned();
            // Shares of zones are parts of what is counted already.
            (!name.contains('/')).then_some(Row { name, ledger })
        })
        .collect();
    if prefix == "node/" {
        let options = ListOptions::default();
        let (replicas, _) = client.dynamic("Replica", Scope::AllNamespaces).list_all(&options).await?;
        for row in &mut rows {
            let count = replicas.iter().filter(|it| it.status["node"] == row.name.as_str()).count();
            row.ledger.used.insert("replicas", i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
    Ok(rows)
}

fn described(row: &Row) -> Value {
    let amounts = |amounts: &setpoint_types::quantity::Amounts| -> Value {
        let all = amounts
            .iter()
            .map(|(name, amount)| (name.to_owned(), Value::from(Unit::of_dimension(name).format(amount))));
        Value::Object(all.collect())
    };
    json!({"name": row.name, "reserved": amounts(&row.ledger.used), "limits": amounts(&row.ledger.limits)})
}

async fn table(session: &mut Session, prefix: &str) -> Result<String, Failure> {
    let rows = rows(session, prefix).await?;
    if rows.is_empty() {
        return Ok("Nothing is reserved, and there is nothing to reserve from.\n".to_owned());
    }
    let live = session.stage.terminal.out;
    // A share of what has no limit is nothing to show.
    let shares = DIMENSIONS.map(|dimension| rows.iter().any(|row| limit(&row.ledger, dimension).is_some()));
    let mut headers = vec!["Name".to_owned()];
    for (dimension, has_share) in DIMENSIONS.iter().zip(shares) {
        headers.push((*dimension).to_owned());
        headers.extend(has_share.then(|| format!("{dimension}%")));
    }
    headers.push("Others".to_owned());
    let mut table = Table::new(&headers);
    for row in &rows {
        let mut cells = vec![row.name.clone()];
        for (dimension, has_share) in DIMENSIONS.iter().zip(shares) {
            let [amount, share] = cell(&row.ledger, dimension, live);
            cells.push(amount);
            cells.extend(has_share.then_some(share));
        }
        let others = row.ledger.limits.iter().filter(|(name, _)| !DIMENSIONS.contains(name) && *name != "*");
        let other = |(name, limit): (&str, i64)| {
            let used = row.ledger.used.get(name).unwrap_or(0);
            format!("{name} {}/{}", shown(name, used), shown(name, limit))
        };
        cells.push(others.map(other).collect::<Vec<_>>().join(", "));
        table.row(cells);
    }
    Ok(table.render(&table.widths(&Widths::default()), true, session.stage.terminal.colour))
}

/// What is reserved of what there is, and the share.
fn cell(ledger: &Ledger, dimension: &str, live: bool) -> [String; 2] {
    let used = ledger.used.get(dimension).unwrap_or(0);
    match limit(ledger, dimension) {
        Some(limit) => {
            let percent = used.saturating_mul(100) / limit;
            let whole = |amount: i64| u64::try_from(amount).unwrap_or(0);
            let share = match live {
                true => format!("{} {percent}%", bar(whole(used), whole(limit), BAR)),
                false => format!("{percent}%"),
            };
            [format!("{}/{}", shown(dimension, used), shown(dimension, limit)), share]
        }
        None => [shown(dimension, used), String::new()],
    }
}

fn limit(ledger: &Ledger, dimension: &str) -> Option<i64> {
    let limit = ledger.limits.get(dimension).or_else(|| ledger.limits.get("*"));
    limit.filter(|limit| (1..i64::MAX).contains(limit))
}

/// For people: bytes of which nobody counts the last ones are rounded.
fn shown(dimension: &str, amount: i64) -> String {
    let exact = Unit::of_dimension(dimension).format(amount);
    let unit = ["Ti", "Gi", "Mi"].iter().zip([40, 30, 20]).find(|(_, power)| amount >= 1 << power);
    match unit {
        Some((unit, power)) if Unit::of_dimension(dimension) == Unit::Byte && exact.len() > 6 => {
            format!("{:.1}{unit}", amount as f64 / (1_i64 << power) as f64)
        }
        _ => exact,
    }
}
