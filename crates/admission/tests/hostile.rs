//! Input made to hurt: whoever may define a kind, a policy or an object may not stop or slow down a server with it.
//!
//! No test looks at a clock. That an evaluation ends is shown by its ending; that it was stopped, by its error; how much it
//! took, by what it paid.

use std::sync::Arc;

use serde_json::{Value, json};
use setpoint_admission::cel::{Bindings, CompileError, EvaluateError, Expression, Scope};
use setpoint_admission::kind::TakenNames;
use setpoint_admission::limits::{
    EVALUATION_COST_MAX, EXPRESSION_BYTES_MAX, EXPRESSION_DEPTH_MAX, PATTERNS_MAX, PROBLEMS_MAX,
};
use setpoint_admission::policy::{Request, Review};
use setpoint_admission::{Budget, CustomKind, Policy, PolicySet};
use setpoint_types::FieldProblem;
use setpoint_types::kinds::{
    AdmissionOperation, AdmissionPolicySpec, KindDefinitionSpec, Mutation, MutationType,
};

/// Half of what a worker thread of the server has.
const SMALL_STACK_BYTES: usize = 1 << 20;

fn compile(text: &str) -> Result<Expression, Vec<CompileError>> {
    Expression::compile(text, &Scope::of(&["self"]))
}

fn evaluate(expression: &Expression, value: &Value) -> Result<Value, EvaluateError> {
    let mut bindings = Bindings::new();
    bindings.bind("self", value, None);
    expression.evaluate(&bindings, &mut Budget::for_request())
}

/// Evaluates an expression that must be stopped.
#[track_caller]
fn too_expensive(text: &str, value: &Value) {
    let expression = compile(text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
    assert_eq!(evaluate(&expression, value), Err(EvaluateError::TooExpensive), "{text}");
}

fn repeated(part: &str, times: usize) -> String {
    part.repeat(times)
}

#[test]
fn no_text_that_fits_overflows_the_parser() {
    let fill = |part: &str| repeated(part, EXPRESSION_BYTES_MAX / part.len());
    let mut texts: Vec<String> = [
        "(", "[", "{", "!", "-", "a?", "a.", "a[", "f(", "1+", "a&&", "a||", "{1:", "'", "\"", "\\", "\u{0}",
        "é",
    ]
    .into_iter()
    .map(fill)
    .collect();
    for (open, middle, close) in [("(", "1", ")"), ("[", "", "]"), ("{1:", "1", "}"), ("size(", "self", ")")]
    {
        let times = EXPRESSION_BYTES_MAX / (open.len() + close.len() + 1);
        texts.push(format!("{}{middle}{}", repeated(open, times), repeated(close, times)));
    }
    for chain in ["self.a", "self[0]", "1+1", "true&&true", "self?self:self", "!true", "-1", "self.size()"] {
        let link = chain.trim_start_matches("self").trim_start_matches("true").trim_start_matches('1');
        let times = (EXPRESSION_BYTES_MAX - chain.len()) / link.len().max(1);
        texts.push(format!("{chain}{}", repeated(link, times)));
    }
    texts.push(format!("{}1", repeated("!", EXPRESSION_BYTES_MAX - 1)));
    texts.push(format!("{}1", repeated("-", EXPRESSION_BYTES_MAX - 1)));
    texts.push(format!("{}self", repeated("self?1:", 500)));
    texts.push(format!("self{}", repeated(".map(x,x)", 400)));
    texts.push(format!("{}self{}", repeated("self.map(x,", 300), repeated(")", 300)));
    for text in texts {
        assert!(text.len() <= EXPRESSION_BYTES_MAX);
        // Refused or not: it comes back.
        if let Ok(expression) = compile(&text) {
            let _ = evaluate(&expression, &json!([1, 2]));
        }
    }
}

#[test]
fn an_expression_that_is_too_long_or_too_deep_is_refused() {
    let message = |text: &str| compile(text).expect_err("refused")[0].message.clone();
    assert!(message(&repeated("1", EXPRESSION_BYTES_MAX + 1)).contains("longer than"));
    assert!(message(&format!("1{}", repeated("+1", EXPRESSION_DEPTH_MAX + 1))).contains("deeper than"));
    let wide = format!("[{}]", repeated("[],", 1100));
    assert!(message(&wide).contains("parts"), "{}", message(&wide));
    assert!(message("").contains("empty"));
}

#[test]
fn the_deepest_expression_is_evaluated_on_a_small_stack() {
    let run = || {
        let sum = format!("1{}", repeated("+1", EXPRESSION_DEPTH_MAX - 2));
        let sum = compile(&sum).expect("within the limits");
        assert_eq!(evaluate(&sum, &Value::Null), Ok(json!(EXPRESSION_DEPTH_MAX - 1)));
        // A comprehension is the deepest frame, each in the body of the last: as many as the parser lets through.
        let deepest = (1..40)
            .rev()
            .find_map(|depth| {
                compile(&format!("{}true{}", repeated("self.all(x,", depth), repeated(")", depth))).ok()
            })
            .expect("one of them fits");
        assert_eq!(evaluate(&deepest, &json!([1])), Ok(json!(true)));
    };
    let thread = std::thread::Builder::new().stack_size(SMALL_STACK_BYTES).spawn(run).expect("a thread");
    thread.join().expect("its stack suffices");
}

#[test]
fn loops_inside_loops_are_stopped() {
    let many: Value = (0..1000).collect();
    too_expensive("self.all(a, self.all(b, self.all(c, a + b + c >= 0)))", &many);
    too_expensive("self.exists(a, self.exists(b, self.exists(c, a + b + c < 0)))", &many);
    too_expensive("self.map(a, self.map(b, self.map(c, a)))", &many);
    too_expensive("self.filter(a, self.filter(b, self.filter(c, false).size() > 0).size() > 0)", &many);
    too_expensive("self.exists_one(a, self.exists_one(b, self.exists_one(c, false)))", &many);
    // Errors in all() and exists() are put off in the hope of a better element; the end of the budget is not.
    too_expensive("self.all(a, self.all(b, self.all(c, self[a + 5000] == 1)))", &many);
    too_expensive("self.all(a, self.map(b, self.map(c, self.map(d, d))).size() > 0 || true)", &many);
    // Without an object.
    let digits = "[0,1,2,3,4,5,6,7,8,9]";
    let mut text = "true".to_owned();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        text = format!("{digits}.all({name}, {text})");
    }
    too_expensive(&text, &Value::Null);
}

