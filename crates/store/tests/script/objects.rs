//! The language of commits, and of looking at what they left.
//!
//! `commit "guard, guard ? op; op" [id=ID] [as=FINGERPRINT] [by=PRINCIPAL]`, where everything before the `?` may be left out.
//! Guards are `rev KEY REVISION`, `fence LEASE EPOCH`, `room LEDGER cpu=1 ...`, `term TERM`. Operations are
//! `put KEY VALUE [lease=ID]`, `del KEY`, `limits LEDGER cpu=1 ...`, `reserve LEDGER OWNER cpu=1 ...`,
//! `count LEDGER OWNER cpu=1 ...`, `stamp KEY VALUE` (at the first `_`, which are spaces),
//! `spread LEDGER OWNER DOMAIN MAX_SKEW DOMAIN ...`, `release LEDGER OWNER`, `hold LEASE HOLDER EPOCH ID`, `vacate LEASE EPOCH`. A lease is written NAMESPACE/NAME.

use setpoint_store::commit::{Commit, Evenness, Guard, Op, Operation};
use setpoint_store::{Amounts, Author, Epoch, Fence, LeaseName, ReadFailure, Store, Versions, VersionsMax};
use setpoint_types::{KeyRange, LeaseId, Revision};

use crate::parse::{Parsed, bytes, number, word};
use crate::print;

/// Of every hold.
const TTL: i64 = 10;

pub fn commit<'w>(mut words: impl Iterator<Item = &'w str>) -> Parsed<Commit> {
    let text = word(&mut words, "the commit")?;
    let (guards, ops) = text.split_once('?').unwrap_or(("", text));
    let parts = |text: &'w str, separator| {
        text.split(separator).map(str::trim).filter(|part| !part.is_empty()).map(str::split_whitespace)
    };
    let mut commit = Commit {
        guards: parts(guards, ',').map(guard).collect::<Parsed<_>>()?,
        ops: parts(ops, ';').map(op).collect::<Parsed<_>>()?,
        ..Commit::default()
    };
    let (mut id, mut fingerprint) = (None, 0);
    for word in words {
        match word.split_once('=') {
            Some(("id", word)) => id = Some(bytes(word)),
            Some(("as", word)) => fingerprint = number(word)?,
            Some(("by", word)) => commit.author = Some(author(word)),
            _ => return Err(format!("unexpected word: {word}")),
        }
    }
    if let Some(author) = &mut commit.author {
        author.operation = id.as_ref().map_or(String::new(), |id| id.escape_ascii().to_string());
        author.fence = commit.guards.iter().find_map(|guard| match guard {
            Guard::Fence(fence) => Some(fence.clone()),
            _ => None,
        });
    }
    commit.operation = id.map(|id| Operation { id, fingerprint });
    Ok(commit)
}

fn author(principal: &str) -> Author {
    Author { principal: principal.to_owned(), ..Author::default() }
}

fn guard<'w>(mut words: impl Iterator<Item = &'w str>) -> Parsed<Guard> {
    Ok(match word(&mut words, "the guard")? {
        "rev" => {
            let key = bytes(word(&mut words, "the key")?);
            Guard::Revision { key, revision: Revision::new(number(word(&mut words, "the revision")?)?) }
        }
        "fence" => Guard::Fence(Fence { lease: lease(&mut words)?, epoch: epoch(&mut words)? }),
        "room" => {
            Guard::Headroom { ledger: word(&mut words, "the ledger")?.to_owned(), amounts: amounts(words)? }
        }
        "term" => Guard::Term(number(word(&mut words, "the term")?)?),
        "empty" => {
            let start = bytes(word(&mut words, "the first key")?);
            let end = bytes(word(&mut words, "the end")?);
            Guard::Empty(KeyRange::Span { start, end })
        }
        other => return Err(format!("not a guard: {other}")),
    })
}

