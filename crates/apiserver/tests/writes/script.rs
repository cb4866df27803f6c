//! Golden scripts of writing objects, one property each, in `tests/writes/scripts`.
//!
//! After a change of behaviour that is meant, run with `UPDATE_GOLDENFILES=1` and read the difference.

use std::error::Error;
use std::sync::Arc;

use goldenscript::{Command, Context, Runner};
use setpoint_api::setpoint::v1 as pb;
use setpoint_apiserver::access::Caller;
use setpoint_objects::Subresource;
use setpoint_store::commit::{Commit, Op};
use setpoint_store::{Epoch, LeaseName};
use setpoint_types::LeaseId;
use tokio::runtime::Runtime;

use crate::given::Given;
use crate::kit::Node;
use crate::render;

struct Script {
    runtime: Runtime,
    node: Node,
    caller: Caller,
    /// Between `begin` and `end`.
    open: Option<pb::TransactRequest>,
}

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        let given = Given::of(command);
        self.node.local.pass_time(1);
        let name = command.name.as_str();
        if name != "end"
            && let Some(request) = &mut self.open
        {
            given.collect(name, request);
            return Ok(String::new());
        }
        Ok(match name {
            "begin" => {
                self.open = Some(pb::TransactRequest::default());
                String::new()
            }
            "end" => self.transact(&given),
            "as" => {
                self.caller = Caller { principal: given.principal(), ..Caller::default() };
                String::new()
            }
            "hold" | "vacate" => self.lease(name, &given),
            "compact" => {
                let revision = given.word(0).parse()?;
                self.node.local.apply(setpoint_store::command::Command::Compact { revision })?;
                String::new()
            }
            "get" | "history" => self.read(name, &given),
            "ledger" | "ledgers" | "reservations" => self.ledgers(name, &given),
            _ => self.write(name, &given),
        })
    }
}

