//! From the text of a template to its parts.

use serde_json::Value;

use super::{Filter, Operand, Part, Path, Relation, Step, Template};

/// What cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} (column {column} of the JSONPath)")]
pub struct ParseError {
    column: usize,
    problem: String,
}

/// Ranges inside ranges; nobody reads more.
const DEPTH_MAX: usize = 16;

pub fn template(text: &str) -> Result<Template, ParseError> {
    let mut reader = Reader { letters: text.chars().collect(), at: 0 };
    let (parts, ended) = reader.parts(0)?;
    if ended {
        return Err(reader.problem("there is an {end} without a {range}"));
    }
    Ok(Template(parts))
}

struct Reader {
    letters: Vec<char>,
    at: usize,
}

impl Reader {
    fn problem(&self, problem: impl Into<String>) -> ParseError {
        ParseError { column: self.at + 1, problem: problem.into() }
    }

    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn take(&mut self, text: &str) -> bool {
        let is_next = text.chars().enumerate().all(|(i, it)| self.letters.get(self.at + i) == Some(&it));
        if is_next {
            self.at += text.chars().count();
        }
        is_next
    }

    fn expect(&mut self, text: &str) -> Result<(), ParseError> {
        if self.take(text) { Ok(()) } else { Err(self.problem(format!("expected {text:?} here"))) }
    }

    fn blanks(&mut self) {
        while self.peek() == Some(' ') {
            self.at += 1;
        }
    }

    /// Up to the end of the text, or to an `{end}`; which of them.
    fn parts(&mut self, depth: usize) -> Result<(Vec<Part>, bool), ParseError> {
        if depth > DEPTH_MAX {
            return Err(self.problem("there are too many ranges inside each other"));
        }
        let mut parts = Vec::new();
        let mut text = String::new();
        while let Some(letter) = self.peek() {
            self.at += 1;
            if letter != '{' {
                text.push(letter);
                continue;
            }
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            self.blanks();
            if self.take("end}") || self.take("end }") {
                return Ok((parts, true));
            }
            parts.push(self.expression(depth)?);
        }
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok((parts, false))
    }

    /// After the opening brace, up to and with the closing one.
    fn expression(&mut self, depth: usize) -> Result<Part, ParseError> {
        if let Some(quote @ ('"' | '\'')) = self.peek() {
            let text = self.quoted(quote)?;
            self.close()?;
            return Ok(Part::Text(text));
        }
        if self.take("range ") {
            self.blanks();
            let path = self.path("}")?;
            self.close()?;
            return match self.parts(depth + 1)? {
                (parts, true) => Ok(Part::Range(path, parts)),
                (_, false) => Err(self.problem("a {range} has no {end}")),
            };
        }
        let path = self.path("}")?;
        self.close()?;
        Ok(Part::Path(path))
    }

    fn close(&mut self) -> Result<(), ParseError> {
        self.blanks();
        match self.peek() {
            Some('}') => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(self.problem("expected } here")),
            None => Err(self.problem("an expression ends before its }")),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, ParseError> {
        self.at += 1;
        let mut text = String::new();
        while let Some(letter) = self.peek() {
            self.at += 1;
            match letter {
                '\\' => {
                    let escaped = self.peek().ok_or_else(|| self.problem("a text ends in a backslash"))?;
                    self.at += 1;
                    text.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        other => other,
                    });
                }
                letter if letter == quote => return Ok(text),
                letter => text.push(letter),
            }
        }
        Err(self.problem("a text has no closing quote"))
    }

    /// Up to one of the letters that may come after it.
    fn path(&mut self, ends: &str) -> Result<Path, ParseError> {
        let from_root = self.take("$");
        if !from_root {
            self.take("@");
        }
        let mut steps = Vec::new();
        loop {
            if self.take("..") {
                let name = self.name(ends)?;
                steps.push(Step::Deep(Some(name).filter(|name| !name.is_empty() && name != "*")));
            } else if self.take("[") {
                steps.push(self.bracket()?);
            } else if self.take(".") {
                match self.name(ends)?.as_str() {
                    "*" => steps.push(Step::Every),
                    // `{.}` is the thing itself, `.[0]` the same as `[0]`.
                    "" => {}
                    name => steps.push(Step::Field(name.to_owned())),
                }
            } else if steps.is_empty() && !from_root && self.is_name(ends) {
                // `metadata.name`, without the dot.
                steps.push(Step::Field(self.name(ends)?));
            } else {
                return Ok(Path { from_root, steps });
            }
        }
    }