#[test]
fn an_exhausted_evaluation_has_no_result_even_where_errors_are_forgiven() {
    let many: Value = (0..2000).collect();
    too_expensive("self.all(a, self.all(b, a + b >= 0)) || true", &many);
    too_expensive("!(self.all(a, self.all(b, a + b >= 0)) && false)", &many);
    too_expensive("true || self.size() > 0 ? self.all(a, self.all(b, a + b >= 0)) || true : true", &many);
}

#[test]
fn values_that_grow_are_stopped() {
    let text = json!("x".repeat(1000));
    // Each step doubles.
    too_expensive(&format!("[self]{}", repeated(".map(x, x + x)", 30)), &text);
    too_expensive(&format!("[[self]]{}", repeated(".map(x, x + x)", 30)), &text);
    too_expensive(&format!("[self]{}", repeated(".map(x, [x, x])", 30)), &text);
    too_expensive(&format!("[self]{}", repeated(".map(x, {'a': x, 'b': x})", 30)), &text);
    too_expensive(
        &format!("[self]{}", repeated(".map(x, (x + x).split('').join('xxxxxxxxxxxxxxxx'))", 20)),
        &text,
    );
    // A large value copied again and again.
    let large: Value = (0..20_000).map(|n| json!({"name": format!("n{n}")})).collect();
    too_expensive("self.map(x, self)", &large);
    too_expensive("self.all(x, self == self)", &large);
    too_expensive("self.all(x, x in self)", &large);
    too_expensive("self.all(x, [self, self].size() == 2)", &large);
    let long = json!({"a": "x".repeat(100_000), "n": (0..5000).collect::<Value>()});
    too_expensive("self.n.all(x, self.a.contains('y') || true)", &long);
    too_expensive("self.n.all(x, self.a.size() > 0)", &long);
    too_expensive("self.n.all(x, self.a < 'y')", &long);
    too_expensive("self.n.all(x, self.a.matches('x*y') || true)", &long);
}

#[test]
fn patterns_from_objects_cannot_hurt() {
    let matches = compile("self.text.matches(self.pattern)").expect("good");
    let with = |text: &str, pattern: &str| evaluate(&matches, &json!({"text": text, "pattern": pattern}));
    // Catastrophic for engines that go back.
    assert_eq!(with(&"a".repeat(5000), "^(a+)+$"), Ok(json!(true)));
    assert_eq!(with(&format!("{}b", "a".repeat(5000)), "^(a|a)*$"), Ok(json!(false)));
    // Too large, too long, too deep, and no pattern at all.
    for pattern in
        ["(a{1000}){1000}", r"\pL{900}", &"a".repeat(2000), &repeated("(", 200), "(", "a{99999999999}", r"\1"]
    {
        assert!(matches!(with("a", pattern), Err(EvaluateError::Failed(_))), "{pattern}");
    }
    assert_eq!(with("Äpfel", r"^\w+$"), Ok(json!(true)));
    // A new pattern every time.
    let patterns: Value = (0..1000).map(|n| json!(format!("a{n}"))).collect();
    too_expensive("self.all(p, 'a'.matches(p) || true)", &patterns);
}

