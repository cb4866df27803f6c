//! Golden scripts of who may do what, one property each, in `tests/writes/access`: requests through the services, by
//! whoever `as` says. A node begins with access control on, and nobody has a role.
//!
//! Of what is allowed only the revision is printed; what is denied is printed whole. `audit` prints what the audit log
//! has got since it was last asked. After a change of behaviour that is meant, run with `UPDATE_GOLDENFILES=1` and read the
//! difference.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use goldenscript::{Command, Context, Runner};
use prost::Message;
use setpoint_access::{
    AuditEntry, AuditLog, AuditOptions, AuditResult, Authorizer, Policy, Principal, Verb, builtin_roles,
};
use setpoint_api::raw::v1::objects_server::Objects;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::coordination_server::Coordination;
use setpoint_api::setpoint::v1::ledgers_server::Ledgers;
use setpoint_api::status::error_of;
use setpoint_apiserver::access::Gate;
use setpoint_apiserver::coordination::{CoordinationLimits, CoordinationService, Coordinator};
use setpoint_apiserver::ledgers::LedgersService;
use setpoint_apiserver::objects::ObjectsService;
use setpoint_types::Timestamp;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::given::Given;
use crate::kit::Node;

struct Script {
    runtime: Runtime,
    node: Node,
    objects: ObjectsService,
    coordination: CoordinationService,
    ledgers: LedgersService,
    principal: Principal,
    open: Option<pb::TransactRequest>,
    followed: Option<<ObjectsService as Objects>::WatchStream>,
    audit: AuditLog,
    audit_file: PathBuf,
    _folder: tempfile::TempDir,
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
        match name {
            "begin" => self.open = Some(pb::TransactRequest::default()),
            "as" => self.principal = given.principal(),
            "follow" => return Ok(self.follow(&given)),
            "next" => return Ok(self.next()),
            "audit" => return Ok(self.audited()),
            _ => return Ok(self.ask(name, &given)),
        }
        Ok(String::new())
    }
}

impl Script {
    fn new() -> Self {
        Self::with(Authorizer::on(Policy::compile(&builtin_roles(), &[])))
    }

