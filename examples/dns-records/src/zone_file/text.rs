//! A zone as text, and back. What the file means to this program beyond DNS, such as who owns a name, is in comments.

use std::fmt::Write;

use setpoint_types::{Generation, Uid};

use super::Zone;
use crate::kind::{Answer, AnswerType};
use crate::provider::{Entry, Owner, Token};

/// A line that this program did not write.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is not understood")]
pub struct TextError {
    line: usize,
}

const HEAD: &str = "; Written by dns-records, which replaces it: changes by hand are lost.";
/// Refresh, retry, expiry and negative answers, in seconds, as RFC 1912 suggests for small zones.
const TIMERS: &str = "3600 600 1209600 300";

/// The file's text. The same for the same zone.
pub fn write(zone: &Zone) -> String {
    let origin = &zone.origin;
    // A zone that nobody with a lease has been at has none.
    let token = Some(zone.token).filter(|it| *it != Token::default()).map(|it| format!("; {it}\n"));
    let mut text = format!("{HEAD}\n{}$ORIGIN {origin}.\n$TTL 300\n", token.unwrap_or_default());
    let soa = format!("@ IN SOA ns1.{origin}. hostmaster.{origin}. {} {TIMERS}", zone.serial);
    let mut line =
        |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a String takes everything");
    line(format_args!("{soa}"));
    line(format_args!("@ IN NS ns1.{origin}."));
    for entry in zone.entries.values() {
        let Owner { uid, generation, object } = &entry.owner;
        line(format_args!("; owner {uid} {} {object}", generation.0));
        for answer in &entry.answers {
            let value = match answer.kind {
                AnswerType::A | AnswerType::Aaaa => answer.value.clone(),
                AnswerType::Cname => format!("{}.", answer.value),
                AnswerType::Txt => format!("\"{}\"", answer.value),
            };
            let (name, ttl, kind) = (&entry.name, entry.ttl_seconds, answer.kind.name());
            line(format_args!("{name}. {ttl} IN {kind} {value}"));
        }
    }
    text
}

/// Reads what [`write`] wrote, and nothing else: a file that somebody changed is not guessed at.
pub fn read(text: &str) -> Result<Zone, TextError> {
    let mut zone = Zone::new("");
    let mut owner = None;
    for (number, line) in (1..).zip(text.lines()) {
        read_line(&mut zone, &mut owner, line).ok_or(TextError { line: number })?;
    }
    // Whatever was read leniently, or is missing, shows here.
    let written = write(&zone);
    let differs = (1..).zip(text.lines().zip(written.lines())).find(|(_, (read, written))| read != written);
    let short = text.lines().count().min(written.lines().count());
    match differs {
        Some((line, _)) => Err(TextError { line }),
        None if text != written => Err(TextError { line: short + 1 }),
        None => Ok(zone),
    }
}

fn read_line(zone: &mut Zone, owner: &mut Option<Owner>, line: &str) -> Option<()> {
    if line == HEAD || line.starts_with("$TTL ") || line.starts_with("@ IN NS ") {
        return Some(());
    }
    if let Some(epoch) = line.strip_prefix("; epoch ") {
        zone.token = Token(epoch.parse().ok()?);
    } else if let Some(origin) = line.strip_prefix("$ORIGIN ") {
        zone.origin = origin.strip_suffix('.')?.to_owned();
    } else if let Some(soa) = line.strip_prefix("@ IN SOA ") {
        zone.serial = soa.split(' ').nth(2)?.parse().ok()?;
    } else if let Some(of) = line.strip_prefix("; owner ") {
        let mut words = of.splitn(3, ' ');
        let (uid, generation) = (Uid::new(words.next()?), Generation(words.next()?.parse().ok()?));
        *owner = Some(Owner { uid, generation, object: words.next()?.to_owned() });
    } else {
        let mut words = line.splitn(5, ' ');
        let name = words.next()?.strip_suffix('.')?.to_owned();
        let ttl_seconds = words.next()?.parse().ok()?;
        let (_in, kind, value) = (words.next()?, words.next()?, words.next()?);
        let answer = answer(kind, value)?;
        let owner = owner.clone()?;
        let fresh = || Entry { name: name.clone(), owner, ttl_seconds, answers: Vec::new() };
        zone.entries.entry(name.clone()).or_insert_with(fresh).answers.push(answer);
    }
    Some(())
}

fn answer(kind: &str, value: &str) -> Option<Answer> {
    let kinds = [AnswerType::A, AnswerType::Aaaa, AnswerType::Cname, AnswerType::Txt];
    let kind = kinds.into_iter().find(|it| it.name() == kind)?;
    let value = match kind {
        AnswerType::A | AnswerType::Aaaa => value,
        AnswerType::Cname => value.strip_suffix('.')?,
        AnswerType::Txt => value.strip_prefix('"')?.strip_suffix('"')?,
    };
    Some(Answer { kind, value: value.to_owned() })
}
