//! Everything that can be wrong: what is asked, the reason it is refused for, and what the refusal names.

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::guard::Guard;
use setpoint_api::setpoint::v1::patch_request::Type as PatchType;
use setpoint_api::setpoint::v1::read_at::At;
use setpoint_api::setpoint::v1::write::Write;

use super::Scene;
use super::ask::{
    Ask, Case, Names, apply, create, create_with, fenced, get, get_at, key, list, object, patch, reserve,
    thing, transact, update, with,
};

pub fn malformed() -> Vec<Case> {
    use Names::Field;
    use Reason::{Invalid, TooLarge};
    let deep = format!("{}{}", r#"{"free":"#.repeat(70), "}".repeat(70));
    let large = format!(r#"{{"free":{{"a":"{}"}}}}"#, "x".repeat(1 << 20));
    let huge = format!(r#"{{"free":{{"a":"{}"}}}}"#, "x".repeat(9 << 20));
    let long = format!(r#"{{"{}":1}}"#, "x".repeat(1 << 19));
    let method = "/setpoint.v1.Objects/Create";
    vec![
        ("bytes that are no message", Ask::Bytes(method, &[0x0a, 0xff]), Invalid, Names::Nothing),
        ("no object", Ask::Create(pb::CreateRequest::default()), Invalid, Field("object")),
        ("no key", Ask::Delete(pb::DeleteRequest::default()), Invalid, Field("key")),
        ("spec that is no JSON", create(thing("a", "{")), Invalid, Field(".spec")),
        ("spec that is no object", create(thing("a", "[1]")), Invalid, Field(".spec")),
        ("built-in spec that is no object", create(object("Workload", "a", "3")), Invalid, Field(".spec")),
        ("spec that is too deep", create(thing("a", &deep)), Invalid, Field(".spec")),
        ("object that is too large", create(thing("a", &large)), TooLarge, Field("object")),
        ("request that is too large", create(thing("a", &huge)), TooLarge, Names::Nothing),
        ("unknown field with a huge name", create(thing("a", &long)), Invalid, Names::Object("a")),
        ("unknown kind", create(object("Gadget", "a", "{}")), Invalid, Field("kind")),
        ("no kind", create(object("", "a", "{}")), Invalid, Field("kind")),
    ]
}

pub fn names() -> Vec<Case> {
    use Names::Field;
    use Reason::{AlreadyExists, Invalid, NotFound};
    let named = |name: &str| create(thing(name, "{}"));
    let in_namespace = |namespace: &str| create(with(thing("a", "{}"), |it| it.namespace = namespace.into()));
    let generated = |prefix: &str| create(with(thing("", "{}"), |it| it.generate_name = prefix.into()));
    let labelled = |key: &str, value: &str| {
        create(with(thing("a", "{}"), |it| drop(it.labels.insert(key.into(), value.into()))))
    };
    vec![
        ("no name", named(""), Invalid, Field(".metadata.name")),
        ("name in capitals", named("Web"), Invalid, Field(".metadata.name")),
        ("name with a slash", named("a/b"), Invalid, Field(".metadata.name")),
        ("name with an empty part", named("a..b"), Invalid, Field(".metadata.name")),
        ("name that is too long", named(&"a".repeat(254)), Invalid, Field(".metadata.name")),
        ("name that is taken", named("web"), AlreadyExists, Names::Object("web")),
        ("prefix in capitals", generated("Web-"), Invalid, Field(".metadata.generateName")),
        ("namespace with a dot", in_namespace("a.b"), Invalid, Field(".metadata.namespace")),
        ("namespace with a slash", in_namespace("a/b"), Invalid, Field(".metadata.namespace")),
        ("namespace that is not there", in_namespace("nowhere"), NotFound, Names::Object("nowhere")),
        (
            "namespace of a kind that has none",
            create(with(object("Namespace", "a", "{}"), |it| it.namespace = "default".into())),
            Invalid,
            Field(".metadata.namespace"),
        ),
        ("bad key of a label", labelled("a b", "c"), Invalid, Field(".metadata.labels.\"a b\"")),
        ("bad value of a label", labelled("a", "b c"), Invalid, Field(".metadata.labels.a")),
        (
            "bad finalizer",
            create(with(thing("a", "{}"), |it| it.finalizers = vec!["a b".into()])),
            Invalid,
            Field(".metadata.finalizers[\"a b\"]"),
        ),
        ("bad manager", apply(thing("web", "{}"), &"m".repeat(129)), Invalid, Field("options.manager")),
        ("apply without a manager", apply(thing("web", "{}"), ""), Invalid, Field("options.manager")),
        (
            "operation id that is too long",
            create_with(
                thing("a", "{}"),
                pb::WriteOptions { operation: "o".repeat(129), ..Default::default() },
            ),
            Invalid,
            Field("options.operation"),
        ),
    ]
}

pub fn fields(scene: &Scene) -> Vec<Case> {
    use Names::Field;
    use Reason::{Conflict, Invalid};
    let owned_by = |name: &str, uid: &str| {
        let owner = pb::OwnerReference {
            kind: "Thing".into(),
            name: name.into(),
            uid: uid.into(),
            ..Default::default()
        };
        update(with(thing("parent", "{}"), |it| it.owners = vec![owner]))
    };
    let status = |text: &str| {
        let object = Some(pb::Object { status: text.to_owned().into(), ..thing("web", "") });
        Ask::UpdateStatus(pb::UpdateRequest { object, options: None })
    };
    vec![
        ("unknown field", create(thing("a", r#"{"replica":1}"#)), Invalid, Field(".spec.replica")),
        ("repeated field", create(thing("a", r#"{"size":"a","size":"b"}"#)), Invalid, Field(".spec.size")),
        ("wrong type", create(thing("a", r#"{"replicas":"1"}"#)), Invalid, Field(".spec.replicas")),
        (
            "wrong type in a built-in kind",
            create(object("Quota", "a", r#"{"limits":3}"#)),
            Invalid,
            Field(".spec.limits"),
        ),
        ("out of bounds", create(thing("a", r#"{"replicas":101}"#)), Invalid, Field(".spec.replicas")),
        (
            "a set with one twice",
            create(thing("a", r#"{"zones":["x","x"]}"#)),
            Invalid,
            Field(".spec.zones[\"x\"]"),
        ),
        ("against a rule", create(thing("a", r#"{"replicas":13}"#)), Invalid, Field(".spec")),
        ("against a policy", create(thing("a", r#"{"replicas":7}"#)), Invalid, Field(".spec.replicas")),
        ("wrong status", status(r#"{"ready":1}"#), Invalid, Field(".status.ready")),
        ("unknown field of the status", status(r#"{"red":true}"#), Invalid, Field(".status.red")),
        (
            "immutable field",
            update(thing("web", r#"{"replicas":1,"size":"b"}"#)),
            Invalid,
            Field(".spec.size"),
        ),
        (
            "field of another manager",
            apply(thing("web", r#"{"replicas":2}"#), "other"),
            Conflict,
            Names::Owner(".spec.replicas", "owner"),
        ),
        (
            "owner of itself",
            owned_by("parent", &scene.uid),
            Invalid,
            Field(Box::leak(format!(".metadata.owners[uid=\"{}\"]", scene.uid).into_boxed_str())),
        ),
        (
            "owners in a circle",
            owned_by("child", &scene.child),
            Invalid,
            Field(Box::leak(format!(".metadata.owners[uid=\"{}\"]", scene.child).into_boxed_str())),
        ),
    ]
}

pub fn reads(scene: &Scene) -> Vec<Case> {
    use Names::Field;
    use Reason::{Expired, Invalid, NotFound, Timeout};
    let token = |token: &str| list(|it| it.r#continue = token.to_owned());
    let damaged = format!("{}0", &scene.token[..scene.token.len() - 1]);
    let damaged = if damaged == scene.token { scene.token.replace('0', "1") } else { damaged };
    let foreign = Ask::List(pb::ListRequest {
        kind: "Workload".into(),
        r#continue: scene.token.clone(),
        ..Default::default()
    });
    let watch = |change: fn(&mut pb::WatchRequest)| {
        let mut request = pb::WatchRequest { kind: "Thing".into(), ..Default::default() };
        change(&mut request);
        Ask::Watch(request)
    };
    vec![
        ("object that is not there", get("Thing", "none"), NotFound, Names::Object("none")),
        ("unknown kind to get", get("Gadget", "a"), Invalid, Field("kind")),
        ("no name to get", get("Thing", ""), Invalid, Field("name")),
        ("unknown kind to list", list(|it| it.kind = "Gadget".into()), Invalid, Field("kind")),
        ("bad labels", list(|it| it.label_selector = "a in".into()), Invalid, Field("label_selector")),
        ("bad fields", list(|it| it.field_selector = "spec.size".into()), Invalid, Field("field_selector")),
        (
            "field that is not selectable",
            list(|it| it.field_selector = "spec.replicas=1".into()),
            Invalid,
            Field("field_selector"),
        ),
        ("token that is none", token("xyz"), Invalid, Field("continue")),
        ("token that is damaged", token(&damaged), Invalid, Field("continue")),
        ("token of another list", foreign, Invalid, Field("continue")),
        ("token that is stale", token(&scene.stale), Expired, Names::Revision),
        ("revision zero", get_at(At::Exact(0)), Invalid, Field("at.exact")),
        ("revision beyond all", get_at(At::Exact(u64::MAX)), Invalid, Field("at.exact")),
        ("revision of the future", get_at(At::Exact(1 << 40)), Timeout, Names::Revision),
        ("revision that is compacted", get_at(At::Exact(2)), Expired, Names::Revision),
        ("time before history", get_at(At::TimeMs(1)), Expired, Names::Revision),
        ("bad labels to watch", watch(|it| it.label_selector = "=".into()), Invalid, Field("label_selector")),
        ("compacted revision to watch", watch(|it| it.from_revision = 1), Expired, Names::Revision),
        ("unknown kind to watch", watch(|it| it.kind = "Gadget".into()), Invalid, Field("kind")),
        (
            "history of nothing",
            Ask::History(pb::HistoryRequest { key: key("Thing", ""), ..Default::default() }),
            Invalid,
            Field("name"),
        ),
    ]
}

pub fn conditions() -> Vec<Case> {
    use Names::Field;
    use Reason::{Conflict, NotFound};
    let delete = |uid: &str, revision| {
        Ask::Delete(pb::DeleteRequest {
            key: key("Thing", "web"),
            uid: uid.into(),
            revision,
            ..Default::default()
        })
    };
    let at_revision = with(thing("web", r#"{"size":"a"}"#), |it| it.revision = 2);
    let of_another = with(thing("web", r#"{"size":"a"}"#), |it| it.uid = "u".into());
    let used = pb::WriteOptions { operation: "used".into(), ..Default::default() };
    vec![
        ("update of nothing", update(thing("none", "{}")), NotFound, Names::Object("none")),
        ("update of an old revision", update(at_revision.clone()), Conflict, Field(".metadata.revision")),
        ("update of another uid", update(of_another), Conflict, Field(".metadata.uid")),
        (
            "create at a revision",
            create(with(thing("a", "{}"), |it| it.revision = 2)),
            Conflict,
            Names::Object("a"),
        ),
        ("delete of an old revision", delete("", 2), Conflict, Field(".metadata.revision")),
        ("delete of another uid", delete("u", 0), Conflict, Field(".metadata.uid")),
        (
            "operation id of another request",
            create_with(thing("second", "{}"), used),
            Conflict,
            Field("options.operation"),
        ),
    ]
}

pub fn definitions() -> Vec<Case> {
    use Names::Field;
    use Reason::Invalid;
    let kind = |schema: &str| {
        let spec = format!(
            r#"{{"names":{{"kind":"Gadget","plural":"gadgets"}},"schema":{{"type":"object","properties":{{"spec":{schema}}}}}}}"#
        );
        create(object("KindDefinition", "gadgets", &spec))
    };
    let policy = |part: &str| {
        let spec = format!(r#"{{"match":{{"kinds":["Thing"]}},{part}}}"#);
        create(object("AdmissionPolicy", "bad", &spec))
    };
    const RULE: &str = ".spec.schema.properties.spec.x-setpoint-rules[0].rule";
    vec![
        (
            "rule that is no expression",
            kind(r#"{"type":"object","x-setpoint-rules":[{"rule":"self.a +"}]}"#),
            Invalid,
            Field(RULE),
        ),
        (
            "rule of an unknown variable",
            kind(r#"{"type":"object","x-setpoint-rules":[{"rule":"nobody.a"}]}"#),
            Invalid,
            Field(RULE),
        ),
        (
            "schema of no type",
            kind(r#"{"type":"thing"}"#),
            Invalid,
            Field(".spec.schema.properties.spec.type"),
        ),
        (
            "schema that refers to itself",
            kind(r##"{"type":"object","properties":{"a":{"$ref":"#/properties/spec"}}}"##),
            Invalid,
            Field(".spec.schema.properties.spec.properties.a.$ref"),
        ),
        (
            "pattern that is none",
            kind(r#"{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}"#),
            Invalid,
            Field(".spec.schema.properties.spec.properties.a.pattern"),
        ),
        (
            "kind of a built-in name",
            create(object(
                "KindDefinition",
                "workloads",
                r#"{"names":{"kind":"Workload","plural":"workloads"},"schema":{"type":"object"}}"#,
            )),
            Invalid,
            Field(".spec.names.kind"),
        ),
        (
            "policy that is no expression",
            policy(r#""validations":[{"expression":"object.spec.("}]"#),
            Invalid,
            Field(".spec.validations[0].expression"),
        ),
        (
            "mutation that is no expression",
            policy(r#""mutations":[{"type":"Merge","expression":"{"}]"#),
            Invalid,
            Field(".spec.mutations[0].expression"),
        ),
        (
            "match condition that is no expression",
            policy(
                r#""matchConditions":[{"name":"a","expression":"]"}],"validations":[{"expression":"true"}]"#,
            ),
            Invalid,
            Field(".spec.matchConditions[0].expression"),
        ),
    ]
}

pub fn transactions() -> Vec<Case> {
    use Names::Field;
    use Reason::{AlreadyExists, Conflict, Fenced, Invalid, NoHeadroom};
    let many = (0..600).map(|number| Write::Create(thing(&format!("t{number}"), "{}"))).collect();
    let at = |name: &str, revision| Guard::Object(pb::ObjectAt { key: key("Thing", name), revision });
    let room = |cpu| {
        Guard::Headroom(pb::Headroom { ledger: "desk".into(), amounts: [("cpu".to_owned(), cpu)].into() })
    };
    let fence = Guard::Fence(pb::Fence { namespace: String::new(), lease: "door".into(), epoch: 1 });
    let a = || Write::Create(thing("a", "{}"));
    let empty = |guards: usize, writes: usize| {
        let (guards, writes) = (vec![pb::Guard::default(); guards], vec![pb::Write::default(); writes]);
        Ask::Transact(pb::TransactRequest { guards, writes, options: None })
    };
    let nameless = Write::Release(pb::Release { ledger: String::new(), owner: "o".into() });
    vec![
        ("too many writes", transact(vec![], many), Invalid, Field("writes")),
        ("empty guard", empty(1, 0), Invalid, Field("guards[0].guard")),
        ("empty write", empty(0, 1), Invalid, Field("writes[0].write")),
        ("one object twice", transact(vec![], vec![a(), a()]), Invalid, Field("writes[1]")),
        (
            "one write of two refused",
            transact(vec![], vec![a(), Write::Create(thing("web", "{}"))]),
            AlreadyExists,
            Names::Object("web"),
        ),
        (
            "one write of two invalid",
            transact(vec![], vec![a(), Write::Create(thing("b", r#"{"replicas":"1"}"#))]),
            Invalid,
            Names::Object("b"),
        ),
        (
            "negative amount",
            transact(vec![], vec![a(), reserve("two", -1)]),
            Invalid,
            Field("writes[1].reserve.amounts"),
        ),
        (
            "negative amount in a guard",
            transact(vec![room(-1)], vec![a()]),
            Invalid,
            Field("guards[0].headroom.amounts"),
        ),
        (
            "ledger without a name",
            transact(vec![], vec![nameless]),
            Invalid,
            Field("writes[0].release.ledger"),
        ),
        (
            "more than a ledger has",
            transact(vec![], vec![a(), reserve("two", 2)]),
            NoHeadroom,
            Names::Ledger("desk"),
        ),
        (
            "guard of more than there is",
            transact(vec![room(2)], vec![a()]),
            NoHeadroom,
            Names::Ledger("desk"),
        ),
        (
            "place of what a ledger has not",
            transact(vec![], vec![a(), reserve("two", 2)]),
            NoHeadroom,
            Field("writes[1].reserve.amounts"),
        ),
        (
            "guard of an old revision",
            transact(vec![room(1), at("web", 1)], vec![a()]),
            Conflict,
            Field("guards[1]"),
        ),
        ("object of a guard", transact(vec![at("web", 1)], vec![a()]), Conflict, Names::Object("web")),
        ("guard of what is there", transact(vec![at("web", 0)], vec![a()]), Conflict, Names::Object("web")),
        ("guard by an old fence", transact(vec![fence], vec![a()]), Fenced, Names::Held(2)),
    ]
}

pub fn holds(scene: &Scene) -> Vec<Case> {
    use Names::Field;
    use Reason::{Fenced, Invalid};
    let fenced_by = |lease: &str, epoch| create_with(thing("a", "{}"), fenced(lease, epoch));
    let asked = |lease: &str, holder: &str, ttl_seconds| {
        let (lease, holder) = (lease.into(), holder.into());
        Ask::Acquire(pb::AcquireRequest { lease, holder, ttl_seconds, ..Default::default() })
    };
    let holder = pb::Object { status: r#"{"holder":"me"}"#.into(), ..object("Lease", "door", "") };
    let stolen = Ask::UpdateStatus(pb::UpdateRequest { object: Some(holder), options: None });
    vec![
        ("stale fence", fenced_by("door", 1), Fenced, Names::Held(2)),
        ("field of a stale fence", fenced_by("door", 1), Fenced, Field("options.fence")),
        ("fence of the future", fenced_by("door", 3), Fenced, Names::Held(2)),
        ("fence of no lease", fenced_by("window", 1), Fenced, Names::Held(0)),
        (
            "fence of a hold that ran out",
            fenced_by("short", scene.expired),
            Fenced,
            Names::Held(scene.expired),
        ),
        ("fence without an epoch", fenced_by("door", 0), Invalid, Field("options.fence")),
        ("lease without a name", asked("", "h", 1), Invalid, Field(".metadata.name")),
        ("lease without a holder", asked("door", "", 1), Invalid, Field("holder")),
        ("lease for too long", asked("door", "h", 4000), Invalid, Field("ttl_seconds")),
        ("holder by hand", stolen, Invalid, Field(".status")),
    ]
}

pub fn patches() -> Vec<Case> {
    use Names::Field;
    use PatchType::{Json, Merge};
    use Reason::{Conflict, Invalid, NotFound, TooLarge};
    let double = |number: u8| format!(r#"{{"op":"copy","from":"/spec/free","path":"/spec/free/x{number}"}}"#);
    let bomb = format!(
        r#"[{{"op":"add","path":"/spec/free","value":{{"a":"{}"}}}},{}]"#,
        "x".repeat(1000),
        (0..30).map(double).collect::<Vec<_>>().join(",")
    );
    vec![
        ("patch of nothing", patch(Merge, "none", "{}"), NotFound, Names::Object("none")),
        ("merge patch that is no JSON", patch(Merge, "web", "{"), Invalid, Field("patch")),
        ("merge patch to no object", patch(Merge, "web", "3"), Invalid, Field("patch")),
        (
            "merge patch of a wrong type",
            patch(Merge, "web", r#"{"spec":{"replicas":"1"}}"#),
            Invalid,
            Field(".spec.replicas"),
        ),
        (
            "merge patch of an unknown field",
            patch(Merge, "web", r#"{"spec":{"replica":1}}"#),
            Invalid,
            Field(".spec.replica"),
        ),
        (
            "merge patch of the name",
            patch(Merge, "web", r#"{"metadata":{"name":"b"}}"#),
            Invalid,
            Field(".metadata.name"),
        ),
        ("merge patch of an unknown part", patch(Merge, "web", r#"{"specs":{}}"#), Invalid, Field(".specs")),
        ("JSON patch that is no list", patch(Json, "web", "{}"), Invalid, Field("patch")),
        (
            "JSON patch of an unknown operation",
            patch(Json, "web", r#"[{"op":"grow","path":"/spec"}]"#),
            Invalid,
            Field("patch"),
        ),
        (
            "JSON patch of what is not there",
            patch(Json, "web", r#"[{"op":"remove","path":"/spec/free"}]"#),
            Invalid,
            Field(".spec.free"),
        ),
        (
            "JSON patch whose test fails",
            patch(Json, "web", r#"[{"op":"test","path":"/spec/replicas","value":9}]"#),
            Conflict,
            Field(".spec.replicas"),
        ),
        ("JSON patch that grows", patch(Json, "web", &bomb), TooLarge, Field("patch")),
    ]
}
