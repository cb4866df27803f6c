//! Whatever comes in, nothing panics, and what comes out can be read again.
//!
//! A fixed seed, so that a failure repeats; bounded by a count, and by time for slow machines.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use setpoint_objects::apply::apply;
use setpoint_objects::decode::decode;
use setpoint_objects::fields::{FieldSet, Step};
use setpoint_objects::managed::Writer;
use setpoint_objects::patch::{self, PatchKind};
use setpoint_objects::update::update;
use setpoint_objects::{
    ManagedFields, Operation, Subresource, Topology, default, immutable, metadata, unknown,
};

const ROUNDS: usize = 4_000;
const TIME_MAX: Duration = Duration::from_secs(10);

/// SplitMix64: small, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % below as u64).expect("less than `below`")
    }

    fn one_of<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.roll(words.len())]
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.roll(if depth == 0 { 6 } else { 10 }) {
            0 => Value::Null,
            1 => json!(self.roll(2) == 0),
            2 => json!(self.roll(3)),
            3 => [json!(-1), json!(1.5), json!(u64::MAX), json!(-0.0)][self.roll(4)].clone(),
            4 | 5 => self.one_of(&["a", "b", "", "x.y/z", "]\"="]).into(),
            6 | 7 => (0..self.roll(4)).map(|_| self.value(depth - 1)).collect(),
            _ => {
                let fields =
                    (0..self.roll(4)).map(|_| (self.one_of(NAMES).to_owned(), self.value(depth - 1)));
                fields.collect::<Map<_, _>>().into()
            }
        }
    }

    /// Often a schema that means something, sometimes one that does not.
    fn schema(&mut self, depth: usize) -> Value {
        let mut schema = Map::new();
        let mut put = |name: &str, value: Value| drop(schema.insert(name.to_owned(), value));
        match self.roll(if depth == 0 { 3 } else { 9 }) {
            0 => put("type", self.one_of(&["string", "integer", "boolean", "null"]).into()),
            1 => put("$ref", self.one_of(&["#/$defs/a", "#/$defs/b", "#", "#/x", "y"]).into()),
            2 => return self.value(1),
            3..=5 => {
                put("type", "object".into());
                let fields =
                    (0..self.roll(4)).map(|_| (self.one_of(NAMES).to_owned(), self.schema(depth - 1)));
                let fields: Map<_, _> = fields.collect();
                put("properties", fields.into());
                if self.roll(3) == 0 {
                    put("additionalProperties", self.schema(depth - 1));
                }
            }
            6 | 7 => {
                put("type", "array".into());
                put("items", self.schema(depth - 1));
                put("x-setpoint-list-type", self.one_of(&["map", "set", "atomic"]).into());
                put("x-setpoint-list-map-keys", json!([self.one_of(NAMES)]));
            }
            _ => put(
                self.one_of(&["anyOf", "allOf", "oneOf"]),
                json!([self.schema(depth - 1), self.schema(depth - 1)]),
            ),
        }
        if self.roll(4) == 0 {
            put("default", self.value(2));
        }
        if self.roll(8) == 0 {
            put(self.one_of(&["x-setpoint-immutable", "x-setpoint-preserve-unknown"]), true.into());
        }
        schema.into()
    }

    fn managed(&mut self, documents: &[&Value], topology: &Topology) -> Vec<ManagedFields> {
        let entry = |dice: &mut Self, index: usize| {
            let mut fields = FieldSet::of(topology, documents[dice.roll(documents.len())]).print();
            if dice.roll(4) == 0 {
                fields.push(
                    dice.one_of(&["", "nonsense", ".spec", ".spec.a", ".a[b=1]", ".spec[\"a\"].b"])
                        .to_owned(),
                );
                fields.sort();
            }
            ManagedFields {
                manager: format!("m{index}"),
                operation: if dice.roll(2) == 0 { Operation::Apply } else { Operation::Update },
                subresource: Subresource::Main,
                time_ms: 0,
                fields,
            }
        };
        (0..self.roll(3)).map(|index| entry(self, index)).collect()
    }
}

const NAMES: &[&str] = &["a", "b", "c", "x.y/z", ""];

fn any_topology(dice: &mut Dice) -> Option<Topology> {
    let schema = json!({
        "properties": {"spec": dice.schema(4), "status": dice.schema(2)},
        "$defs": {"a": dice.schema(2), "b": dice.schema(2)},
    });
    Topology::of_kind(&schema).ok()
}

