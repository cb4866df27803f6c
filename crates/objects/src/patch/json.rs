//! JSON patch, RFC 6902, over JSON pointers, RFC 6901.
//!
//! Our own rather than a crate: an error has to name the operation by number, and `copy` in a loop must not double a document
//! until memory ends.

use serde_json::Value;

use super::{GROWTH_BYTES_MAX, OPERATIONS_MAX, PatchError};
use crate::DEPTH_MAX;
use crate::decode::size;

/// Does the operations on a copy of `document`.
pub fn apply_json(document: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Array(operations) = patch else {
        let message = "a JSON patch is a JSON array of operations".to_owned();
        return Err(PatchError::Malformed { operation: None, message });
    };
    if operations.len() > OPERATIONS_MAX {
        let message =
            format!("it has {} operations, at most {OPERATIONS_MAX} are done at once", operations.len());
        return Err(PatchError::TooLarge { operation: None, message });
    }
    let mut patched = Patched { document: document.clone(), growth_left: GROWTH_BYTES_MAX, operation: 0 };
    for (at, operation) in operations.iter().enumerate() {
        patched.operation = at;
        patched.perform(operation)?;
    }
    Ok(patched.document)
}

struct Patched {
    document: Value,
    growth_left: usize,
    operation: usize,
}

impl Patched {
    fn perform(&mut self, operation: &Value) -> Result<(), PatchError> {
        let name = self.text(operation, "op")?;
        let path = self.text(operation, "path")?;
        let tokens = self.tokens(path)?;
        match name {
            "test" => {
                let wanted = self.value(operation)?;
                let found = self.get(path, &tokens)?;
                if found == wanted {
                    return Ok(());
                }
                let found = found.to_string().chars().take(80).collect();
                Err(PatchError::Test { operation: self.operation, path: path.to_owned(), found })
            }
            "add" => {
                let value = self.value(operation)?.clone();
                self.add(path, &tokens, value)
            }
            "replace" => {
                let value = self.value(operation)?.clone();
                self.get(path, &tokens)?;
                self.measure(&tokens, &value)?;
                if let Some(place) = find(&mut self.document, &tokens) {
                    *place = value;
                }
                Ok(())
            }
            "remove" => self.remove(path, &tokens).map(drop),
            "copy" | "move" => {
                let from = self.text(operation, "from")?;
                let source = self.tokens(from)?;
                if name == "move" && tokens.len() > source.len() && tokens.starts_with(&source) {
                    return Err(self.misfit(path, "a value cannot be moved into itself"));
                }
                let value = match name {
                    "move" => self.remove(from, &source)?,
                    _ => self.get(from, &source)?.clone(),
                };
                self.add(path, &tokens, value)
            }
            other => {
                let message = format!("{other:?} is none of add, remove, replace, move, copy, test");
                Err(self.malformed(message))
            }
        }
    }

    fn malformed(&self, message: String) -> PatchError {
        PatchError::Malformed { operation: Some(self.operation), message }
    }

    fn misfit(&self, path: &str, message: impl Into<String>) -> PatchError {
        PatchError::Misfit { operation: self.operation, path: path.to_owned(), message: message.into() }
    }

