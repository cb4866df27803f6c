//! The page about the API: services with their methods, then messages with their fields, with the comments of the contract.
//!
//! The contract is written as documentation, a definition to a line: it is read line by line, not parsed. Not here: what it means
//! (`proto/setpoint/v1`).

use std::fmt::Write as _;

const HEAD: &str = "\
# The API

Made by `cargo xtask reference` from `proto/setpoint/v1`, the contract; every language's protobuf compiler makes a client of it, and a node tells it by reflection. Every failed
call carries a `setpoint.v1.Error` in its status details ([what each reason means](../errors.md)). Beside these services a node serves etcd's (`proto/etcd`), gRPC health and
reflection.
";

/// The page about the files of the contract, given their names and texts.
pub fn page(files: &[(String, String)]) -> String {
    let mut page = String::from(HEAD);
    for (name, text) in files {
        let (about, blocks) = read(text);
        let _ = writeln!(page, "\n## {name}.proto\n\n{about}");
        for block in blocks.iter().filter(|block| block.word == "service") {
            service(&mut page, block);
        }
        for block in blocks.iter().filter(|block| block.word != "service") {
            message(&mut page, block);
        }
    }
    page
}

/// A service, message or enum, with what is in it.
struct Block {
    word: &'static str,
    /// With those around it: `WatchEvent.Type`.
    name: String,
    about: String,
    lines: Vec<Line>,
}

/// A method, field or value, as it stands in the contract.
struct Line {
    text: String,
    about: String,
}

/// What the file says about itself, and its definitions in their order.
fn read(text: &str) -> (String, Vec<Block>) {
    let mut blocks: Vec<Block> = Vec::new();
    // Indices of the blocks that are open; `None` for a `oneof`, whose fields belong to what is around it.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    let mut head = None;
    for line in text.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("//") {
            comment.push(words.trim());
            continue;
        }
        let about = std::mem::take(&mut comment).join(" ");
        if line.starts_with("syntax") {
            head = Some(about);
        } else if line == "}" {
            open.pop();
        } else if let Some(opening) = line.strip_suffix('{') {
            open.push(begin(&mut blocks, &open, opening.trim(), about));
        } else if let Some(index) = open.iter().rev().find_map(|block| *block)
            && let Some(text) = line.strip_suffix(';')
        {
            blocks[index].lines.push(Line { text: text.to_owned(), about });
        }
    }
    (head.unwrap_or_default(), blocks)
}

fn begin(blocks: &mut Vec<Block>, open: &[Option<usize>], opening: &str, about: String) -> Option<usize> {
    let word = ["service", "message", "enum"].into_iter().find(|word| opening.starts_with(word))?;
    let own = opening[word.len()..].trim();
    let name = match open.iter().rev().find_map(|block| *block) {
        Some(outer) => format!("{}.{own}", blocks[outer].name),
        None => own.to_owned(),
    };
    blocks.push(Block { word, name, about, lines: Vec::new() });
    Some(blocks.len() - 1)
}

fn service(page: &mut String, block: &Block) {
    let _ = writeln!(page, "\n### Service {}\n", block.name);
    if !block.about.is_empty() {
        let _ = writeln!(page, "{}\n", block.about);
    }
    let _ = writeln!(page, "| method | request | response | what |\n|---|---|---|---|");
    for line in &block.lines {
        let Some((name, rest)) = line.text.trim_start_matches("rpc ").split_once('(') else { continue };
        let Some((request, rest)) = rest.split_once(')') else { continue };
        let response =
            rest.trim().trim_start_matches("returns").trim().trim_start_matches('(').trim_end_matches(')');
        let _ =
            writeln!(page, "| `{name}` | {} | {} | {} |", link(request), link(response), cell(&line.about));
    }
}

/// `stream WatchResponse` as a link to the message.
fn link(of: &str) -> String {
    match of.strip_prefix("stream ") {
        Some(message) => format!("stream of {}", link(message)),
        None => format!("[{of}](#{})", of.to_lowercase().replace('.', "")),
    }
}

fn message(page: &mut String, block: &Block) {
    let _ = writeln!(page, "\n#### {}\n", block.name);
    if !block.about.is_empty() {
        let _ = writeln!(page, "{}\n", block.about);
    }
    if block.lines.is_empty() {
        return;
    }
    let _ = writeln!(page, "| {} | what |\n|---|---|", if block.word == "enum" { "value" } else { "field" });
    for line in &block.lines {
        let _ = writeln!(page, "| `{}` | {} |", line.text, cell(&line.about));
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_fields_and_values_come_with_their_comments() {
        let contract = "// About things.\nsyntax = \"proto3\";\n\nservice Things {\n  // Looks | sees.\n  rpc Watch(WatchRequest) returns (stream Thing);\n}\n\n\
            // One thing.\nmessage Thing {\n  enum Type {\n    // It is new.\n    NEW = 1;\n  }\n  oneof it {\n    // Its name.\n    string name = 1;\n  }\n}\n";
        let page = page(&[("things".to_owned(), contract.to_owned())]);
        for line in [
            "## things.proto\n\nAbout things.",
            "| `Watch` | [WatchRequest](#watchrequest) | stream of [Thing](#thing) | Looks \\| sees. |",
            "#### Thing\n\nOne thing.\n\n| field | what |\n|---|---|\n| `string name = 1` | Its name. |",
            "#### Thing.Type\n\n| value | what |\n|---|---|\n| `NEW = 1` | It is new. |",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }
}