#[test]
fn a_request_has_one_budget_for_all_its_evaluations() {
    let many: Value = (0..700).collect();
    let costly = compile("self.all(a, self.all(b, a + b >= 0 || true))").expect("good");
    let mut bindings = Bindings::new();
    bindings.bind("self", &many, None);
    let mut budget = Budget::for_request();
    let mut evaluations = 0;
    while budget.left() > 0 {
        assert_eq!(costly.evaluate(&bindings, &mut budget), Err(EvaluateError::TooExpensive));
        evaluations += 1;
        assert!(evaluations < 100, "the budget does not shrink");
    }
    let cheap = compile("true").expect("good");
    assert_eq!(cheap.evaluate(&bindings, &mut budget), Err(EvaluateError::TooExpensive));
}

#[test]
fn ordinary_rules_are_far_from_the_limits() {
    let ports: Value = (0..200).map(|n| json!({"port": n, "name": format!("port-{n}")})).collect();
    let unique = compile("self.all(p, self.exists_one(q, q.port == p.port))").expect("good");
    let mut bindings = Bindings::new();
    bindings.bind("self", &ports, None);
    let mut budget = Budget::of(EVALUATION_COST_MAX);
    assert_eq!(unique.evaluate(&bindings, &mut budget), Ok(json!(true)));
}

#[test]
fn errors_do_not_quote_whole_objects() {
    let large = json!({"a": "x".repeat(100_000)});
    let expression = compile("self + 1 == self").expect("good");
    let Err(EvaluateError::Failed(message)) = evaluate(&expression, &large) else {
        panic!("it cannot be added")
    };
    assert!(message.len() < 1000, "{} bytes", message.len());
}

fn define(spec: Value) -> Result<CustomKind, Vec<FieldProblem>> {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    define_whole(schema)
}

fn define_whole(schema: Value) -> Result<CustomKind, Vec<FieldProblem>> {
    let definition = json!({"names": {"kind": "Bomb", "plural": "bombs"}, "schema": schema});
    let definition: KindDefinitionSpec = serde_json::from_value(definition).expect("a definition");
    CustomKind::compile(&definition, &TakenNames::default())
}

#[test]
fn references_that_multiply_are_refused() {
    let mut definitions = json!({"a0": {"type": "string"}});
    for level in 1..30 {
        let below = json!({"$ref": format!("#/$defs/a{}", level - 1)});
        definitions[format!("a{level}")] =
            json!({"type": "object", "properties": {"x": below.clone(), "y": below}});
    }
    let schema =
        json!({"type": "object", "properties": {"spec": {"$ref": "#/$defs/a29"}}, "$defs": definitions});
    let problems = define_whole(schema).expect_err("refused");
    assert!(problems[0].message.contains("too large"), "{problems:?}");
}

#[test]
fn schemas_that_are_too_large_or_too_deep_are_refused() {
    let mut deep = json!({"type": "string"});
    for _ in 0..50 {
        deep = json!({"type": "object", "properties": {"x": deep}});
    }
    assert!(define(deep).is_err());
    let wide: serde_json::Map<String, Value> =
        (0..5000).map(|n| (n.to_string(), json!({"type": "string"}))).collect();
    assert!(define(json!({"type": "object", "properties": wide})).is_err());
    let alternatives: Vec<Value> = (0..300).map(|n| json!({"minLength": n})).collect();
    assert!(define(json!({"type": "string", "anyOf": alternatives})).is_err());
    let long = json!({"type": "string", "description": "x".repeat(300_000)});
    assert!(define(long).is_err());
}

#[test]
fn long_lists_are_compared_with_what_they_were_without_a_square() {
    let item = json!({
        "type": "object",
        "properties": {"id": {"type": "integer"}, "x": {"type": "integer"}},
        "x-setpoint-rules": [{"rule": "self.x >= oldSelf.x"}],
    });
    let keys = json!(["id"]);
    let list = json!({"type": "array", "x-setpoint-list-type": "map", "x-setpoint-list-map-keys": keys, "items": item});
    let kind = define(list).expect("good");
    // All but one are as they were, so that what they cost is finding them again.
    let ids =
        |last: i32| (0..100_000).map(move |id| json!({"id": id, "x": if id == 99_999 { last } else { 1 }}));
    let (old, new) =
        (json!({"spec": ids(2).collect::<Value>()}), json!({"spec": ids(1).rev().collect::<Value>()}));
    let problems = kind.validate(Some(&old), &new, &mut Budget::for_request());
    assert_eq!(problems.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(), [".spec[0]"]);
}

