//! The log's encoding of commands: nothing is lost, nothing cut or damaged is taken for a command, nothing panics.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use setpoint_store::command::{
    Alarm, AlarmAction, AlarmKind, Bounds, Command, Compare, DeleteRange, MemberAttributes, Operand,
    Operator, Order, Proposal, ProposalId, Put, Range, SortTarget, Txn, TxnOp,
};
use setpoint_store::commit::{Commit, Evenness, Guard, Op, Operation};
use setpoint_store::{Amounts, Author, Epoch, Fence, LeaseName, Unreadable};
use setpoint_types::{KeyRange, LeaseId, NodeId, Revision, Timestamp};

fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![9 => vec(any::<u8>(), 0..12), 1 => vec(any::<u8>(), 100..300)].prop_map(Bytes::from)
}

/// Numbers of every encoded length.
fn number() -> impl Strategy<Value = i64> {
    (any::<i64>(), 0u32..64).prop_map(|(number, shift)| number >> shift)
}

fn node() -> impl Strategy<Value = NodeId> {
    any::<u64>().prop_map(NodeId)
}

fn lease() -> impl Strategy<Value = LeaseId> {
    number().prop_map(LeaseId)
}

fn range() -> impl Strategy<Value = KeyRange> {
    prop_oneof![
        bytes().prop_map(KeyRange::Single),
        (bytes(), bytes()).prop_map(|(start, end)| KeyRange::Span { start, end }),
        bytes().prop_map(KeyRange::From),
    ]
}

prop_compose! {
    fn put()(
        key in bytes(), value in bytes(), lease in lease(),
        want_previous in any::<bool>(), keep_value in any::<bool>(), keep_lease in any::<bool>(),
    ) -> Put {
        Put { key, value, lease, want_previous, keep_value, keep_lease }
    }
}

prop_compose! {
    fn delete()(range in range(), want_previous in any::<bool>()) -> DeleteRange {
        DeleteRange { range, want_previous }
    }
}

prop_compose! {
    fn bounds()(
        modified_min in number(), modified_max in number(), created_min in number(), created_max in number(),
    ) -> Bounds {
        Bounds { modified_min, modified_max, created_min, created_max }
    }
}

fn sort_target() -> impl Strategy<Value = SortTarget> {
    use SortTarget::*;
    prop::sample::select(vec![Key, Version, Created, Modified, Value])
}

prop_compose! {
    fn read()(
        range in range(), limit in number(), revision in number(),
        order in prop::sample::select(vec![Order::Unspecified, Order::Ascending, Order::Descending]),
        by in sort_target(), keys_only in any::<bool>(), count_only in any::<bool>(), bounds in bounds(),
    ) -> Range {
        Range { range, limit, revision, order, by, keys_only, count_only, bounds }
    }
}

fn operator() -> impl Strategy<Value = Operator> {
    use Operator::*;
    prop::sample::select(vec![Equal, Greater, Less, NotEqual, Unknown])
}

fn operand() -> impl Strategy<Value = Operand> {
    prop_oneof![
        number().prop_map(Operand::Version),
        number().prop_map(Operand::Created),
        number().prop_map(Operand::Modified),
        number().prop_map(Operand::Lease),
        bytes().prop_map(Operand::Value),
        Just(Operand::Unknown),
    ]
}

prop_compose! {
    fn compare()(range in range(), operator in operator(), operand in operand()) -> Compare {
        Compare { range, operator, operand }
    }
}

fn txn() -> impl Strategy<Value = Txn> {
    let level = |op: BoxedStrategy<TxnOp>| {
        (vec(compare(), 0..3), vec(op.clone(), 0..3), vec(op, 0..3))
            .prop_map(|(compares, success, failure)| Txn { compares, success, failure })
    };
    let leaf = prop_oneof![
        read().prop_map(TxnOp::Range),
        put().prop_map(TxnOp::Put),
        delete().prop_map(TxnOp::DeleteRange),
    ];
    let op = leaf.prop_recursive(4, 16, 3, move |op| level(op).prop_map(TxnOp::Txn).boxed());
    level(op.boxed())
}

prop_compose! {
    fn attributes()(name in ".{0,6}", client_urls in vec(".{0,6}", 0..4)) -> MemberAttributes {
        MemberAttributes { name, client_urls }
    }
}

fn alarm() -> impl Strategy<Value = Command> {
    let action = prop::sample::select(vec![AlarmAction::Activate, AlarmAction::Deactivate]);
    let kind = prop::sample::select(vec![AlarmKind::NoSpace, AlarmKind::Corrupt]);
    (action, node(), kind)
        .prop_map(|(action, member, kind)| Command::Alarm { action, alarm: Alarm { member, kind } })
}

