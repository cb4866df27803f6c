//! Golden scripts of who may do what, one property each, in `tests/scripts`.
//!
//! A script writes roles and bindings, takes the place of somebody, and asks. After a change of behaviour that is meant,
//! run with `UPDATE_GOLDENFILES=1` and read the difference.
//!
//! | command | does |
//! |---|---|
//! | `role NAME RULE...` | writes a role; a rule is `"VERBS KINDS [NAMES]"`, each with commas |
//! | `bind NAME ROLE SUBJECTS [in=NAMESPACES]` | writes a binding |
//! | `as NAME [groups=GROUPS]` | asks as this one from now on |
//! | `can VERB KIND [NAME] [in=NAMESPACE] [status=yes]` | asks |
//! | `who_can VERB KIND [NAME] [in=NAMESPACE]` | lists who may |
//! | `etcd get\|watch\|put\|del KEY [to=END]` | asks about a request of etcd's |
//! | `gives RULE... [in=NAMESPACES]` | says what of it the one who asks could not give away |
//! | `problems`, `off` | what is not understood; access control off |

use std::error::Error;

use bytes::Bytes;
use goldenscript::{Command, Context, Runner};
use setpoint_access::{
    Authorizer, Name, Part, Policy, Principal, Role, RoleBinding, Rule, Target, Verb, builtin_roles,
    key_delete, key_put, key_read, key_watch,
};
use setpoint_types::KeyRange;

struct Script {
    roles: Vec<Role>,
    bindings: Vec<RoleBinding>,
    principal: Principal,
    off: bool,
}

impl Default for Script {
    fn default() -> Self {
        let (roles, bindings) = (builtin_roles(), Vec::new());
        Self { roles, bindings, principal: Principal::anonymous(), off: false }
    }
}

type Answer = Result<String, Box<dyn Error>>;

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Answer {
        let mut args = command.consume_args();
        let namespaces = args.take_key("in").unwrap_or_default().to_owned();
        let groups = list(args.take_key("groups").unwrap_or_default());
        let to = args.take_key("to").unwrap_or_default().to_owned();
        let status = args.take_key("status") == Some("yes");
        let words: Vec<String> = std::iter::from_fn(|| args.next_pos().map(str::to_owned)).collect();
        args.reject_next()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match (command.name.as_str(), &words[..]) {
            ("role", [name, rules @ ..]) => {
                let rules = rules.iter().map(|text| rule(text)).collect();
                self.roles.push(Role { name: (*name).to_owned(), rules });
                Ok(String::new())
            }
            ("bind", [name, role, subjects]) => {
                let (name, role) = ((*name).to_owned(), (*role).to_owned());
                let (subjects, namespaces) = (list(subjects), list(&namespaces));
                self.bindings.push(RoleBinding { name, role, subjects, namespaces });
                Ok(String::new())
            }
            ("as", ["anonymous"]) => self.ask_as(Principal::anonymous()),
            ("as", [name]) => self.ask_as(Principal::new(name, groups.iter().map(String::as_str))?),
            ("can", [verb, kind, name @ ..]) => {
                Ok(self.check(verb.parse()?, &target(kind, &namespaces, name, status)))
            }
            ("who_can", [verb, kind, name @ ..]) => {
                let target = target(kind, &namespaces, name, status);
                let holders = self.authorizer().who_can(verb.parse()?, &target);
                Ok(holders.iter().map(|it| format!("{}: {}\n", it.subject, it.reason)).collect())
            }
            ("etcd", [request, key]) => self.etcd(request, key, &to),
            ("gives", rules) => {
                let rules: Vec<Rule> = rules.iter().map(|text| rule(text)).collect();
                let missing = self.authorizer().missing(&self.principal, &rules, &list(&namespaces));
                let line = |it: &setpoint_access::Permission| format!("lacks {} {}\n", it.verb, it.kind);
                Ok(if missing.is_empty() { "may".to_owned() } else { missing.iter().map(line).collect() })
            }
            ("problems", []) => {
                let policy = Policy::compile(&self.roles, &self.bindings);
                Ok(policy.problems().iter().map(|problem| format!("{problem}\n")).collect())
            }
            ("off", []) => {
                self.off = true;
                Ok(String::new())
            }
            other => Err(format!("not a command: {other:?}").into()),
        }
    }
}

impl Script {
    fn authorizer(&self) -> Authorizer {
        if self.off {
            return Authorizer::off();
        }
        Authorizer::on(Policy::compile(&self.roles, &self.bindings))
    }

    fn ask_as(&mut self, principal: Principal) -> Answer {
        self.principal = principal;
        Ok(String::new())
    }

    fn check(&self, verb: Verb, target: &Target<'_>) -> String {
        let decision = self.authorizer().check(&self.principal, verb, target);
        format!("{}: {decision}\n", if decision.is_allowed() { "yes" } else { "no" })
    }

    fn etcd(&self, request: &str, key: &str, to: &str) -> Answer {
        let key = Bytes::copy_from_slice(key.as_bytes());
        let range = KeyRange::from_wire(key.clone(), Bytes::copy_from_slice(to.as_bytes()));
        let needs = match request {
            "get" => Ok(key_read(&range)),
            "watch" => Ok(key_watch(&range)),
            "put" => key_put(key).map(|need| vec![need]),
            "del" => key_delete(range).map(|need| vec![need]),
            other => return Err(format!("not a request: {other}").into()),
        };
        Ok(match needs {
            Ok(needs) => needs.iter().map(|need| self.check(need.verb, &need.target())).collect(),
            Err(reserved) => format!("never: {reserved}"),
        })
    }
}

fn target<'a>(kind: &'a str, namespace: &'a str, name: &[&'a str], status: bool) -> Target<'a> {
    let part = if status { Part::Status } else { Part::Object };
    let name = name.first().map_or(Name::Any, |name| Name::One(name));
    Target { name, part, ..Target::all(kind, namespace) }
}

fn list(text: &str) -> Vec<String> {
    text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn rule(text: &str) -> Rule {
    let mut parts = text.split(' ').map(list);
    let mut next = || parts.next().unwrap_or_default();
    Rule { verbs: next(), kinds: next(), names: next() }
}

/// One test per script, and one that no script is forgotten.
macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        const LISTED: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() -> std::io::Result<()> {
                goldenscript::run(&mut Script::default(), concat!("tests/scripts/", stringify!($name)))
            }
        )*
    };
}

scripts! {
    admins,
    builtin,
    deny_by_default,
    etcd_keys,
    etcd_objects,
    giving_away,
    groups,
    mistakes,
    names,
    namespaces,
    off,
    status,
    verbs,
    who_can,
}

#[test]
fn every_script_is_run_and_opens_with_its_property() {
    for file in std::fs::read_dir("tests/scripts").expect("the scripts") {
        let path = file.expect("a script").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        assert!(LISTED.contains(&name.as_str()), "{name} is not run");
        let text = std::fs::read_to_string(&path).expect("a script");
        let property: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(property.ends_with('.'), "{name} does not open with its property");
    }
}