fn op<'w>(mut words: impl Iterator<Item = &'w str>) -> Parsed<Op> {
    let name = word(&mut words, "the operation")?;
    let mut text = |what| word(&mut words, what).map(str::to_owned);
    Ok(match name {
        "put" => {
            let (key, value) = (text("the key")?, text("the value")?);
            let lease = match words.next().and_then(|word| word.strip_prefix("lease=")) {
                Some(id) => LeaseId(number(id)?),
                None => LeaseId::NONE,
            };
            Op::Put { key: key.into(), value: value.into(), lease }
        }
        "del" => Op::Delete { key: text("the key")?.into() },
        "limits" => Op::Limits { ledger: text("the ledger")?, limits: amounts(words)? },
        "reserve" => {
            Op::Reserve { ledger: text("the ledger")?, owner: text("the owner")?, amounts: amounts(words)? }
        }
        "spread" => {
            let (ledger, owner) = (text("the ledger")?, text("the owner")?);
            let (domain, max_skew) = (text("the domain")?, number(&text("the skew")?)?);
            let among = words.map(str::to_owned).collect();
            Op::Spread { ledger, owner, domain, evenness: Evenness { max_skew, among } }
        }
        "count" => {
            Op::Count { ledger: text("the ledger")?, owner: text("the owner")?, amounts: amounts(words)? }
        }
        "stamp" => {
            let (key, value) = (text("the key")?, text("the value")?.replace('_', " "));
            let at = value.find(' ').unwrap_or(0) as u64;
            Op::Stamped { key: key.into(), value: value.into(), at }
        }
        "release" => Op::Release { ledger: text("the ledger")?, owner: text("the owner")? },
        "hold" => {
            let (lease, holder) = (lease(&mut words)?, word(&mut words, "the holder")?.to_owned());
            let (epoch, id) = (epoch(&mut words)?, LeaseId(number(word(&mut words, "the id")?)?));
            Op::Hold { lease, holder, epoch, ttl: TTL, id }
        }
        "vacate" => Op::Vacate { lease: lease(&mut words)?, epoch: epoch(&mut words)? },
        other => return Err(format!("not an operation: {other}")),
    })
}

pub fn lease<'w>(words: &mut impl Iterator<Item = &'w str>) -> Parsed<LeaseName> {
    let (namespace, name) = word(words, "the lease")?.split_once('/').ok_or("a lease is NAMESPACE/NAME")?;
    Ok(LeaseName::new(namespace, name))
}

fn epoch<'w>(words: &mut impl Iterator<Item = &'w str>) -> Parsed<Epoch> {
    number(word(words, "the epoch")?).map(Epoch)
}

fn amounts<'w>(words: impl Iterator<Item = &'w str>) -> Parsed<Amounts> {
    let amount = |word: &str| {
        let (dimension, amount) = word.split_once('=').ok_or("an amount is DIMENSION=NUMBER")?;
        Ok((dimension.to_owned(), number(amount)?))
    };
    words.map(amount).collect()
}

/// `versions KEY [before=REVISION] [limit=N]`
pub fn versions<'w>(
    store: &Store,
    mut words: impl Iterator<Item = &'w str>,
) -> Parsed<Result<Versions, ReadFailure>> {
    let key = bytes(word(&mut words, "the key")?);
    let (mut before, mut count) = (Revision::NONE, usize::MAX);
    for word in words {
        match word.split_once('=') {
            Some(("before", revision)) => before = Revision::new(number(revision)?),
            Some(("limit", limit)) => count = number(limit)?,
            _ => return Err(format!("unexpected word: {word}")),
        }
    }
    Ok(store.versions(&key, before, VersionsMax { count, bytes: usize::MAX }))
}

pub fn print_versions(found: &Versions) -> String {
    let line = |version: &setpoint_store::Version| {
        format!("{} {}\n", print::record_id(version.id), print::record(&version.record))
    };
    let lines: String = found.versions.iter().map(line).collect();
    let more = if found.more { "more\n" } else { "" };
    format!("{lines}{more}oldest kept {}\n", found.oldest)
}
