//! The zone file: what it promises, checked on a disk.

use setpoint_types::{Generation, Uid};

use super::*;
use crate::kind::{Answer, AnswerType};
use crate::provider::Owner;

const FIRST: Token = Token(1);
const SECOND: Token = Token(2);

fn entry(name: &str, uid: &str, generation: u64) -> Entry {
    let answer = |kind, value: &str| Answer { kind, value: value.to_owned() };
    let owner =
        Owner { uid: Uid::new(uid), generation: Generation(generation), object: format!("default/{uid}") };
    let answers = vec![
        answer(AnswerType::A, "192.0.2.1"),
        answer(AnswerType::Aaaa, "2001:db8::1"),
        answer(AnswerType::Txt, "v=1 some text; with a semicolon"),
    ];
    Entry { name: name.to_owned(), owner, ttl_seconds: 60, answers }
}

fn names(zone: &Zone) -> Vec<&str> {
    zone.entries.keys().map(String::as_str).collect()
}

#[test]
fn a_zone_that_was_written_is_read_as_the_same() {
    let mut zone = Zone::new("example.com");
    (zone.serial, zone.token) = (41, Token(7));
    for entry in [entry("www.example.com", "u1", 3), entry("example.com", "u2", 1)] {
        zone.entries.insert(entry.name.clone(), entry);
    }
    let alias = Answer { kind: AnswerType::Cname, value: "www.example.com".into() };
    let alias = Entry { answers: vec![alias], ..entry("web.example.com", "u3", 1) };
    zone.entries.insert(alias.name.clone(), alias);
    let text = text::write(&zone);
    assert_eq!(text::read(&text), Ok(zone));
    assert!(text.contains("web.example.com. 60 IN CNAME www.example.com.\n"), "{text}");
}

#[test]
fn what_somebody_changed_by_hand_is_not_guessed_at() {
    let text = text::write(&Zone { token: FIRST, ..Zone::new("example.com") });
    for changed in [
        text.replace("NS ns1", "NS ns2"),
        text.replace("$TTL 300", "$TTL 60"),
        text.replace("; epoch 1", "; epoch 0"),
        format!("{text}www.example.com. 60 IN A 192.0.2.1\n"),
        format!("{text}; owner u1 x default/a\n"),
        text.trim_end().to_owned(),
    ] {
        assert!(text::read(&changed).is_err(), "{changed}");
    }
}

#[tokio::test]
async fn every_change_bumps_the_serial_once_and_a_repetition_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = ZoneFile::new("example.com", folder.path().join("zone"));
    for _ in 0..2 {
        file.publish(FIRST, entry("www.example.com", "u1", 1), None).await.unwrap();
        assert_eq!(file.read().unwrap().serial, 1);
    }
    // Another name: the old one goes with the same change.
    file.publish(FIRST, entry("web.example.com", "u1", 2), None).await.unwrap();
    let zone = file.read().unwrap();
    assert_eq!((zone.serial, names(&zone)), (2, vec!["web.example.com"]));
    for _ in 0..2 {
        file.retract(FIRST, &Uid::new("u1")).await.unwrap();
        assert_eq!(file.read().unwrap().serial, 3);
    }
}

#[tokio::test]
async fn a_name_has_one_owner_and_a_late_process_brings_nothing_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = ZoneFile::new("example.com", folder.path().join("zone"));
    file.publish(FIRST, entry("www.example.com", "u1", 5), None).await.unwrap();
    let taken = file.publish(FIRST, entry("www.example.com", "u2", 1), None).await;
    assert!(matches!(taken, Err(ProviderError::Taken { .. })), "{taken:?}");
    let late = file.publish(FIRST, entry("www.example.com", "u1", 4), None).await;
    assert!(matches!(late, Err(ProviderError::Later { .. })), "{late:?}");
    let other = Some(Uid::new("u3"));
    assert!(file.publish(FIRST, entry("www.example.com", "u2", 1), other).await.is_err(), "it is not u3's");
    file.publish(FIRST, entry("www.example.com", "u2", 1), Some(Uid::new("u1"))).await.unwrap();
    let found = file.look_up(FIRST, "www.example.com", &Uid::new("u1")).await.unwrap();
    assert_eq!(found, [entry("www.example.com", "u2", 1)]);
}

#[tokio::test]
async fn from_the_first_look_of_whoever_took_over_the_process_before_it_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = ZoneFile::new("example.com", folder.path().join("zone"));
    let (www, owner) = (entry("www.example.com", "u1", 1), Uid::new("u1"));
    file.publish(FIRST, www.clone(), None).await.unwrap();
    file.retract(SECOND, &owner).await.unwrap();
    let again = file.publish(FIRST, www.clone(), None).await;
    assert!(matches!(again, Err(ProviderError::Deposed { .. })), "{again:?}");
    assert!(file.read().unwrap().entries.is_empty(), "what was taken back stays so");
    // A look is enough.
    file.look_up(Token(3), "www.example.com", &owner).await.unwrap();
    assert!(file.publish(SECOND, www.clone(), None).await.is_err());
    assert!(file.retract(SECOND, &owner).await.is_err());
    assert!(file.look_up(SECOND, "www.example.com", &owner).await.is_err());
    let before = file.read().unwrap();
    file.look_up(Token(3), "www.example.com", &owner).await.unwrap();
    assert_eq!(file.read().unwrap(), before, "and a second one changes nothing");
}

#[tokio::test]
async fn a_file_of_somebody_else_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("zone");
    std::fs::write(&path, "www IN A 192.0.2.1\n").unwrap();
    let file = ZoneFile::new("example.com", &path);
    file.publish(FIRST, entry("www.example.com", "u1", 1), None).await.unwrap_err();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "www IN A 192.0.2.1\n");
    let other = folder.path().join("other");
    std::fs::write(&other, text::write(&Zone::new("example.org"))).unwrap();
    let error = ZoneFile::new("example.com", &other).read().unwrap_err();
    assert!(matches!(error, ZoneFileError::OtherZone { .. }), "{error}");
}

#[test]
fn a_zone_covers_itself_and_what_is_below() {
    let zone = Zone::new("example.com");
    for (name, covered) in
        [("example.com", true), ("a.b.example.com", true), ("myexample.com", false), ("example.org", false)]
    {
        assert_eq!(zone.covers(name), covered, "{name}");
    }
}