#[test]
fn ownership_and_merging_survive_any_json() {
    let mut dice = Dice(7);
    let start = Instant::now();
    let (mut rounds, mut compiled, mut merged) = (0, 0, 0);
    for round in 0..ROUNDS {
        let topology = any_topology(&mut dice);
        rounds += 1;
        compiled += usize::from(topology.is_some());
        let topology = topology.unwrap_or_else(Topology::any);
        let document = |dice: &mut Dice| json!({"metadata": dice.value(2), "spec": dice.value(4)});
        let (live, config) = (document(&mut dice), document(&mut dice));
        let managed = dice.managed(&[&live, &config], &topology);
        let writer =
            Writer { manager: "m0", operation: Operation::Apply, subresource: Subresource::Main, time_ms: 1 };
        for force in [false, true] {
            let Ok(applied) = apply(&topology, &live, &managed, config.clone(), &writer, force) else {
                continue;
            };
            merged += 1;
            for entry in &applied.managed {
                check_printed(&entry.fields, round);
            }
            let again = apply(&topology, &applied.document, &applied.managed, config.clone(), &writer, false);
            assert_eq!(again.map(|it| it.document), Ok(applied.document), "round {round}");
        }
        let writer = Writer { operation: Operation::Update, ..writer };
        for entry in update(&topology, &live, &config, managed, &writer) {
            check_printed(&entry.fields, round);
        }
        let (mut pruned, mut filled) = (live["spec"].clone(), live["spec"].clone());
        unknown::prune(&mut pruned, &topology, topology.spec(), ".spec");
        default::drop_nulls(&mut filled, &topology, topology.spec());
        default::fill(&mut filled, &topology, topology.spec(), &Value::Null, "").expect("little");
        immutable::check(&topology, topology.spec(), &live["spec"], &config["spec"], ".spec");
        let _ = metadata::from_json(&live["metadata"]);
        if start.elapsed() > TIME_MAX {
            break;
        }
    }
    // Nonsense alone would test nothing but the refusals.
    assert!(
        compiled > rounds / 4 && merged > rounds / 4,
        "{compiled} schemas and {merged} merges of {rounds}"
    );
}

/// A line that was no path before may be left over in an entry nobody touched.
fn check_printed(lines: &[String], round: usize) {
    for line in lines {
        if let Ok(path) = Step::parse(line) {
            assert_eq!(&Step::print(&path), line, "round {round}");
        }
    }
}

#[test]
fn patches_survive_any_json() {
    let mut dice = Dice(11);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        let document = dice.value(4);
        let _ = patch::apply(PatchKind::Merge, &document, &dice.value(4));
        let operations: Vec<Value> = (0..dice.roll(5))
            .map(|_| {
                let pointers =
                    ["", "/", "/a", "/a/b", "/a/0", "/b/-", "/a/b/c", "/x.y~1z", "a", "/c/00", "/~2"];
                let names = ["add", "remove", "replace", "move", "copy", "test", "grow"];
                json!({
                    "op": dice.one_of(&names), "path": dice.one_of(&pointers), "from": dice.one_of(&pointers),
                    "value": dice.value(2),
                })
            })
            .collect();
        let _ = patch::apply(PatchKind::Json, &document, &operations.into());
        let _ = patch::apply(PatchKind::Json, &document, &dice.value(3));
        if start.elapsed() > TIME_MAX {
            return;
        }
    }
}

#[test]
fn decoders_survive_any_bytes() {
    let mut dice = Dice(13);
    let start = Instant::now();
    let seeds: [&[u8]; 3] = [
        br#"{"a":[1,-2.5e3,{"b":null,"b":true}],"c":"\u00e9"}"#,
        br#".spec.ports[port=80,protocol="TCP"].name"#,
        br#".metadata.labels."a.b/c"["x"][1.5][true]"#,
    ];
    for _ in 0..ROUNDS {
        let mut bytes = seeds[dice.roll(seeds.len())].to_vec();
        for _ in 0..=dice.roll(4) {
            let at = dice.roll(bytes.len());
            match dice.roll(3) {
                0 => bytes[at] = u8::try_from(dice.roll(256)).expect("a byte"),
                1 => bytes.insert(at, b"[]{}\",:.=\\0-"[dice.roll(12)]),
                _ => bytes.truncate(at.max(1)),
            }
        }
        if let Ok(decoded) = decode(&bytes, "") {
            let again = decode(decoded.value.to_string().as_bytes(), "").expect("what was printed");
            assert_eq!(again.value, decoded.value);
        }
        if let Some(path) = std::str::from_utf8(&bytes).ok().and_then(|text| Step::parse(text).ok()) {
            assert_eq!(Step::parse(&Step::print(&path)), Ok(path));
        }
        if start.elapsed() > TIME_MAX {
            return;
        }
    }
}