fn text() -> impl Strategy<Value = String> {
    ".{0,6}"
}

fn amounts() -> impl Strategy<Value = Amounts> {
    prop::collection::btree_map(text(), any::<u64>(), 0..3)
}

prop_compose! {
    fn fence()(namespace in text(), name in text(), epoch in any::<u64>()) -> Fence {
        Fence { lease: LeaseName { namespace, name }, epoch: Epoch(epoch) }
    }
}

prop_compose! {
    /// Without a time: that is the state machine's.
    fn author()(
        principal in text(), manager in text(), operation in text(), fence in prop::option::of(fence()), trace in text(),
    ) -> Author {
        Author { principal, manager, operation, fence, trace, time: Timestamp::default() }
    }
}

fn guard() -> impl Strategy<Value = Guard> {
    prop_oneof![
        (bytes(), any::<u64>())
            .prop_map(|(key, revision)| Guard::Revision { key, revision: Revision::new(revision) }),
        fence().prop_map(Guard::Fence),
        (text(), amounts()).prop_map(|(ledger, amounts)| Guard::Headroom { ledger, amounts }),
        any::<u64>().prop_map(Guard::Term),
        range().prop_map(Guard::Empty),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (bytes(), bytes(), lease()).prop_map(|(key, value, lease)| Op::Put { key, value, lease }),
        bytes().prop_map(|key| Op::Delete { key }),
        (text(), amounts()).prop_map(|(ledger, limits)| Op::Limits { ledger, limits }),
        (text(), text(), amounts()).prop_map(|(ledger, owner, amounts)| Op::Reserve {
            ledger,
            owner,
            amounts
        }),
        (text(), text()).prop_map(|(ledger, owner)| Op::Release { ledger, owner }),
        (fence(), text(), number(), lease()).prop_map(|(Fence { lease, epoch }, holder, ttl, id)| {
            Op::Hold { lease, holder, epoch, ttl, id }
        }),
        fence().prop_map(|Fence { lease, epoch }| Op::Vacate { lease, epoch }),
        (text(), text(), amounts()).prop_map(|(ledger, owner, amounts)| Op::Count { ledger, owner, amounts }),
        (bytes(), bytes(), any::<u64>()).prop_map(|(key, value, at)| Op::Stamped { key, value, at }),
        (text(), text(), text(), any::<u64>(), vec(text(), 0..3)).prop_map(
            |(ledger, owner, domain, max_skew, among)| {
                Op::Spread { ledger, owner, domain, evenness: Evenness { max_skew, among } }
            }
        ),
    ]
}

fn commit() -> impl Strategy<Value = Commit> {
    let operation = (bytes(), any::<u64>()).prop_map(|(id, fingerprint)| Operation { id, fingerprint });
    (prop::option::of(operation), prop::option::of(author()), vec(guard(), 0..3), vec(op(), 0..4))
        .prop_map(|(operation, author, guards, ops)| Commit { operation, author, guards, ops })
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        put().prop_map(Command::Put),
        delete().prop_map(Command::DeleteRange),
        txn().prop_map(Command::Txn),
        number().prop_map(|revision| Command::Compact { revision }),
        (lease(), number()).prop_map(|(lease, ttl)| Command::LeaseGrant { lease, ttl }),
        lease().prop_map(|lease| Command::LeaseRevoke { lease }),
        (lease(), any::<u64>()).prop_map(|(lease, term)| Command::LeaseExpire { lease, term }),
        alarm(),
        (node(), attributes()).prop_map(|(member, attributes)| Command::PublishMember { member, attributes }),
        node().prop_map(|member| Command::RemoveMember { member }),
        node().prop_map(|member| Command::ExpectVoter { member }),
        commit().prop_map(|commit| Command::Commit(Arc::new(commit))),
    ]
}

