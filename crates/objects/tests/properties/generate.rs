//! Random configurations and writes. Few names and values, so that they meet.

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A spec, or a status.
#[derive(Clone, Debug)]
pub struct Config(pub Value);

/// One write.
#[derive(Clone, Debug)]
pub enum Step {
    Apply { manager: String, config: Config, force: bool, status: bool },
    Update { manager: String, config: Config, status: bool },
    Merge { manager: String, patch: Value },
}

pub fn schema() -> Value {
    let spec = json!({"type": "object", "properties": {
        "image": {"type": "string"},
        "replicas": {"type": "integer"},
        "paused": {"type": "boolean", "default": false},
        "zones": {"type": "array", "x-setpoint-list-type": "set", "items": {"type": "string"}},
        "args": {"type": "array", "items": {"type": "string"}},
        "selector": {"type": "object", "additionalProperties": {"type": "string"}, "x-setpoint-map-type": "atomic"},
        "resources": {"type": "object", "additionalProperties": {"type": "string"}},
        "template": {"type": "object", "properties": {"command": {"type": "string"}, "user": {"type": "string"}}},
        "ports": {
            "type": "array", "x-setpoint-list-type": "map", "x-setpoint-list-map-keys": ["port"],
            "items": {"type": "object", "properties": {
                "port": {"type": "integer"}, "name": {"type": "string"},
                "hosts": {"type": "array", "x-setpoint-list-type": "set", "items": {"type": "string"}},
            }},
        },
    }});
    json!({"type": "object", "properties": {"spec": spec, "status": spec}})
}

fn word() -> impl Strategy<Value = String> + Clone {
    prop_oneof![Just("a".to_owned()), Just("b".to_owned()), Just("x.y/z".to_owned())]
}

fn words() -> impl Strategy<Value = Value> {
    vec(word(), 0..3).prop_map(Value::from)
}

fn set(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    btree_set(prop::sample::select(names), 0..3)
        .prop_map(|members| Value::from(members.into_iter().collect::<Vec<_>>()))
        .prop_flat_map(|members| {
            let members = members.as_array().cloned().unwrap_or_default();
            Just(members).prop_shuffle().prop_map(Value::from)
        })
}

fn texts(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    btree_map(prop::sample::select(names), word(), 0..3).prop_map(|map| json!(map))
}

fn object(fields: Vec<(&'static str, Option<Value>)>) -> Value {
    let present = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    present.collect::<Map<_, _>>().into()
}

fn template() -> impl Strategy<Value = Value> {
    (option::of(word()), option::of(word())).prop_map(|(command, user)| {
        object(vec![("command", command.map(Value::from)), ("user", user.map(Value::from))])
    })
}

fn ports(numbers: &'static [u16]) -> impl Strategy<Value = Value> {
    let port = (option::of(word()), option::of(set(&["h", "i"])));
    btree_map(prop::sample::select(numbers), port, 0..3)
        .prop_map(|ports| {
            let item = |(port, (name, hosts)): (u16, (Option<String>, Option<Value>))| {
                object(vec![("port", Some(port.into())), ("name", name.map(Value::from)), ("hosts", hosts)])
            };
            ports.into_iter().map(item).collect::<Vec<_>>()
        })
        .prop_flat_map(|ports| Just(ports).prop_shuffle().prop_map(Value::from))
}

pub fn config() -> impl Strategy<Value = Config> {
    let plain = (option::of(word()), option::of(0..3), option::of(any::<bool>()), option::of(words()));
    let maps = (option::of(texts(&["a", "b"])), option::of(texts(&["a", "x.y/z"])), option::of(template()));
    let lists = (option::of(set(&["a", "b", "c"])), option::of(ports(&[1, 2, 3])));
    (plain, maps, lists).prop_map(
        |((image, replicas, paused, args), (selector, resources, template), (zones, ports))| {
            Config(object(vec![
                ("image", image.map(Value::from)),
                ("replicas", replicas.map(Value::from)),
                ("paused", paused.map(Value::from)),
                ("args", args),
                ("selector", selector),
                ("resources", resources),
                ("template", template),
                ("zones", zones),
                ("ports", ports),
            ]))
        },
    )
}

/// Configurations of which those of one half share no field with those of the other.
pub fn half(which: usize) -> impl Strategy<Value = Config> {
    let zones: [&'static [&'static str]; 2] = [&["a", "b"], &["c", "d"]];
    let numbers: [&'static [u16]; 2] = [&[1, 2], &[3, 4]];
    let keys: [&'static [&'static str]; 2] = [&["a"], &["b", "c"]];
    let fields = [["image", "command"], ["paused", "user"]][which];
    let parts = (option::of(word()), option::of(word()));
    let lists =
        (option::of(set(zones[which])), option::of(ports(numbers[which])), option::of(texts(keys[which])));
    (parts, lists).prop_map(move |((plain, inner), (zones, ports, resources))| {
        // Both halves own what is empty, and that is one field.
        let filled = |value: Option<Value>| {
            value.filter(|it| {
                it.as_array().is_none_or(|it| !it.is_empty())
                    && it.as_object().is_none_or(|it| !it.is_empty())
            })
        };
        Config(object(vec![
            (fields[0], plain.map(Value::from)),
            ("template", inner.map(|inner| object(vec![(fields[1], Some(inner.into()))]))),
            ("zones", filled(zones)),
            ("ports", filled(ports)),
            ("resources", filled(resources)),
        ]))
    })
}

fn manager() -> impl Strategy<Value = String> {
    prop_oneof![3 => (0..3_u8).prop_map(|it| format!("m{it}")), 1 => (0..20_u8).prop_map(|it| format!("u{it}"))]
}

fn step() -> impl Strategy<Value = Step> {
    let applied = (manager(), config(), any::<bool>(), prop::bool::weighted(0.2));
    let updated = (manager(), config(), prop::bool::weighted(0.2));
    prop_oneof![
        4 => applied.prop_map(|(manager, config, force, status)| Step::Apply { manager, config, force, status }),
        2 => updated.prop_map(|(manager, config, status)| Step::Update { manager, config, status }),
        2 => (manager(), config()).prop_map(|(manager, config)| Step::Merge { manager, patch: json!({"spec": config.0}) }),
    ]
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 0..12)
}
