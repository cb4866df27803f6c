//! The arguments of a script's command: words, values by name, and the messages they make.

use std::collections::{BTreeMap, HashMap};

use goldenscript::{Argument, Command};
use setpoint_access::{CONTROLLERS, NODES, Principal};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::guard::Guard;
use setpoint_api::setpoint::v1::write::Write;
use setpoint_api::setpoint::v1::write_options::FieldValidation;

pub struct Given {
    words: Vec<String>,
    named: HashMap<String, String>,
}

impl Given {
    pub fn of(command: &Command) -> Self {
        let (mut words, mut named) = (Vec::new(), HashMap::new());
        for argument in &command.args {
            match argument {
                Argument::Positional(word) => words.push(word.clone()),
                Argument::KeyValue(key, value) => drop(named.insert(key.clone(), value.clone())),
                other => panic!("unknown kind of argument: {other:?}"),
            }
        }
        Self { words, named }
    }

    pub fn word(&self, place: usize) -> String {
        self.words.get(place).cloned().unwrap_or_default()
    }

    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|it| it == word)
    }

    pub fn text(&self, name: &str) -> String {
        self.named.get(name).cloned().unwrap_or_default()
    }

    pub fn number(&self, name: &str) -> u64 {
        self.named.get(name).map_or(0, |text| text.parse().expect("a number"))
    }

    fn list(&self, name: &str) -> Vec<String> {
        let text = self.text(name);
        text.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect()
    }

    fn pairs(&self, name: &str) -> BTreeMap<String, String> {
        let pairs = self.list(name);
        pairs.iter().filter_map(|it| it.split_once(':')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
    }

    pub fn amounts(&self, name: &str) -> BTreeMap<String, i64> {
        let amount = |(dimension, amount): (String, String)| (dimension, amount.parse().expect("a number"));
        self.pairs(name).into_iter().map(amount).collect()
    }

    /// `KIND NAMESPACE/NAME`, or `KIND NAME`.
    pub fn key(&self) -> pb::ObjectKey {
        let place = self.word(1);
        let (namespace, name) = place.split_once('/').unwrap_or(("", &place));
        pb::ObjectKey { kind: self.word(0), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    pub fn object(&self) -> pb::Object {
        let key = self.key();
        let metadata = pb::Metadata {
            namespace: key.namespace,
            name: key.name,
            generate_name: self.text("generate"),
            uid: self.text("uid"),
            revision: self.number("rev"),
            finalizers: self.list("finalizers"),
            owners: self.list("owners").iter().map(|it| owner(it)).collect(),
            labels: self.pairs("labels"),
            ..pb::Metadata::default()
        };
        let (spec, status) = (self.text("spec").into(), self.text("status").into());
        pb::Object { kind: key.kind, metadata: Some(metadata), spec, status }
    }

    pub fn options(&self) -> Option<pb::WriteOptions> {
        let validation = match self.text("unknown").as_str() {
            "warn" => FieldValidation::Warn,
            "ignore" => FieldValidation::Ignore,
            _ => FieldValidation::Strict,
        };
        Some(pb::WriteOptions {
            manager: self.text("manager"),
            operation: self.text("op"),
            fence: self.fence(),
            dry_run: self.has("dry"),
            field_validation: self.text("unknown").parse().unwrap_or(validation.into()),
        })
    }

    /// `as CLASS:NAME [groups=GROUPS]`, or `as anonymous`.
    pub fn principal(&self) -> Principal {
        let text = self.word(0);
        let Some((class, name)) = text.split_once(':') else { return Principal::anonymous() };
        let class = match class {
            "node" => Some(NODES),
            "controller" => Some(CONTROLLERS),
            _ => None,
        };
        let groups = self.list("groups");
        Principal::new(name, class.into_iter().chain(groups.iter().map(String::as_str))).expect("a name")
    }

    /// Adds a part to a transaction.
    pub fn collect(&self, name: &str, request: &mut pb::TransactRequest) {
        let write = match name {
            "guard" => {
                let guard = if let Some(fence) = self.fence() {
                    Guard::Fence(fence)
                } else if self.text("ledger").is_empty() {
                    Guard::Object(pb::ObjectAt { key: Some(self.key()), revision: self.number("rev") })
                } else {
                    Guard::Headroom(pb::Headroom {
                        ledger: self.text("ledger"),
                        amounts: self.amounts("amounts"),
                    })
                };
                return request.guards.push(pb::Guard { guard: Some(guard) });
            }
            "create" => Write::Create(self.object()),
            "update" => Write::Update(self.object()),
            "status" => Write::UpdateStatus(self.object()),
            "apply" => {
                let status = self.has("status");
                Write::Apply(pb::ApplyWrite { object: Some(self.object()), status, ..Default::default() })
            }
            "patch" => Write::Patch(pb::PatchWrite {
                key: Some(self.key()),
                r#type: self.patch_kind(),
                patch: self.text("patch").into(),
                uid: self.text("uid"),
                revision: self.number("rev"),
                status: self.has("status"),
            }),
            "delete" => Write::Delete(pb::DeleteWrite {
                key: Some(self.key()),
                propagation: self.propagation(),
                ..pb::DeleteWrite::default()
            }),
            "reserve" => Write::Reserve(pb::Reserve {
                ledger: self.word(0),
                owner: self.word(1),
                amounts: self.amounts("amounts"),
            }),
            "release" => Write::Release(pb::Release { ledger: self.word(0), owner: self.word(1) }),
            "limits" => {
                Write::Limits(pb::LedgerLimits { ledger: self.word(0), limits: self.amounts("amounts") })
            }
            other => panic!("unknown command in a transaction: {other}"),
        };
        request.writes.push(pb::Write { write: Some(write) });
    }

    /// `json`, or `type=NUMBER` for one that nobody knows.
    pub fn patch_kind(&self) -> i32 {
        let usual = if self.has("json") { pb::patch_request::Type::Json } else { Default::default() };
        self.text("type").parse().unwrap_or(usual.into())
    }

    /// `mode=foreground`, or a number that nobody knows.
    pub fn propagation(&self) -> i32 {
        use pb::delete_request::Propagation;
        let mode = self.text("mode");
        let known = match mode.as_str() {
            "foreground" => Propagation::Foreground,
            "orphan" => Propagation::Orphan,
            _ => Propagation::Background,
        };
        mode.parse().unwrap_or(known.into())
    }

    /// `fence=LEASE@EPOCH`
    pub fn fence(&self) -> Option<pb::Fence> {
        let text = self.text("fence");
        let (lease, epoch) = text.split_once('@')?;
        let epoch = epoch.parse().expect("an epoch");
        Some(pb::Fence { namespace: String::new(), lease: lease.to_owned(), epoch })
    }
}

/// `KIND/NAME/UID`, with `!` behind it if it controls, with `+` if it blocks.
fn owner(text: &str) -> pb::OwnerReference {
    let (controller, block_owner_deletion) = (text.contains('!'), text.contains('+'));
    let text = text.trim_end_matches(['!', '+']);
    let mut parts = text.split('/').map(str::to_owned);
    let mut next = || parts.next().unwrap_or_default();
    pb::OwnerReference { kind: next(), name: next(), uid: next(), controller, block_owner_deletion }
}