    fn is_name(&self, ends: &str) -> bool {
        self.peek().is_some_and(|letter| letter.is_alphanumeric() && !ends.contains(letter))
    }

    fn name(&mut self, ends: &str) -> Result<String, ParseError> {
        let mut name = String::new();
        while let Some(letter) = self.peek() {
            match letter {
                '\\' => {
                    self.at += 1;
                    name.push(self.peek().ok_or_else(|| self.problem("a name ends in a backslash"))?);
                }
                '.' | '[' | ' ' => break,
                letter if ends.contains(letter) => break,
                letter => name.push(letter),
            }
            self.at += 1;
        }
        Ok(name)
    }

    /// After the opening bracket, up to and with the closing one.
    fn bracket(&mut self) -> Result<Step, ParseError> {
        if self.take("?(") {
            let filter = self.filter()?;
            self.expect(")]")?;
            return Ok(Step::Filter(Box::new(filter)));
        }
        if self.take("*]") {
            return Ok(Step::Every);
        }
        if let Some(quote @ ('"' | '\'')) = self.peek() {
            let mut names = vec![self.quoted(quote)?];
            while self.take(",") {
                self.blanks();
                names.push(self.quoted(quote)?);
            }
            self.expect("]")?;
            return Ok(if names.len() == 1 { Step::Field(names.remove(0)) } else { Step::Several(names) });
        }
        let first = self.number()?;
        if self.take(":") {
            let last = self.number()?;
            self.expect("]")?;
            return Ok(Step::Slice(first, last));
        }
        let index = first.ok_or_else(|| self.problem("expected a number, a quoted name, * or ?( here"))?;
        self.expect("]")?;
        Ok(Step::Index(index))
    }

    fn number(&mut self) -> Result<Option<i64>, ParseError> {
        let start = self.at;
        while self.peek().is_some_and(|letter| letter == '-' || letter.is_ascii_digit()) {
            self.at += 1;
        }
        let text: String = self.letters[start..self.at].iter().collect();
        match text.is_empty() {
            true => Ok(None),
            false => text.parse().map(Some).map_err(|_| self.problem(format!("{text:?} is not a number"))),
        }
    }

    fn filter(&mut self) -> Result<Filter, ParseError> {
        const RELATIONS: [(&str, Relation); 6] = [
            ("==", Relation::Equal),
            ("!=", Relation::Unequal),
            ("<=", Relation::LessOrEqual),
            (">=", Relation::MoreOrEqual),
            ("<", Relation::Less),
            (">", Relation::More),
        ];
        self.blanks();
        let left = self.operand()?;
        self.blanks();
        let relation = RELATIONS.iter().find(|(text, _)| self.take(text)).map(|(_, relation)| *relation);
        let Some(relation) = relation else {
            return match left {
                Operand::Path(path) => Ok(Filter::Exists(path)),
                Operand::Value(_) => Err(self.problem("expected ==, !=, <, <=, > or >= here")),
            };
        };
        self.blanks();
        let right = self.operand()?;
        self.blanks();
        Ok(Filter::Compare(left, relation, right))
    }

    fn operand(&mut self) -> Result<Operand, ParseError> {
        match self.peek() {
            Some('@' | '$' | '.') => Ok(Operand::Path(self.path("}])=!<> ")?)),
            Some(quote @ ('"' | '\'')) => Ok(Operand::Value(self.quoted(quote)?.into())),
            _ => {
                let start = self.at;
                while self.peek().is_some_and(|letter| letter.is_alphanumeric() || "-+.".contains(letter)) {
                    self.at += 1;
                }
                let text: String = self.letters[start..self.at].iter().collect();
                serde_json::from_str::<Value>(&text).map(Operand::Value).map_err(|_| {
                    self.problem("expected @, a number, true, false, null or a quoted text here")
                })
            }
        }
    }
}
