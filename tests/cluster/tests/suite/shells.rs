//! Completion as shells do it: the script loads, and completes commands, kinds and the names of objects that are there.
//!
//! Each shell is the real one, where the machine has it.

use std::fs;
use std::path::Path;
use std::process::Command;

use setpoint_cluster_tests::testbed::{Setup, Testbed};
use setpoint_etcd_tests::cluster::setpointd;
use setpoint_etcd_tests::skip::skipped;

/// What is typed, and what one Tab makes of it.
const TYPED: [(&str, &str); 5] = [
    ("setpoint roll", "setpoint rollout"),
    ("setpoint rollout und", "setpoint rollout undo"),
    ("setpoint get quot", "setpoint get quota"),
    ("setpoint get namespaces fro", "setpoint get namespaces front-office"),
    ("setpoint delete namespace/bac", "setpoint delete namespace/back-office"),
];

/// A line is completed in place, as bash does it, out of what the function leaves in COMPREPLY.
const BASH: &str = r#"
source <(setpoint completion bash)
read -ra COMP_WORDS <<< "$1"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_setpoint
COMP_WORDS[COMP_CWORD]=${COMPREPLY[0]}
echo "${COMP_WORDS[@]}"
"#;

/// A shell in a terminal of its own, a Tab, and what is in its line then. The script is where zsh looks for such ones.
const ZSH: &str = r#"
zmodload zsh/zpty
mkdir -p $HOME/functions
setpoint completion zsh > $HOME/functions/_setpoint
zpty inner zsh -f -i
zpty -w inner "fpath=($HOME/functions \$fpath); autoload -Uz compinit; compinit -u -D; PS1='' ; shown() { print -r -- \"<\$BUFFER>\"; BUFFER=; zle accept-line }; zle -N shown; bindkey '^G' shown; print rea'dy'"
zpty -r inner line $'*ready\r\n*' || exit 1
zpty -w -n inner "$1"$'\t'
zpty -w -n inner $'\a'
zpty -r inner line '*<*>*' || exit 1
print -r -- ${${line##*<}%%>*}
zpty -d inner
"#;

/// Fish says itself what it would offer, with a description after a tab. It is given what stands before the last word.
const FISH: &str = r#"
setpoint completion fish | source
set -l found (complete -C $argv[1] | string split -f1 \t)
set -l words (string split ' ' $argv[1])
echo $words[1..-2] $found[1]
"#;

/// What a shell makes of a line.
fn completed(bed: &Testbed, shell: &str, script: &str, line: &str) -> String {
    let home = bed.cluster.root();
    let bin = setpointd().expect("the server's program");
    let bin = bin.parent().unwrap_or(Path::new("."));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("timeout");
    command.args(["60", shell]);
    match shell {
        "bash" => command.args(["--norc", "-c", script, "bash", line]),
        "zsh" => command.args(["-f", "-c", script, "zsh", line]),
        _ => command.args(["--no-config", "-c", script, line]),
    };
    let output = command
        .env_clear()
        .env("PATH", path)
        .env("HOME", home)
        .env("TERM", "dumb")
        .env("SETPOINT_CONFIG", home.join("config"))
        .current_dir(home)
        .output()
        .expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{shell} {line:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

fn has(shell: &str) -> bool {
    Command::new(shell).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_shell_completes_commands_kinds_and_names() {
    let bed = Testbed::start_with("shells", Setup::calm()).await;
    let home = bed.cluster.root();
    let endpoints = bed.addresses().join("', '");
    let config = format!(
        "current-context: here\nclusters: [{{name: here, endpoints: ['{endpoints}']}}]\n\
         contexts: [{{name: here, cluster: here}}]\nusers: []\n"
    );
    fs::write(home.join("config"), config).expect("written");
    let objects = "kind: Namespace\nmetadata: {name: front-office}\n---\nkind: Namespace\nmetadata: {name: back-office}\n";
    fs::write(home.join("objects.yaml"), objects).expect("written");
    let setpoint = setpointd().expect("the server's program").with_file_name("setpoint");
    let applied = Command::new(setpoint)
        .args(["apply", "-f", "objects.yaml"])
        .env("SETPOINT_CONFIG", home.join("config"))
        .current_dir(home)
        .status();
    assert!(applied.is_ok_and(|status| status.success()), "the namespaces are there");

    for (shell, script) in [("bash", BASH), ("zsh", ZSH), ("fish", FISH)] {
        if !has(shell) {
            skipped(&format!("completion in {shell}, which is not installed"));
            continue;
        }
        for (typed, expected) in TYPED {
            let line = completed(&bed, shell, script, typed);
            assert!(line.starts_with(expected), "{shell}: {typed:?} became {line:?}, not {expected:?}");
        }
    }
    bed.no_panics();
}
