//! The language of the scripts: words for puts, deletes and reads, and a small grammar for transactions.
//!
//! A range is `a` (one key), `a..c` (from a up to c), `a..` (from a on) or `..` (all). A transaction is
//! `[compare, compare] ? op; op : op; op`, where an op is a put, a delete, a read, or a transaction in parentheses, and a
//! compare is `target range operator number`. Not here: running anything.

use std::iter::Peekable;
use std::str::FromStr;

use bytes::Bytes;
use setpoint_store::command::{
    Compare, DeleteRange, Operand, Operator, Order, Put, Range, SortTarget, Txn, TxnOp,
};
use setpoint_types::{KeyRange, LeaseId};

pub type Parsed<T> = Result<T, String>;

pub fn bytes(word: &str) -> Bytes {
    Bytes::copy_from_slice(word.as_bytes())
}

pub fn number<T: FromStr>(word: &str) -> Parsed<T> {
    word.parse().map_err(|_| format!("not a number: {word}"))
}

pub fn range(word: &str) -> KeyRange {
    match word.split_once("..") {
        None => KeyRange::Single(bytes(word)),
        Some((start, "")) => KeyRange::From(bytes(start)),
        Some((start, end)) => KeyRange::Span { start: bytes(start), end: bytes(end) },
    }
}

/// The next word, which must be there.
pub fn word<'w>(words: &mut impl Iterator<Item = &'w str>, what: &str) -> Parsed<&'w str> {
    words.next().ok_or_else(|| format!("{what} is missing"))
}

/// `put KEY [VALUE] [lease=ID] [prev] [keep_value] [keep_lease]`
pub fn put<'w>(mut words: impl Iterator<Item = &'w str>) -> Parsed<Put> {
    let mut put = Put { key: bytes(word(&mut words, "the key")?), ..Put::default() };
    for word in words {
        match word.split_once('=') {
            Some(("lease", id)) => put.lease = LeaseId(number(id)?),
            None if word == "prev" => put.want_previous = true,
            None if word == "keep_value" => put.keep_value = true,
            None if word == "keep_lease" => put.keep_lease = true,
            _ => put.value = bytes(word),
        }
    }
    Ok(put)
}

/// `del RANGE [prev]`
pub fn delete<'w>(mut words: impl Iterator<Item = &'w str>) -> Parsed<DeleteRange> {
    let range = range(word(&mut words, "the range")?);
    match words.next() {
        None => Ok(DeleteRange { range, want_previous: false }),
        Some("prev") => Ok(DeleteRange { range, want_previous: true }),
        Some(other) => Err(format!("unexpected word: {other}")),
    }
}

/// `get RANGE [rev=N] [limit=N] [order=asc|desc] [by=TARGET] [mod=MIN..MAX] [created=MIN..MAX] [keys_only] [count_only]`
pub fn read<'w>(mut words: impl Iterator<Item = &'w str>) -> Parsed<Range> {
    let mut read = Range::latest(range(word(&mut words, "the range")?));
    for word in words {
        match word.split_once('=') {
            Some(("rev", revision)) => read.revision = number(revision)?,
            Some(("limit", limit)) => read.limit = number(limit)?,
            Some(("order", "asc")) => read.order = Order::Ascending,
            Some(("order", "desc")) => read.order = Order::Descending,
            Some(("by", target)) => read.by = sort_target(target)?,
            Some(("mod", between)) => {
                (read.bounds.modified_min, read.bounds.modified_max) = bounds(between)?;
            }
            Some(("created", between)) => {
                (read.bounds.created_min, read.bounds.created_max) = bounds(between)?;
            }
            None if word == "keys_only" => read.keys_only = true,
            None if word == "count_only" => read.count_only = true,
            _ => return Err(format!("unexpected word: {word}")),
        }
    }
    Ok(read)
}

