//! Where something is inside a JSON value: `.spec.ports[0].name`.
//!
//! Elements of lists are written by their position. The notation of managed fields, by keys, is not made here.

use std::fmt;

use serde_json::Value;

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Field(String),
    Index(usize),
}

/// A place, from the root down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(Vec<Step>);

impl Path {
    /// The place itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// Reads `.spec.ports[0].name`. A name with a dot is written `."a.b"`, as JSON writes texts.
    pub fn parse(text: &str) -> Option<Self> {
        let mut path = Self::root();
        let mut rest = text;
        while !rest.is_empty() {
            if rest.starts_with(".\"") {
                let mut texts = serde_json::Deserializer::from_str(&rest[1..]).into_iter::<String>();
                path.push(Step::Field(texts.next()?.ok()?));
                rest = &rest[1 + texts.byte_offset()..];
            } else if let Some(index) = rest.strip_prefix('[') {
                let end = index.find(']')?;
                path.push(Step::Index(index[..end].parse().ok()?));
                rest = &index[end + 1..];
            } else {
                let name = rest.strip_prefix('.')?;
                let end = name.find(['.', '[']).unwrap_or(name.len());
                if !is_plain(&name[..end]) {
                    return None;
                }
                path.push(Step::Field(name[..end].to_owned()));
                rest = &name[end..];
            }
        }
        Some(path)
    }

    /// The place a JSON pointer's parts lead to in `value`: a part is an index where it meets a list.
    pub fn in_value<'a>(parts: impl IntoIterator<Item = &'a str>, value: &Value) -> Self {
        let mut path = Self::root();
        let mut here = Some(value);
        for part in parts {
            let index = part.parse::<usize>().ok().filter(|_| here.is_some_and(Value::is_array));
            here = here.and_then(|value| match index {
                Some(index) => value.get(index),
                None => value.get(part),
            });
            path.push(index.map_or_else(|| Step::Field(part.to_owned()), Step::Index));
        }
        path
    }

    pub fn push(&mut self, step: Step) {
        self.0.push(step);
    }

    pub fn pop(&mut self) {
        self.0.pop();
    }

    pub fn field(mut self, name: &str) -> Self {
        self.0.push(Step::Field(name.to_owned()));
        self
    }

    pub fn index(mut self, index: usize) -> Self {
        self.0.push(Step::Index(index));
        self
    }

    /// This place, then `below` from there.
    pub fn join(mut self, below: &Self) -> Self {
        self.0.extend(below.0.iter().cloned());
        self
    }

    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Whether this is `other`, or a place inside it.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            match step {
                Step::Field(name) if is_plain(name) => write!(f, ".{name}")?,
                Step::Field(name) => write!(f, ".{}", Value::from(name.as_str()))?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

impl From<Path> for String {
    fn from(path: Path) -> Self {
        path.to_string()
    }
}

impl From<&Path> for String {
    fn from(path: &Path) -> Self {
        path.to_string()
    }
}

/// Needs no quotes.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let quoted = [".metadata.labels.\"example.com/tier\"", r#".a."b\"c\\d".e"#, r#"."""#];
        for text in [".spec", ".spec.ports[0].name", "[3]"].into_iter().chain(quoted) {
            assert_eq!(Path::parse(text).expect("a path").to_string(), text);
        }
        for text in ["spec", ".", ".a..b", ".a[", ".a[x]", ".\"b"] {
            assert_eq!(Path::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_number_is_an_index_only_inside_a_list() {
        let value = json!({"ports": [{"1": true}]});
        assert_eq!(Path::in_value(["ports", "0", "1"], &value).to_string(), ".ports[0].1");
    }
}