    fn with(authorizer: Authorizer) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let folder = tempfile::tempdir().expect("a folder");
        let audit_file = folder.path().join("audit.log");
        let (audit, _) = AuditLog::open(&AuditOptions::new(&audit_file)).expect("a new file");
        let authorizer = Arc::new(authorizer);
        let node = Node::with(authorizer.clone());
        let gate = Gate::new(authorizer, None, Some(audit.clone()), node.local.clone());
        let (reader, writer) = (node.writer.reader.clone(), node.writer.clone());
        let objects = ObjectsService { reader, writer, gate: gate.clone() };
        let ledgers = LedgersService { reader: node.writer.reader.clone(), gate: gate.clone() };
        let (limits, stopping) = (CoordinationLimits::default(), CancellationToken::new());
        let coordinator = Coordinator::new(node.writer.clone(), node.local.clone(), limits, stopping);
        let coordination = CoordinationService { coordinator, gate };
        Self {
            runtime,
            node,
            objects,
            coordination,
            ledgers,
            principal: Principal::anonymous(),
            open: None,
            followed: None,
            audit,
            audit_file,
            _folder: folder,
        }
    }

    fn by<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.extensions_mut().insert(self.principal.clone());
        request
    }

    fn ask(&mut self, name: &str, given: &Given) -> String {
        match name {
            "get" | "list" | "watch" | "history" | "kinds" | "holders" => self.read(name, given),
            "ledger" | "ledgers" | "reservations" => self.ledgers(name, given.word(0)),
            "acquire" => {
                let (lease, holder) = (given.word(0), given.word(1));
                let request = pb::AcquireRequest { lease, holder, ttl_seconds: 10, ..Default::default() };
                said(self.runtime.block_on(self.coordination.acquire(self.by(request))), |it| it.revision)
            }
            "release" => {
                let (lease, holder) = (given.word(0), given.word(1));
                let request = pb::ReleaseRequest { lease, holder, epoch: 1, ..Default::default() };
                said(self.runtime.block_on(self.coordination.release(self.by(request))), |it| it.revision)
            }
            "end" => {
                let mut request = self.open.take().expect("a transaction is open");
                request.options = given.options();
                said(self.runtime.block_on(self.objects.transact(self.by(request))), |it| it.revision)
            }
            _ => self.write(name, given),
        }
    }

    fn read(&self, name: &str, given: &Given) -> String {
        let (kind, namespace) = (given.word(0), given.text("ns"));
        let key = Some(given.key());
        match name {
            "get" => {
                let request = pb::GetRequest { key, ..Default::default() };
                said(self.runtime.block_on(self.objects.get(self.by(request))), |_| "seen")
            }
            "history" => {
                let request = pb::HistoryRequest { key, ..Default::default() };
                said(self.runtime.block_on(self.objects.history(self.by(request))), |_| "seen")
            }
            "list" => {
                let request = pb::ListRequest { kind, namespace, ..Default::default() };
                said(self.runtime.block_on(self.objects.list(self.by(request))), |it| it.objects.len())
            }
            "watch" => {
                let request = pb::WatchRequest { kind, namespace, ..Default::default() };
                said(self.runtime.block_on(self.objects.watch(self.by(request))), |_| "watching")
            }
            "holders" => {
                let request = pb::HoldersRequest { namespace };
                let answer = self.runtime.block_on(self.coordination.holders(self.by(request)));
                said(answer, |it| it.holders.len())
            }
            _ => {
                let answer = self.runtime.block_on(self.objects.kinds(self.by(pb::KindsRequest { kind })));
                said(answer, |it| it.kinds.iter().map(|it| it.kind.clone()).collect::<Vec<_>>().join(" "))
            }
        }
    }

    fn ledgers(&self, name: &str, ledger: String) -> String {
        let service = &self.ledgers;
        match name {
            "ledger" => {
                let request = pb::GetLedgerRequest { ledger, ..Default::default() };
                said(self.runtime.block_on(service.get(self.by(request))), |_| "seen")
            }
            "ledgers" => {
                let request = pb::ListLedgersRequest::default();
                said(self.runtime.block_on(service.list(self.by(request))), |it| it.ledgers.len())
            }
            _ => {
                let request = pb::ReservationsRequest { ledger, ..Default::default() };
                said(self.runtime.block_on(service.reservations(self.by(request))), |it| {
                    it.reservations.len()
                })
            }
        }
    }

    fn write(&self, name: &str, given: &Given) -> String {
        let (object, options, key) = (Some(given.object()), given.options(), Some(given.key()));
        let status = given.has("status");
        let wrote = |answer| said(answer, |it: setpoint_api::raw::v1::WriteResponse| it.revision);
        match name {
            "create" => {
                let request = pb::CreateRequest { object, options };
                wrote(self.runtime.block_on(self.objects.create(self.by(request))))
            }
            "update" => {
                let request = pb::UpdateRequest { object, options };
                wrote(self.runtime.block_on(self.objects.update(self.by(request))))
            }
            "status" => {
                let request = pb::UpdateRequest { object, options };
                wrote(self.runtime.block_on(self.objects.update_status(self.by(request))))
            }
            "apply" => {
                let request = pb::ApplyRequest { object, options, status, force: given.has("force") };
                let applied = self.runtime.block_on(self.objects.apply(self.by(request)));
                said(applied, |it| it.write.unwrap_or_default().revision)
            }
            "patch" => {
                let patch = given.text("patch").into();
                let request = pb::PatchRequest { key, patch, options, status, ..Default::default() };
                wrote(self.runtime.block_on(self.objects.patch(self.by(request))))
            }
            "delete" => {
                let request = pb::DeleteRequest { key, options, ..Default::default() };
                said(self.runtime.block_on(self.objects.delete(self.by(request))), |it| it.revision)
            }
            other => panic!("unknown command: {other}"),
        }
    }

    /// Opens a watch that stays open.
    fn follow(&mut self, given: &Given) -> String {
        let request =
            pb::WatchRequest { kind: given.word(0), namespace: given.text("ns"), ..Default::default() };
        match self.runtime.block_on(self.objects.watch(self.by(request))) {
            Ok(answers) => {
                self.followed = Some(answers.into_inner());
                "yes: watching".to_owned()
            }
            Err(status) => said::<(), &str>(Err(status), |()| ""),
        }
    }

    /// What that watch says next.
    fn next(&mut self) -> String {
        let answers = self.followed.as_mut().expect("a watch is open");
        let next = self.runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(60), answers.next()).await.expect("in time")
        });
        let Some(answer) = next else { return "the end".to_owned() };
        let bytes = answer.expect("no other error").encode_to_vec();
        let answer = pb::WatchResponse::decode(&bytes[..]).expect("what is sent can be read");
        let told = answer.events.iter().map(|event| match &event.error {
            Some(error) => format!("{}: {}", error.reason().as_str_name(), error.message),
            None => {
                let name =
                    event.object.as_ref().and_then(|it| it.metadata.as_ref()).map(|it| it.name.as_str());
                format!("{} {}", event.r#type().as_str_name(), name.unwrap_or_default())
            }
        });
        told.collect::<Vec<_>>().join("; ")
    }

    /// What the log has got so far: everything before an entry that is made to be seen.
    fn audited(&self) -> String {
        let done = AuditResult::Refused { reason: String::new() };
        let marker = AuditEntry::new(Timestamp(0), Principal::anonymous(), Verb::Get, "Marker", done);
        self.runtime.block_on(self.audit.record(marker));
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let text = std::fs::read_to_string(&self.audit_file).expect("the log");
            if text.lines().last().is_some_and(|line| line.contains("Marker") && line.ends_with('}')) {
                // The next look begins behind what was seen.
                std::fs::write(&self.audit_file, "").expect("emptied");
                let lines = text.lines().filter(|line| !line.contains("Marker"));
                let without_time = |line: &str| line.split_once(',').map(|(_, rest)| format!("{{{rest}\n"));
                return lines.filter_map(without_time).collect();
            }
            assert!(Instant::now() < deadline, "the log is not written: {text}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn said<T, D: ToString>(answer: Result<Response<T>, Status>, print: impl FnOnce(T) -> D) -> String {
    match answer {
        Ok(answer) => format!("yes: {}", print(answer.into_inner()).to_string()),
        Err(status) => {
            let reason = error_of(&status).map_or("", |error| error.reason().as_str_name());
            format!("{reason}: {}", status.message())
        }
    }
}

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() -> std::io::Result<()> {
                goldenscript::run(&mut Script::new(), concat!("tests/writes/access/", stringify!($name)))
            }
        )*
    };
}

#[test]
fn audit_open() -> std::io::Result<()> {
    goldenscript::run(&mut Script::with(Authorizer::off()), "tests/writes/access/audit_open")
}

scripts! {
    audit,
    deny_by_default,
    giving_away,
    groups_in_policies,
    leases,
    ledgers,
    namespaces,
    reads,
    transactions,
    verbs,
    withdrawn,
}