    fn text<'o>(&self, operation: &'o Value, name: &str) -> Result<&'o str, PatchError> {
        let text = operation.get(name).and_then(Value::as_str);
        text.ok_or_else(|| self.malformed(format!("needs {name:?}, a string")))
    }

    fn value<'o>(&self, operation: &'o Value) -> Result<&'o Value, PatchError> {
        operation.get("value").ok_or_else(|| self.malformed("needs \"value\"".to_owned()))
    }

    /// The steps of a JSON pointer.
    fn tokens(&self, pointer: &str) -> Result<Vec<String>, PatchError> {
        if pointer.is_empty() {
            return Ok(Vec::new());
        }
        let Some(rest) = pointer.strip_prefix('/') else {
            return Err(self.malformed(format!("{pointer:?} is no JSON pointer: it begins with \"/\"")));
        };
        Ok(rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect())
    }

    fn get(&self, path: &str, tokens: &[String]) -> Result<&Value, PatchError> {
        let mut value = &self.document;
        for token in tokens {
            let below = match value {
                Value::Object(object) => object.get(token),
                Value::Array(array) => index(token).and_then(|index| array.get(index)),
                _ => None,
            };
            value = below.ok_or_else(|| self.misfit(path, format!("there is no {token:?}")))?;
        }
        Ok(value)
    }

    fn add(&mut self, path: &str, tokens: &[String], value: Value) -> Result<(), PatchError> {
        self.measure(tokens, &value)?;
        let Some((last, parents)) = tokens.split_last() else {
            self.document = value;
            return Ok(());
        };
        self.get(path, parents)?;
        let at = |array: &Vec<Value>| match last.as_str() {
            "-" => Some(array.len()),
            last => index(last).filter(|index| *index <= array.len()),
        };
        match find(&mut self.document, parents) {
            Some(Value::Object(object)) => {
                object.insert(last.clone(), value);
                Ok(())
            }
            Some(Value::Array(array)) => match at(array) {
                Some(index) => {
                    array.insert(index, value);
                    Ok(())
                }
                None => {
                    let length = array.len();
                    Err(self.misfit(path, format!("{last:?} is no place in a list of {length}")))
                }
            },
            _ => Err(self.misfit(path, "what should contain it is neither an object nor a list")),
        }
    }

    fn remove(&mut self, path: &str, tokens: &[String]) -> Result<Value, PatchError> {
        self.get(path, tokens)?;
        let Some((last, parents)) = tokens.split_last() else {
            return Err(self.misfit(path, "the whole object cannot be removed or moved"));
        };
        let removed = match find(&mut self.document, parents) {
            Some(Value::Object(object)) => object.remove(last),
            Some(Value::Array(array)) => {
                index(last).filter(|index| *index < array.len()).map(|index| array.remove(index))
            }
            _ => None,
        };
        removed.ok_or_else(|| self.misfit(path, format!("there is no {last:?}")))
    }

    /// Counts what is added, and how deep.
    fn measure(&mut self, tokens: &[String], value: &Value) -> Result<(), PatchError> {
        let too_large = |message: String| PatchError::TooLarge { operation: Some(self.operation), message };
        let (bytes, depth) = size(value);
        if tokens.len() + depth > DEPTH_MAX {
            return Err(too_large(format!("it nests the object more than {DEPTH_MAX} deep")));
        }
        match self.growth_left.checked_sub(bytes) {
            Some(left) => self.growth_left = left,
            None => {
                return Err(too_large(format!(
                    "together the operations add more than {GROWTH_BYTES_MAX} bytes"
                )));
            }
        }
        Ok(())
    }
}

/// An index without sign or leading zeros.
fn index(token: &str) -> Option<usize> {
    let plain = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit());
    (plain && (token.len() == 1 || !token.starts_with('0'))).then(|| token.parse().ok()).flatten()
}