prop_compose! {
    fn proposal()(node in node(), sequence in any::<u64>(), command in command()) -> Proposal {
        Proposal { id: ProposalId { node, sequence }, command }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_proposal_is_read_back(proposal in proposal()) {
        prop_assert_eq!(Proposal::decode(proposal.encode()), Ok(proposal));
    }

    #[test]
    fn a_cut_or_lengthened_proposal_is_refused(proposal in proposal(), more in any::<u8>()) {
        let encoded = proposal.encode();
        for length in 0..encoded.len() {
            prop_assert_eq!(Proposal::decode(encoded.slice(..length)), Err(Unreadable), "cut to {}", length);
        }
        let mut longer = BytesMut::from(&encoded[..]);
        longer.put_u8(more);
        prop_assert_eq!(Proposal::decode(longer.freeze()), Err(Unreadable));
    }

    #[test]
    fn random_bytes_do_no_harm(tag in 0u8..14, rest in vec(any::<u8>(), 0..200)) {
        let mut bytes = header();
        bytes.put_u8(tag);
        bytes.put_slice(&rest);
        read_or_refuse(bytes.freeze())?;
        read_or_refuse(rest.into())?;
    }

    #[test]
    fn a_damaged_proposal_does_no_harm(proposal in proposal(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = BytesMut::from(&proposal.encode()[..]);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        read_or_refuse(bytes.freeze())?;
    }
}

/// What is read must be something that can be written and read again.
fn read_or_refuse(bytes: Bytes) -> Result<(), TestCaseError> {
    if let Ok(proposal) = Proposal::decode(bytes) {
        prop_assert_eq!(Proposal::decode(proposal.encode()), Ok(proposal));
    }
    Ok(())
}

/// A valid start: format and id. The tag of the command comes next.
fn header() -> BytesMut {
    let id = ProposalId { node: NodeId(1), sequence: 1 };
    let encoded = Proposal { id, command: Command::Compact { revision: 0 } }.encode();
    BytesMut::from(&encoded[..17])
}

fn nested(levels: usize) -> Txn {
    (1..levels).fold(Txn::default(), |inner, _| Txn { success: vec![TxnOp::Txn(inner)], ..Txn::default() })
}

/// Of the 128 operations a client may send, each can be a transaction around the next, and the last one may be empty.
#[test]
fn the_deepest_transaction_a_client_may_send_is_read_back() {
    let id = ProposalId { node: NodeId(1), sequence: 1 };
    let deepest = Proposal { id, command: Command::Txn(nested(129)) };
    assert_eq!(Proposal::decode(deepest.encode()), Ok(deepest));
    let deeper = Proposal { id, command: Command::Txn(nested(130)) };
    assert_eq!(Proposal::decode(deeper.encode()), Err(Unreadable));
}

/// A million levels, which no stack would hold.
#[test]
fn endless_nesting_is_refused_before_the_stack_ends() {
    let (no_compares, one_operation, transaction) = (0, 1, 4);
    let mut bytes = header();
    bytes.put_u8(3);
    for _ in 0..1_000_000 {
        bytes.put_slice(&[no_compares, one_operation, transaction]);
    }
    assert_eq!(Proposal::decode(bytes.freeze()), Err(Unreadable));
}

/// What earlier versions wrote is read by later ones: these bytes are in logs.
#[test]
fn entries_of_earlier_versions_are_read() {
    let commit = Commit {
        operation: Some(Operation { id: Bytes::from_static(b"o"), fingerprint: 2 }),
        author: Some(Author { principal: "p".to_owned(), ..Author::default() }),
        guards: vec![Guard::Term(5)],
        ops: vec![Op::Delete { key: Bytes::from_static(b"k") }],
    };
    let put = Put { key: Bytes::from_static(b"k"), value: Bytes::from_static(b"v"), ..Put::default() };
    let written: [(&[u8], Command); 2] = [
        (&[1, 0, 0, 1, b'k', 1, b'v'], Command::Put(put)),
        (
            &[12, 3, 1, b'o', 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, b'p', 0, 0, 0, 1, 4, 5, 1, 2, 1, b'k'],
            Command::Commit(Arc::new(commit)),
        ),
    ];
    for (bytes, command) in written {
        let mut entry = header();
        entry.put_slice(bytes);
        assert_eq!(Proposal::decode(entry.freeze()).map(|proposal| proposal.command), Ok(command));
    }
}

/// Memory is taken for what is there, not for what a length promises.
#[test]
fn a_huge_length_is_refused() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let after_tag: [&[u8]; 7] = [
        &[1, 0, 0],                      // a put: flags, lease, then the key's length
        &[3],                            // a transaction: then the number of compares
        &[3, 0],                         // the number of operations
        &[8, 0, 0, 0, 0, 0, 0, 0, 0, 0], // a member: id, empty name, then the number of addresses
        &[12, 0],                        // a commit: neither operation nor author, then the number of guards
        &[12, 0, 0],                     // the number of operations
        &[12, 0, 1, 3, 0], // a guard on the room in a ledger without a name: the number of amounts
    ];
    for start in after_tag {
        let mut bytes = header();
        bytes.put_slice(start);
        bytes.put_slice(&huge);
        assert_eq!(Proposal::decode(bytes.freeze()), Err(Unreadable), "{start:?}");
    }
}
