//! Golden scripts of etcd's rules and of our commits, one property each, in `tests/scripts`.
//!
//! A script lists commands, and behind `---` what they must answer. After a change of behaviour that is meant, run with
//! `UPDATE_GOLDENFILES=1` and read the difference: the output was checked against etcd's rules when it was stored.

mod objects;
mod parse;
mod print;

use std::error::Error;
use std::sync::Arc;

use goldenscript::{Context, Runner};
use setpoint_store::command::{
    Alarm, AlarmAction, AlarmKind, Command, MemberAttributes, Proposal, ProposalId,
};
use setpoint_store::engine::Table;
use setpoint_store::{
    Body, Engine, Entry, MemoryEngine, Position, ReadFailure, Record, RecordId, StepMax, Store,
};
use setpoint_types::{LeaseId, NodeId, Revision, Timestamp};

use parse::{number, word};

const LOCAL: NodeId = NodeId(1);
/// Of every entry.
const TERM: u64 = 3;

struct Script {
    engine: Arc<MemoryEngine>,
    store: Store,
    /// The leader's, in milliseconds.
    clock: u64,
}

impl Default for Script {
    fn default() -> Self {
        let engine = Arc::new(MemoryEngine::new());
        Self { store: Store::open(engine.clone()).expect("nothing loads"), engine, clock: 0 }
    }
}

impl Runner for Script {
    type Command = goldenscript::Command;

    fn run(&mut self, command: &goldenscript::Command, _: &Context) -> Result<String, Box<dyn Error>> {
        let words: Vec<String> = command.args.iter().map(written).collect();
        let mut words = words.iter().map(String::as_str);
        let proposed = match command.name.as_str() {
            "put" => Command::Put(parse::put(words)?),
            "del" => Command::DeleteRange(parse::delete(words)?),
            "txn" => Command::Txn(parse::txn(word(&mut words, "the transaction")?)?),
            "compact" => Command::Compact { revision: number(word(&mut words, "the revision")?)? },
            "grant" => {
                let lease = LeaseId(number(word(&mut words, "the lease")?)?);
                Command::LeaseGrant { lease, ttl: number(word(&mut words, "the time to live")?)? }
            }
            "revoke" => Command::LeaseRevoke { lease: LeaseId(number(word(&mut words, "the lease")?)?) },
            "expire" => {
                let lease = LeaseId(number(word(&mut words, "the lease")?)?);
                Command::LeaseExpire { lease, term: number(word(&mut words, "the term")?)? }
            }
            "raise" => alarm(AlarmAction::Activate, &mut words)?,
            "clear" => alarm(AlarmAction::Deactivate, &mut words)?,
            "publish" => {
                let member = NodeId(number(word(&mut words, "the member")?)?);
                let name = word(&mut words, "the name")?.to_owned();
                let attributes = MemberAttributes { name, client_urls: vec!["http://here".to_owned()] };
                Command::PublishMember { member, attributes }
            }
            "remove" => Command::RemoveMember { member: NodeId(number(word(&mut words, "the member")?)?) },
            "commit" => Command::Commit(Arc::new(objects::commit(words)?)),
            "expect" => Command::ExpectVoter { member: NodeId(number(word(&mut words, "the member")?)?) },
            name => return self.look(name, words),
        };
        self.propose(proposed)
    }
}

/// The argument as it was written, whatever goldenscript made of its equals sign.
fn written(argument: &goldenscript::Argument) -> String {
    match argument {
        goldenscript::Argument::Positional(word) => word.clone(),
        goldenscript::Argument::KeyValue(key, value) => format!("{key}={value}"),
        other => panic!("unknown kind of argument: {other:?}"),
    }
}

fn alarm<'w>(action: AlarmAction, words: &mut impl Iterator<Item = &'w str>) -> Result<Command, String> {
    let kind = match word(words, "the alarm")? {
        "nospace" => AlarmKind::NoSpace,
        "corrupt" => AlarmKind::Corrupt,
        other => return Err(format!("unknown alarm: {other}")),
    };
    let member = NodeId(number(word(words, "the member")?)?);
    Ok(Command::Alarm { action, alarm: Alarm { member, kind } })
}

impl Script {
    fn propose(&mut self, command: Command) -> Result<String, Box<dyn Error>> {
        let index = self.store.applied().position.map_or(1, |position| position.index + 1);
        let proposal = Proposal { id: ProposalId { node: LOCAL, sequence: index }, command };
        let body = Body::Commands { stamp: Timestamp(self.clock), commands: vec![proposal.encode()] };
        let entry = Entry { position: Position { term: TERM, index }, body };
        let outcome = self.store.apply(&[entry], LOCAL)?;
        Ok(outcome.verdicts.iter().map(|(_, verdict)| print::verdict(verdict)).collect())
    }