fn find<'d>(document: &'d mut Value, tokens: &[String]) -> Option<&'d mut Value> {
    tokens.iter().try_fold(document, |value, token| match value {
        Value::Object(object) => object.get_mut(token),
        Value::Array(array) => array.get_mut(index(token)?),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn operations_are_done_in_order() {
        for (document, patch, result) in [
            (json!({"a": 1}), json!([{"op": "add", "path": "/b", "value": 2}]), json!({"a": 1, "b": 2})),
            (
                json!({"a": [1, 3]}),
                json!([{"op": "add", "path": "/a/1", "value": 2}]),
                json!({"a": [1, 2, 3]}),
            ),
            (json!({"a": [1]}), json!([{"op": "add", "path": "/a/-", "value": 2}]), json!({"a": [1, 2]})),
            (json!({"a": [1]}), json!([{"op": "add", "path": "/a/1", "value": 2}]), json!({"a": [1, 2]})),
            (json!({"a": 1, "b": 2}), json!([{"op": "remove", "path": "/a"}]), json!({"b": 2})),
            (json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/0"}]), json!({"a": [2]})),
            (json!({"a": 1}), json!([{"op": "replace", "path": "/a", "value": null}]), json!({"a": null})),
            (
                json!({"a": {"b": 1}}),
                json!([{"op": "move", "from": "/a/b", "path": "/c"}]),
                json!({"a": {}, "c": 1}),
            ),
            (
                json!({"a": [1, 2, 3]}),
                json!([{"op": "move", "from": "/a/0", "path": "/a/2"}]),
                json!({"a": [2, 3, 1]}),
            ),
            (json!({"a": 1}), json!([{"op": "move", "from": "/a", "path": "/a"}]), json!({"a": 1})),
            (
                json!({"a": {"b": 1}}),
                json!([{"op": "copy", "from": "/a", "path": "/a/c"}]),
                json!({"a": {"b": 1, "c": {"b": 1}}}),
            ),
            (
                json!({"a/b": 1, "m~n": 2}),
                json!([{"op": "test", "path": "/a~1b", "value": 1}, {"op": "remove", "path": "/m~0n"}]),
                json!({"a/b": 1}),
            ),
            (json!({"~1": 1}), json!([{"op": "test", "path": "/~01", "value": 1}]), json!({"~1": 1})),
            (json!({"a": 1}), json!([{"op": "add", "path": "", "value": {}}]), json!({})),
            (json!({"": 1}), json!([{"op": "replace", "path": "/", "value": 2}]), json!({"": 2})),
        ] {
            assert_eq!(apply_json(&document, &patch), Ok(result), "{patch}");
        }
    }

    #[test]
    fn an_error_names_the_operation_and_its_path() {
        let document = json!({"a": [1, 2], "b": {}});
        for (second, said) in [
            (json!({"op": "test", "path": "/a/0", "value": 2}), "operation 1: the test of \"/a/0\" found 1"),
            (json!({"op": "remove", "path": "/x"}), "operation 1 at \"/x\": there is no \"x\""),
            (
                json!({"op": "replace", "path": "/x/y", "value": 1}),
                "operation 1 at \"/x/y\": there is no \"x\"",
            ),
            (
                json!({"op": "add", "path": "/a/3", "value": 1}),
                "operation 1 at \"/a/3\": \"3\" is no place in a list of 2",
            ),
            (
                json!({"op": "add", "path": "/a/01", "value": 1}),
                "operation 1 at \"/a/01\": \"01\" is no place in a list of 2",
            ),
            (
                json!({"op": "add", "path": "/a/0/x", "value": 1}),
                "operation 1 at \"/a/0/x\": what should contain it is neither an object nor a list",
            ),
            (
                json!({"op": "move", "from": "/b", "path": "/b/c"}),
                "operation 1 at \"/b/c\": a value cannot be moved into itself",
            ),
            (
                json!({"op": "remove", "path": ""}),
                "operation 1 at \"\": the whole object cannot be removed or moved",
            ),
            (
                json!({"op": "add", "path": "a", "value": 1}),
                "operation 1: \"a\" is no JSON pointer: it begins with \"/\"",
            ),
            (json!({"op": "add", "path": "/a"}), "operation 1: needs \"value\""),
            (
                json!({"op": "frob", "path": "/a"}),
                "operation 1: \"frob\" is none of add, remove, replace, move, copy, test",
            ),
            (json!(7), "operation 1: needs \"op\", a string"),
        ] {
            let patch = json!([{"op": "test", "path": "/b", "value": {}}, second]);
            assert_eq!(apply_json(&document, &patch).expect_err("an error").to_string(), said);
        }
    }

    #[test]
    fn copying_in_a_loop_ends_at_a_bound() {
        let double = json!({"op": "copy", "from": "/a", "path": "/a/-"});
        let patch = Value::Array(vec![double; 60]);
        let error = apply_json(&json!({"a": [1]}), &patch).expect_err("too large");
        assert!(matches!(error, PatchError::TooLarge { .. }), "{error}");
        let flat = json!([{"op": "add", "path": "/a", "value": "x".repeat(3 << 20)}, {"op": "copy", "from": "/a", "path": "/b"}]);
        let error = apply_json(&json!({}), &flat).expect_err("too large");
        assert_eq!(error.to_string(), "operation 1: together the operations add more than 4194304 bytes");
        let many = Value::Array(vec![json!({}); OPERATIONS_MAX + 1]);
        assert!(matches!(apply_json(&json!({}), &many), Err(PatchError::TooLarge { operation: None, .. })));
    }
}
