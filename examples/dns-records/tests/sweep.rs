//! The publisher through every fault: whatever goes wrong, what is published is what the records say, and nothing is left behind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use dns_records::kind::{Answer, AnswerType, DnsRecord, DnsRecordSpec, definition};
use dns_records::provider::{Entry, Provider, ProviderError, Token};
use dns_records::zone_file::Zone;
use dns_records::{NAME, run};
use serde_json::{Value, json};
use setpoint_client::{Client, DeleteOptions, Error, Patch, PatchOptions, Typed, WriteOptions};
use setpoint_testkit::{Limits, Scenario, State, sweep};
use setpoint_types::Uid;
use setpoint_types::kinds::KindDefinition;

/// A zone that outlives the processes, and not the run.
#[derive(Clone)]
struct Memory(Arc<Mutex<Zone>>);

impl Memory {
    fn with<T>(&self, work: impl FnOnce(&mut Zone) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn admitted<T>(
        &self,
        token: Token,
        work: impl FnOnce(&mut Zone) -> Result<T, ProviderError>,
    ) -> Result<T, ProviderError> {
        self.with(|zone| zone.admit(token).and_then(|()| work(zone)))
    }
}

impl Provider for Memory {
    fn covers(&self, name: &str) -> bool {
        self.with(|zone| zone.covers(name))
    }

    async fn look_up(&self, token: Token, name: &str, owner: &Uid) -> Result<Vec<Entry>, ProviderError> {
        self.admitted(token, |zone| Ok(zone.look_up(name, owner)))
    }

    async fn publish(
        &self,
        token: Token,
        entry: Entry,
        instead_of: Option<Uid>,
    ) -> Result<(), ProviderError> {
        self.admitted(token, |zone| zone.publish(entry, instead_of.as_ref()))
    }

    async fn retract(&self, token: Token, owner: &Uid) -> Result<(), ProviderError> {
        self.admitted(token, |zone| {
            zone.retract(owner);
            Ok(())
        })
    }
}

async fn define(client: Client) -> Result<(), Error> {
    let definition = Typed::<KindDefinition>::new("dnsrecords", definition());
    let api = client.with_manager(NAME).api::<KindDefinition>();
    api.apply(&definition, true, &WriteOptions::default()).await.map(drop)
}

async fn create(client: Client, object: &str, name: &str, address: &str) -> Result<(), Error> {
    let answers = vec![Answer { kind: AnswerType::A, value: address.to_owned() }];
    let spec = DnsRecordSpec { name: name.to_owned(), ttl_seconds: 60, answers };
    let record = Typed::<DnsRecord>::new(object, spec);
    client.api::<DnsRecord>().create(&record, &WriteOptions::default()).await.map(drop)
}

async fn edit(client: Client, object: &str, spec: Value) -> Result<(), Error> {
    let patch = Patch::Merge(json!({"spec": spec}));
    client.api::<DnsRecord>().patch(object, &patch, &PatchOptions::default()).await.map(drop)
}

async fn delete(client: Client, object: &str) -> Result<(), Error> {
    client.api::<DnsRecord>().delete(object, &DeleteOptions::default()).await.map(drop)
}

/// What is published is what the records say; the oldest of a name has it, and the others show who.
fn converged(state: &State, zone: &Zone) -> Result<(), String> {
    let mut wanted: BTreeMap<String, (Uid, Vec<Answer>)> = BTreeMap::new();
    let mut records = state.all::<DnsRecord>();
    records.sort_by_key(|record| (record.metadata.created, record.metadata.uid.as_str().to_owned()));
    for record in records {
        let (metadata, spec) = (&record.metadata, &record.spec);
        if metadata.is_terminating() {
            return Err(format!("{} still goes", metadata.name));
        }
        let reason = if wanted.contains_key(&spec.name) { "NameTaken" } else { "Published" };
        let status = record.status.clone().unwrap_or_default();
        let is_told = |it: &setpoint_types::object::Condition| {
            it.kind == "Ready" && it.reason == reason && it.observed_generation == metadata.generation
        };
        if !status.conditions.iter().any(is_told) {
            return Err(format!("{} is {reason}, and shows {:?}", metadata.name, status.conditions));
        }
        wanted.entry(spec.name.clone()).or_insert((metadata.uid.clone(), spec.answers.clone()));
    }
    let entries = zone.entries.values();
    let found: BTreeMap<String, (Uid, Vec<Answer>)> =
        entries.map(|it| (it.name.clone(), (it.owner.uid.clone(), it.answers.clone()))).collect();
    if found == wanted { Ok(()) } else { Err(format!("published is {found:?}, not {wanted:?}")) }
}

#[test]
fn what_is_published_is_what_the_records_say() {
    let memory = Memory(Arc::new(Mutex::new(Zone::new("example.com"))));
    let (provider, emptied, looked_at) = (memory.clone(), memory.clone(), memory);
    let scenario = Scenario::new(move |client, stop| {
        let provider = provider.clone();
        async move {
            run(client, provider, stop.cancelled_owned()).await.expect("it runs until it is stopped");
        }
    })
    .setup(move |client| {
        emptied.with(|zone| *zone = Zone::new("example.com"));
        define(client)
    })
    .step("a record comes", |client| create(client, "first", "www.example.com", "192.0.2.1"))
    .step("it answers otherwise", |client| edit(client, "first", json!({"ttlSeconds": 30})))
    .step("another claims its name", |client| create(client, "second", "www.example.com", "192.0.2.2"))
    .step("the first takes another name", |client| edit(client, "first", json!({"name": "web.example.com"})))
    .step("and comes back", |client| edit(client, "first", json!({"name": "www.example.com"})))
    .step("the first goes", |client| delete(client, "first"))
    .step("the second goes", |client| delete(client, "second"))
    .converged(move |state| looked_at.with(|zone| converged(state, zone)))
    // Seven steps make many places: the first writes and events of each sort are enough for a test that runs with every change.
    .limits(Limits { places_max: 8, drawn: 8, ..Limits::default() });
    sweep(&scenario);
}
