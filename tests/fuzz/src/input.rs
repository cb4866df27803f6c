//! Bytes as choices: the same bytes make the same choices, and a small change of them a small change of what is made.

use serde_json::{Map, Value, json};

/// Names that collide often, and those that are hard to write.
const NAMES: &[&str] = &["a", "b", "c", "x.y/z", "", "port", "\"", "metadata"];

/// What is left of an input. Once it is used up every choice is the first.
pub struct Input<'d>(&'d [u8]);

impl<'d> Input<'d> {
    pub fn new(data: &'d [u8]) -> Self {
        Self(data)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Less than `below`.
    pub fn roll(&mut self, below: usize) -> usize {
        usize::from(self.byte()) % below.max(1)
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    pub fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.roll(choices.len())]
    }

    /// Up to the next zero byte, or the end.
    pub fn part(&mut self) -> &'d [u8] {
        let end = self.0.iter().position(|byte| *byte == 0);
        let (part, rest) = match end {
            Some(end) => (&self.0[..end], &self.0[end + 1..]),
            None => (self.0, &[][..]),
        };
        self.0 = rest;
        part
    }

    /// The next part, as text; nothing if it is none.
    pub fn text(&mut self) -> &'d str {
        std::str::from_utf8(self.part()).unwrap_or_default()
    }

    pub fn rest(&mut self) -> &'d [u8] {
        std::mem::take(&mut self.0)
    }

    pub fn name(&mut self) -> String {
        self.one_of(NAMES).to_owned()
    }

    /// Any JSON, at most so deep.
    pub fn value(&mut self, depth: usize) -> Value {
        match self.roll(if depth == 0 { 6 } else { 10 }) {
            0 => Value::Null,
            1 => self.flag().into(),
            2 => self.roll(3).into(),
            3 => self.one_of(&[json!(-1), json!(1.5), json!(u64::MAX), json!(-0.0)].each_ref()).clone(),
            4 | 5 => self.one_of(&["a", "b", "", "x.y/z", "]\"="]).into(),
            6 | 7 => (0..self.roll(4)).map(|_| self.value(depth - 1)).collect(),
            _ => {
                (0..self.roll(4)).map(|_| (self.name(), self.value(depth - 1))).collect::<Map<_, _>>().into()
            }
        }
    }
}