#[test]
fn an_object_with_a_great_many_problems_gets_some_of_them() {
    let kind = define(json!({"type": "array", "items": {"type": "integer"}})).expect("good");
    let object = json!({"spec": vec!["x"; 100_000]});
    assert_eq!(kind.validate(None, &object, &mut Budget::for_request()).len(), PROBLEMS_MAX);
}

#[test]
fn a_rule_that_costs_too_much_refuses_the_object() {
    let rule = json!({"rule": "self.all(a, self.all(b, a + b >= 0))"});
    let schema = json!({"type": "array", "items": {"type": "integer"}, "x-setpoint-rules": [rule]});
    let kind = define(schema).expect("good");
    let object = json!({"spec": (0..5000).collect::<Value>()});
    let problems = kind.validate(None, &object, &mut Budget::for_request());
    assert!(problems[0].message.contains("costs too much"), "{problems:?}");
}

fn mutated(expressions: &[&str]) -> Vec<String> {
    let mutations = expressions
        .iter()
        .map(|text| Mutation { kind: MutationType::JsonPatch, expression: (*text).to_owned() })
        .collect();
    let mut spec = AdmissionPolicySpec { mutations, ..AdmissionPolicySpec::default() };
    spec.matches.kinds = vec!["*".to_owned()];
    let policy = Policy::compile("bomb", &spec).unwrap_or_else(|problems| panic!("{problems:?}"));
    let object = json!({"spec": {"a": "x".repeat(1000)}});
    let request = Request {
        operation: AdmissionOperation::Create,
        status: false,
        user: "user:jane",
        groups: &[],
        kind: "Workload",
        namespace: "default",
        name: "web",
        dry_run: false,
    };
    let review = Review { request, object: Some(&object), old_object: None, namespace_object: None };
    let mutated = PolicySet::new([Arc::new(policy)]).mutate(&review, &mut Budget::for_request());
    assert_eq!(mutated.object, None);
    mutated.verdict.denials.into_iter().map(|denial| denial.message).collect()
}

#[test]
fn patches_that_grow_are_stopped() {
    let copies = "'abcdefghijklmnopqrstuvwxyz'.split('').map(x, {'op': 'copy', 'from': '/spec', 'path': '/spec/' + x})";
    let problems = mutated(&[copies]);
    assert!(problems[0].contains("add more than"), "{problems:?}");
    let steps = "'x'.split('') + [0,1,2,3,4,5,6,7,8,9].map(a, [0,1,2,3,4,5,6,7,8,9].map(b, a)).map(l, string(l.size()))";
    assert!(mutated(&[steps])[0].contains("operation 0"));
    let deep = "[0,1,2,3,4,5,6,7,8,9,10].map(x, {'op': 'move', 'from': '/spec/a', 'path': '/spec/a/b'})";
    assert!(mutated(&[deep])[0].contains("into itself"));
}

#[test]
fn an_object_that_nests_too_deep_to_be_read_again_is_refused() {
    // Each step puts what is there one level deeper.
    let step = "[{'op': 'add', 'path': '/spec', 'value': {'a': object.spec}}]";
    let problems = mutated(&vec![step; 110]);
    assert!(problems[0].contains("deep"), "{problems:?}");
}

/// Patterns are what takes longest to compile, on every node: those beyond the limit are not even tried.
#[test]
fn a_definition_has_a_bounded_number_of_patterns() {
    let with = |count: usize| {
        let fields =
            (0..count).map(|at| (format!("f{at}"), json!({"type": "string", "pattern": format!("^a{at}$")})));
        define(json!({"type": "object", "properties": fields.collect::<serde_json::Map<_, _>>()}))
    };
    with(PATTERNS_MAX).expect("as many as may be");
    let problems = with(1_500).expect_err("too many");
    assert!(problems.iter().any(|it| it.message.contains("more than 128 patterns")), "{problems:?}");

    let matches: Vec<_> = (0..17).map(|at| format!("self.matches('a{at}')")).collect();
    compile(&matches[..16].join(" || ")).expect("as many as may be");
    assert!(compile(&matches.join(" || ")).is_err());

    let rule = json!({"rule": matches[..16].join(" || ")});
    let rules =
        |count: usize| define(json!({"type": "string", "x-setpoint-rules": vec![rule.clone(); count]}));
    rules(8).expect("as many as may be");
    assert_eq!(rules(100).expect_err("too many").len(), 1, "said once, and no further one is compiled");
}
