//! Scripts: commands, and what comes of them.
//!
//! ```text
//! # a comment
//! > status Workload default/web '{"replicas":{"ready":1}}'    what others do meanwhile
//! > after 5s delete Workload default/web                      later
//! > file web.yaml <<EOF                                       a file, which commands call @/web.yaml
//! > user jane ops                                             who sits at the keyboard from now on
//! > pass 10s                                                  time
//! > ring                                                      from now on there are three nodes, and no objects
//! > lose n3                                                   one of them is gone
//! $ setpoint get workloads                                    a command; its standard output follows,
//! ! There are no workloads in namespace default.              then its standard error, then its exit unless it is 0
//! [3]
//! $ timeout 5s setpoint get workloads -w                      one that would not end by itself
//! ```

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use setpoint_testkit::World;

use crate::ring::Ring;
use crate::theatre::{Theatre, act};

/// A command or something else that happens, with the text that is put into it.
struct Step {
    line: String,
    input: String,
    /// As it is written, for writing it again.
    source: String,
}

/// For a command that nobody stops.
const LIMIT: Duration = Duration::from_secs(3600);

/// Plays a script and compares, or writes it anew.
pub async fn check(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let played = play(&text).await;
    compare(path, &text, played);
}

fn compare(path: &Path, text: &str, played: String) {
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        return std::fs::write(path, played).expect("the script can be written");
    }
    if played != text {
        let differs = text.lines().zip(played.lines()).position(|(a, b)| a != b);
        let line = differs.unwrap_or_else(|| text.lines().count().min(played.lines().count()));
        panic!(
            "{}:{}: expected\n  {}\nfound\n  {}\n--- all of it:\n{played}",
            path.display(),
            line + 1,
            text.lines().nth(line).unwrap_or("(the end)"),
            played.lines().nth(line).unwrap_or("(the end)"),
        );
    }
}

/// Plays the blocks called `console` of a page, as one script. Lines like `<!-- > pass 10s -->` are what happens between them.
pub async fn check_page(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut theatre = Theatre::new(World::new());
    let mut played = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let _ = writeln!(played, "{line}");
        if line == "```console" {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            for step in steps(&block.join("\n")) {
                played.push_str(&step.source);
                let command = step.line.strip_prefix("$ ").expect("a command");
                perform(&theatre, command, &step.input, &mut played).await;
                // A page is read: no line between a command and the next.
                played.truncate(played.trim_end().len());
                played.push('\n');
            }
            played.push_str("```\n");
        } else if let Some(happens) = line.strip_prefix("<!-- > ").and_then(|line| line.strip_suffix(" -->"))
        {
            happen(&mut theatre, happens, "").await;
        }
    }
    compare(path, &text, played);
}

async fn play(text: &str) -> String {
    let mut theatre =
        Theatre::new(if text.contains("\n> guarded") { World::guarded() } else { World::new() });
    let mut played = String::new();
    for step in steps(text) {
        played.push_str(&step.source);
        if let Some(command) = step.line.strip_prefix("$ ") {
            perform(&theatre, command, &step.input, &mut played).await;
        } else if let Some(happens) = step.line.strip_prefix("> ") {
            happen(&mut theatre, happens, &step.input).await;
        }
    }
    played
}

/// Lines of a script. Results are left out: they come from playing it.
fn steps(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !line.starts_with("$ ") && !line.starts_with("> ") && !line.starts_with("# ") {
            continue;
        }
        let mut step = Step { line: line.to_owned(), input: String::new(), source: format!("{line}\n") };
        if let Some((command, end)) = line.split_once(" <<") {
            step.line = command.to_owned();
            for line in lines.by_ref() {
                let _ = writeln!(step.source, "{line}");
                if line == end {
                    break;
                }
                let _ = writeln!(step.input, "{line}");
            }
        }
        steps.push(step);
    }
    steps
}

async fn perform(theatre: &Theatre, command: &str, input: &str, played: &mut String) {
    let folder = theatre.folder.path().display().to_string();
    let mut words: Vec<String> =
        words(command).into_iter().map(|word| word.replace("@/", &format!("{folder}/"))).collect();
    let mut limit = LIMIT;
    if words[0] == "timeout" {
        limit = humantime::parse_duration(&words[1]).expect("a time");
        words.drain(..2);
    }
    assert_eq!(words[0], "setpoint", "{command}");
    let result = theatre.play(&words, input, limit).await;
    let shown = |text: &str| text.replace(&format!("{folder}/"), "@/");
    played.push_str(&shown(&result.out));
    if !result.out.is_empty() && !result.out.ends_with('\n') {
        played.push('\n');
    }
    for line in shown(&result.err).lines() {
        played.push_str(format!("! {line}").trim_end());
        played.push('\n');
    }
    match result.exit {
        Some(0) => {}
        Some(code) => played.push_str(&format!("[{code}]\n")),
        None => played.push_str("[stopped]\n"),
    }
    played.push('\n');
}

async fn happen(theatre: &mut Theatre, happens: &str, input: &str) {
    let words = words(happens);
    match words[0].as_str() {
        "file" => {
            let path = theatre.path(&words[1]);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, input).expect("a file");
        }
        "pass" => theatre.world.pass(humantime::parse_duration(&words[1]).expect("a time")).await,
        "user" => theatre.user = (words[1].clone(), words[2..].to_vec()),
        "set" => {
            theatre.set(&words[1], words[2].replace("@/", &format!("{}/", theatre.folder.path().display())))
        }
        "colour" => theatre.colour = true,
        "ring" => theatre.ring = Some(Ring::default()),
        "lose" => theatre.ring.as_ref().expect("a ring").lose(&words[1]),
        "guarded" => {}
        "after" => {
            let (world, time) =
                (theatre.world.clone(), humantime::parse_duration(&words[1]).expect("a time"));
            tokio::spawn(async move {
                tokio::time::sleep(time).await;
                act(&world.client_as("controller").with_manager("controller"), &words[2..])
                    .await
                    .expect("it is done");
            });
        }
        _ => {
            let client = theatre.world.client_as("controller").with_manager("controller");
            act(&client, &words).await.unwrap_or_else(|problem| panic!("{happens}: {problem}"));
        }
    }
}

/// As a shell takes a line apart: blanks, single and double quotes, backslashes.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' => words.extend(word.take()),
            '\'' => word.get_or_insert_default().extend(letters.by_ref().take_while(|it| *it != '\'')),
            '"' => {
                let word = word.get_or_insert_default();
                while let Some(letter) = letters.next().filter(|it| *it != '"') {
                    word.extend(if letter == '\\' { letters.next() } else { Some(letter) });
                }
            }
            '\\' => word.get_or_insert_default().extend(letters.next()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}
