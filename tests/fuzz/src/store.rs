//! What the Raft log and the tables hold for the state machine.

use bytes::Bytes;
use setpoint_store::command::Proposal;
use setpoint_store::encoding::{KeyVersion, MetaKey};
use setpoint_store::ledger::{LedgerKey, decode_reservation, encode_reservation};
use setpoint_store::{Change, Epoch, Hold, LeaseName, Ledger, Record, RecordId};
use setpoint_types::Revision;

/// A command that can be read is written down as one that reads the same.
pub fn command(data: &[u8]) {
    if let Ok(proposal) = Proposal::decode(Bytes::copy_from_slice(data)) {
        assert_eq!(Proposal::decode(proposal.encode()).as_ref(), Ok(&proposal));
    }
}

/// The same for every sort of row. Keys are one to one: what is written down is what was read.
pub fn rows(data: &[u8]) {
    let row = Bytes::copy_from_slice(data);
    if let Ok(record) = Record::decode(row.clone()) {
        let outline = Record::outline(data).expect("whatever is a record has an outline");
        assert_eq!((outline.key, outline.replaced), (&record.key[..], record.replaced));
        assert_eq!(outline.deleted, record.change == Change::Delete);
        assert_eq!(Record::decode(record.encode().into()).as_ref(), Ok(&record));
    }
    let id = RecordId { revision: Revision::new(7), sub: 3 };
    if let Ok(version) = KeyVersion::decode(id, data) {
        assert_eq!(KeyVersion::decode(id, &version.encode()), Ok(version));
    }
    if let Ok(id) = RecordId::decode(data) {
        assert_eq!(id.encode(), data);
    }
    if let Ok(key) = MetaKey::decode(data) {
        assert_eq!(key.encode(), data);
    }
    if let Ok(ledger) = Ledger::decode(row.clone()) {
        assert_eq!(Ledger::decode(ledger.encode()).as_ref(), Ok(&ledger));
    }
    if let Ok(amounts) = decode_reservation(row.clone()) {
        assert_eq!(decode_reservation(encode_reservation(&amounts)).as_ref(), Ok(&amounts));
    }
    if let Ok(hold) = Hold::decode(row.clone()) {
        assert_eq!(Hold::decode(hold.encode()).as_ref(), Ok(&hold));
    }
    if let Ok(epoch) = Epoch::decode(row) {
        assert_eq!(Epoch::decode(epoch.encode()), Ok(epoch));
    }
    keys(data);
}

/// Names in keys are escaped, and come back as they were.
fn keys(data: &[u8]) {
    if let Some(lease) = LeaseName::of_hold_key(data) {
        assert_eq!(LeaseName::of_hold_key(&lease.hold_key()), Some(lease));
    }
    let key = match LedgerKey::parse(data) {
        Some(LedgerKey::Ledger(name)) => Ledger::key(&name),
        Some(LedgerKey::Reservation { ledger, owner }) => Ledger::reservation_key(&ledger, &owner),
        None => return,
    };
    assert_eq!(LedgerKey::parse(&key), LedgerKey::parse(data));
}
