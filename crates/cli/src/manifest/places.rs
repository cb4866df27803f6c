//! Where each field of a document is, by the path that problems name it with.

use std::collections::BTreeMap;

use super::located::{Located, Node, Place};

/// Places by path: `.spec.template.env[2].name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(BTreeMap<String, Spot>);

/// Where a field is named, and where its value begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    pub name: Place,
    pub value: Place,
}

impl Places {
    pub fn of(document: &Located) -> Self {
        let mut places = BTreeMap::new();
        let spot = Spot { name: document.place, value: document.place };
        collect(document, spot, &mut String::new(), &mut places);
        Self(places)
    }

    /// Of this path, or of the nearest thing around it that is there; and whether it is exactly this one.
    pub fn find(&self, path: &str) -> (Spot, bool) {
        let mut path = path;
        let mut exact = true;
        loop {
            if let Some(spot) = self.0.get(path) {
                return (*spot, exact);
            }
            exact = false;
            match last_step(path) {
                Some(start) => path = &path[..start],
                None => return (Spot::default(), false),
            }
        }
    }
}

fn collect(here: &Located, spot: Spot, path: &mut String, places: &mut BTreeMap<String, Spot>) {
    places.insert(path.clone(), spot);
    let back = path.len();
    match &here.node {
        Node::Leaf(_) => {}
        Node::List(elements) => {
            for (index, element) in elements.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                collect(element, Spot { name: element.place, value: element.place }, path, places);
                path.truncate(back);
            }
        }
        Node::Map(entries) => {
            for entry in entries {
                path.push_str(&step(&entry.name));
                collect(&entry.value, Spot { name: entry.place, value: entry.value.place }, path, places);
                path.truncate(back);
            }
        }
    }
}

/// As `setpoint_types::Problems` writes it: names that could be mistaken for something else are quoted.
pub fn step(name: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if !name.is_empty() && name.chars().all(plain) {
        format!(".{name}")
    } else {
        format!(".{}", serde_json::Value::from(name))
    }
}

/// Where the last step of a path begins.
fn last_step(path: &str) -> Option<usize> {
    let mut quoted = false;
    let mut last = None;
    let mut escaped = false;
    for (at, letter) in path.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '.' | '[' if !quoted => last = Some(at),
            _ => {}
        }
    }
    last
}