impl Script {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        Self { runtime, node: Node::new(), caller: Caller::default(), open: None }
    }

    fn write(&self, name: &str, given: &Given) -> String {
        let (writer, caller) = (&self.node.writer, &self.caller);
        let update = || pb::UpdateRequest { object: Some(given.object()), options: given.options() };
        let written = |outcome| render::outcome(outcome, |it| render::write(&it));
        match name {
            "create" => {
                let request = pb::CreateRequest { object: Some(given.object()), options: given.options() };
                written(self.runtime.block_on(writer.create(request, caller)))
            }
            "update" => written(self.runtime.block_on(writer.update(update(), Subresource::Main, caller))),
            "status" => written(self.runtime.block_on(writer.update(update(), Subresource::Status, caller))),
            "apply" => {
                let request = pb::ApplyRequest {
                    object: Some(given.object()),
                    options: given.options(),
                    force: given.has("force"),
                    status: given.has("status"),
                };
                render::outcome(self.runtime.block_on(writer.apply(request, caller)), |it| {
                    let taken = it
                        .taken
                        .iter()
                        .map(|it| format!("\ntook {} from {}: {}", it.path, it.manager, it.value));
                    render::write(&it.write.clone().unwrap_or_default()) + &taken.collect::<String>()
                })
            }
            "patch" => {
                let request = pb::PatchRequest {
                    key: Some(given.key()),
                    r#type: given.patch_kind(),
                    patch: given.text("patch").into(),
                    options: given.options(),
                    uid: given.text("uid"),
                    revision: given.number("rev"),
                    status: given.has("status"),
                };
                written(self.runtime.block_on(writer.patch(request, caller)))
            }
            "delete" => {
                let request = pb::DeleteRequest {
                    key: Some(given.key()),
                    uid: given.text("uid"),
                    revision: given.number("rev"),
                    propagation: given.propagation(),
                    options: given.options(),
                };
                render::outcome(self.runtime.block_on(writer.delete(request, caller)), |it| {
                    render::deleted(&it)
                })
            }
            other => panic!("unknown command: {other}"),
        }
    }

    fn transact(&mut self, given: &Given) -> String {
        let mut request = self.open.take().expect("a transaction is open");
        request.options = given.options();
        let done = self.runtime.block_on(self.node.writer.transact(request, &self.caller));
        render::outcome(done, |it| {
            let head = format!("@{}{}", it.revision, if it.repeated { " repeated" } else { "" });
            let results = it.results.iter().filter(|it| it.object.is_some()).map(render::write);
            std::iter::once(head).chain(results).collect::<Vec<_>>().join("\n")
        })
    }

    /// `hold LEASE HOLDER`, `vacate LEASE`: what the coordination service does.
    fn lease(&self, name: &str, given: &Given) -> String {
        let lease = LeaseName::new("default", given.word(0));
        let state = self.node.writer.reader.store.lease_state(&lease).expect("readable");
        let op = match (name, &state.hold) {
            ("vacate", Some(hold)) => Op::Vacate { lease, epoch: hold.epoch },
            _ => {
                let epoch = state.epoch.next().unwrap_or(Epoch::NONE);
                let id = LeaseId(100 + epoch.0 as i64);
                Op::Hold { lease, holder: given.word(1), epoch, ttl: 10, id }
            }
        };
        let commit = Commit { ops: vec![op], ..Commit::default() };
        match self.node.local.apply(setpoint_store::command::Command::Commit(Arc::new(commit))) {
            Ok(_) => String::new(),
            Err(rejection) => rejection.to_string(),
        }
    }

    fn read(&self, name: &str, given: &Given) -> String {
        let reader = &self.node.writer.reader;
        match name {
            "get" => {
                let request = pb::GetRequest { key: Some(given.key()), ..pb::GetRequest::default() };
                let got = self.runtime.block_on(reader.get(request));
                render::outcome(got, |it| {
                    use prost::Message;
                    render::object(&it.object.unwrap_or_default().encode_to_vec())
                })
            }
            _ => {
                let request = pb::HistoryRequest { key: Some(given.key()), ..pb::HistoryRequest::default() };
                let got = self.runtime.block_on(reader.history(request));
                let lines = |it: setpoint_api::raw::v1::HistoryResponse| {
                    it.versions.iter().map(render::version).collect::<Vec<_>>().join("\n")
                };
                render::outcome(got, lines)
            }
        }
    }

    fn ledgers(&self, name: &str, given: &Given) -> String {
        let reader = &self.node.writer.reader;
        let exact = |revision| pb::ReadAt { at: Some(pb::read_at::At::Exact(revision)) };
        let at = Some(given.number("at")).filter(|at| *at > 0).map(exact);
        let (limit, after) = (given.number("limit") as u32, given.text("after"));
        let listed = |revision: u64, mut lines: Vec<String>, more: bool| {
            lines.insert(0, format!("@{revision}{}", if more { " more" } else { "" }));
            lines.join("\n")
        };
        match name {
            "ledger" => {
                let got =
                    self.runtime.block_on(reader.ledger(pb::GetLedgerRequest { ledger: given.word(0), at }));
                render::outcome(got, |it| render::ledger(&it.ledger.unwrap_or_default()))
            }
            "ledgers" => {
                let request = pb::ListLedgersRequest { prefix: given.text("prefix"), at, limit, after };
                let got = self.runtime.block_on(reader.ledgers(request));
                render::outcome(got, |it| {
                    listed(it.revision, it.ledgers.iter().map(render::ledger).collect(), it.more)
                })
            }
            _ => {
                let request = pb::ReservationsRequest { ledger: given.word(0), at, limit, after };
                let got = self.runtime.block_on(reader.reservations(request));
                let line = |it: &pb::Reservation| {
                    format!(
                        "{} has {} since {}",
                        it.owner,
                        render::amounts(&it.amounts),
                        it.modified_revision
                    )
                };
                render::outcome(got, |it| {
                    listed(it.revision, it.reservations.iter().map(line).collect(), it.more)
                })
            }
        }
    }
}

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() -> std::io::Result<()> {
                goldenscript::run(&mut Script::new(), concat!("tests/writes/scripts/", stringify!($name)))
            }
        )*
    };
}

scripts! {
    apply_conflict,
    apply_lists,
    authors,
    built_in_kinds,
    conditions,
    containers,
    create,
    custom_kinds,
    deletion,
    dry_run,
    dry_run_refusals,
    fences,
    generation,
    ledger_reads,
    ledgers,
    namespaces,
    operations,
    operations_unchanged,
    owners,
    patch,
    policies,
    policies_namespace,
    rules_limits,
    status,
    too_large,
    transact,
    transact_both_parts,
    transact_refusals,
    unknown_fields,
    unknown_modes,
}