    /// What does not go through the log.
    fn look<'w>(
        &mut self,
        name: &str,
        mut words: impl Iterator<Item = &'w str>,
    ) -> Result<String, Box<dyn Error>> {
        let store = &self.store;
        match name {
            "get" => Ok(answered(store.range(&parse::read(words)?).map(|result| print::range(&result, "")))?),
            "read_txn" => {
                let txn = parse::txn(word(&mut words, "the transaction")?)?;
                assert!(txn.is_read_only());
                Ok(answered(store.read_txn(&txn).map(|result| print::txn(&result, "")))?)
            }
            "changes" => {
                let from = Revision::new(number(word(&mut words, "the revision")?)?);
                let sets = store.changes(from, usize::MAX);
                Ok(answered(sets.map(|sets| sets.iter().map(|set| print::changes(set)).collect()))?)
            }
            "record" => {
                let id = word(&mut words, "the record")?;
                let (revision, sub) = id.split_once('.').ok_or("a record is written REVISION.SUB")?;
                let id = RecordId { revision: Revision::new(number(revision)?), sub: number(sub)? };
                let record = store.record(id)?;
                Ok(record.map_or("collected".to_owned(), |record| print::record(&record)))
            }
            "status" => Ok(format!(
                "revision {}, compacted {}, {} keys",
                store.revision(),
                store.compacted(),
                store.key_count()
            )),
            "leases" => Ok(self.leases()),
            "lease" => Ok(print::lease(&store.lease_state(&objects::lease(&mut words)?)?)),
            "ledger" => {
                let ledger = store.ledger(word(&mut words, "the ledger")?)?;
                Ok(ledger.map_or("no ledger".to_owned(), |ledger| print::ledger(&ledger)))
            }
            "versions" => {
                let versions = objects::versions(store, words)?;
                Ok(answered(versions.map(|found| objects::print_versions(&found)))?)
            }
            "at" => {
                let time = Timestamp(number(word(&mut words, "the time")?)?);
                Ok(answered(store.revision_at(time).map(|revision| format!("revision {revision}")))?)
            }
            "clock" => {
                self.clock = number(word(&mut words, "the time")?)?;
                Ok(String::new())
            }
            "alarms" => Ok(format!("{:?}", store.alarms().iter().map(|it| it.kind).collect::<Vec<_>>())),
            "members" => Ok(self.members()),
            "collect" => {
                let records_max = words.next().map_or(Ok(usize::MAX), number)?;
                let progress = store.collect(StepMax::records(records_max))?;
                Ok(format!(
                    "{} rows deleted, {}",
                    progress.deleted,
                    if progress.done() { "done" } else { "more" }
                ))
            }
            "rows" => self.rows(),
            "restart" => {
                store.flush()?;
                self.engine = Arc::new(self.engine.crash());
                self.store = Store::open(self.engine.clone())?;
                Ok(String::new())
            }
            other => Err(format!("unknown command: {other}").into()),
        }
    }

    fn leases(&self) -> String {
        let line = |(id, ttl): (LeaseId, i64)| {
            let keys = self.store.lease(id).expect("a listed lease is there").keys;
            let keys: String = keys.iter().map(|key| format!(" {}", key.escape_ascii())).collect();
            format!("lease {} for {ttl}:{keys}\n", id.0)
        };
        let lines: String = self.store.leases().into_iter().map(line).collect();
        if lines.is_empty() { "no leases\n".to_owned() } else { lines }
    }

    fn members(&self) -> String {
        let published = self.store.members().into_iter();
        let lines = published.map(|(id, it)| format!("{id} {} {}\n", it.name, it.client_urls.join(" ")));
        let removed = (0..10).map(NodeId).filter(|id| self.store.was_removed(*id));
        let expected = self.store.expected_voters().into_iter();
        lines
            .chain(expected.map(|id| format!("{id} is to vote\n")))
            .chain(removed.map(|id| format!("{id} was removed\n")))
            .collect()
    }

    /// Every record there is, and how many rows the key table has.
    fn rows(&self) -> Result<String, Box<dyn Error>> {
        let (mut lines, mut keys) = (String::new(), 0);
        self.engine.scan(Table::Records, &[], None, &mut |key, row| {
            let id = RecordId::decode(key).expect("a record's position");
            let record = Record::decode(bytes::Bytes::copy_from_slice(row)).expect("a record");
            lines += &format!("{} {}\n", print::record_id(id), print::record(&record));
            std::ops::ControlFlow::Continue(())
        })?;
        self.engine.scan(Table::Keys, &[], None, &mut |_, _| {
            keys += 1;
            std::ops::ControlFlow::Continue(())
        })?;
        Ok(format!("{lines}{keys} rows in keys\n"))
    }
}

fn answered(answer: Result<String, ReadFailure>) -> Result<String, ReadFailure> {
    match answer {
        Err(ReadFailure::Rejected(rejection)) => Ok(print::rejection(&rejection)),
        answer => answer,
    }
}

/// One test per script, and one that no script is forgotten.
macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        const LISTED: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() -> std::io::Result<()> {
                goldenscript::run(&mut Script::default(), concat!("tests/scripts/", stringify!($name)))
            }
        )*
    };
}

scripts! {
    alarm_corrupt,
    alarm_nospace,
    collection,
    commit_authors,
    commit_empty,
    commit_guards,
    commit_holds,
    commit_ledgers,
    commit_operations,
    commit_spread,
    commit_times,
    compact_rules,
    compares,
    count_and_more,
    delete_at_compacted,
    duplicate_deletes,
    headers,
    keep_flags,
    leases,
    members,
    nested_txns,
    order_and_bounds,
    ranges,
    read_at_compacted,
    reserved_keys,
    restart,
    revisions,
    txn_checks,
}

#[test]
fn every_script_is_run_and_opens_with_its_property() {
    for file in std::fs::read_dir("tests/scripts").expect("the scripts") {
        let path = file.expect("a script").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        assert!(LISTED.contains(&name.as_str()), "{name} is not run");
        let text = std::fs::read_to_string(&path).expect("a script");
        let property: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(property.ends_with('.'), "{name} does not open with its property");
    }
}