fn bounds(between: &str) -> Parsed<(i64, i64)> {
    let (min, max) = between.split_once("..").ok_or("bounds are written MIN..MAX")?;
    let bound = |word: &str| if word.is_empty() { Ok(0) } else { number(word) };
    Ok((bound(min)?, bound(max)?))
}

fn sort_target(word: &str) -> Parsed<SortTarget> {
    match word {
        "key" => Ok(SortTarget::Key),
        "version" => Ok(SortTarget::Version),
        "created" => Ok(SortTarget::Created),
        "mod" => Ok(SortTarget::Modified),
        "value" => Ok(SortTarget::Value),
        _ => Err(format!("unknown sort target: {word}")),
    }
}

/// A whole transaction, as in the head of this file.
pub fn txn(text: &str) -> Parsed<Txn> {
    let spaced: String = text
        .chars()
        .map(|letter| if "[](),;?:".contains(letter) { format!(" {letter} ") } else { letter.to_string() })
        .collect();
    let mut words = spaced.split_whitespace().peekable();
    let txn = levels(&mut words)?;
    match words.next() {
        None => Ok(txn),
        Some(word) => Err(format!("unexpected after the transaction: {word}")),
    }
}

fn levels<'w>(words: &mut Peekable<impl Iterator<Item = &'w str>>) -> Parsed<Txn> {
    let mut txn = Txn::default();
    expect(words, "[")?;
    while words.next_if_eq(&"]").is_none() {
        txn.compares.push(compare(words)?);
        words.next_if_eq(&",");
    }
    expect(words, "?")?;
    txn.success = ops(words)?;
    if words.next_if_eq(&":").is_some() {
        txn.failure = ops(words)?;
    }
    Ok(txn)
}

fn ops<'w>(words: &mut Peekable<impl Iterator<Item = &'w str>>) -> Parsed<Vec<TxnOp>> {
    let mut ops = Vec::new();
    while words.peek().is_some_and(|word| !matches!(*word, ":" | ")")) {
        if words.next_if_eq(&"(").is_some() {
            ops.push(TxnOp::Txn(levels(words)?));
            expect(words, ")")?;
        } else {
            let mut op = Vec::new();
            while let Some(word) = words.next_if(|word| !matches!(*word, ";" | ":" | ")")) {
                op.push(word);
            }
            let rest = op.iter().skip(1).copied();
            ops.push(match op.first() {
                Some(&"put") => TxnOp::Put(put(rest)?),
                Some(&"del") => TxnOp::DeleteRange(delete(rest)?),
                Some(&"get") => TxnOp::Range(read(rest)?),
                _ => return Err(format!("not an operation: {op:?}")),
            });
        }
        words.next_if_eq(&";");
    }
    Ok(ops)
}

fn compare<'w>(words: &mut Peekable<impl Iterator<Item = &'w str>>) -> Parsed<Compare> {
    let target = word(words, "the target")?;
    let range = range(word(words, "the range")?);
    let operator = match word(words, "the operator")? {
        "=" => Operator::Equal,
        ">" => Operator::Greater,
        "<" => Operator::Less,
        "!=" => Operator::NotEqual,
        "~" => Operator::Unknown,
        other => return Err(format!("unknown operator: {other}")),
    };
    let other = word(words, "the operand")?;
    let operand = match target {
        "version" => Operand::Version(number(other)?),
        "created" => Operand::Created(number(other)?),
        "mod" => Operand::Modified(number(other)?),
        "lease" => Operand::Lease(number(other)?),
        "value" => Operand::Value(bytes(other)),
        "unknown" => Operand::Unknown,
        _ => return Err(format!("unknown target: {target}")),
    };
    Ok(Compare { range, operator, operand })
}

fn expect<'w>(words: &mut impl Iterator<Item = &'w str>, expected: &str) -> Parsed<()> {
    match words.next() {
        Some(word) if word == expected => Ok(()),
        other => Err(format!("expected {expected}, found {other:?}")),
    }
}
