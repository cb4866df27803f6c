//! `setpoint completion`: scripts for shells, which ask this program what could come next.
//!
//! - [`candidates`]: what could come next
//!
//! The scripts are small and know nothing themselves, so they never fall behind the program.

mod candidates;

use clap::{Args, ValueEnum};

use crate::exit::Exit;
use crate::session::{Done, Session};

pub use candidates::Complete;

#[derive(Args)]
pub struct Completion {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

const BASH: &str = r#"# setpoint's completion for bash. To use it in every shell:
#   setpoint completion bash > /etc/bash_completion.d/setpoint
_setpoint() {
  local IFS=$'\n'
  COMPREPLY=($(setpoint __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then
    compopt -o nospace 2>/dev/null
  fi
}
complete -o default -F _setpoint setpoint
"#;

const ZSH: &str = r#"#compdef setpoint
# setpoint's completion for zsh. To use it in every shell, into a folder of $fpath:
#   setpoint completion zsh > "${fpath[1]}/_setpoint"
_setpoint() {
  local -a candidates
  local line
  while IFS= read -r line; do
    candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done < <(setpoint __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  _describe setpoint candidates
}
compdef _setpoint setpoint
"#;

const FISH: &str = r#"# setpoint's completion for fish. To use it in every shell:
#   setpoint completion fish > ~/.config/fish/completions/setpoint.fish
complete -c setpoint -f -a '(setpoint __complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
"#;

impl Completion {
    pub fn run(self, session: &mut Session) -> Done {
        session.write(match self.shell {
            Shell::Bash => BASH,
            Shell::Zsh => ZSH,
            Shell::Fish => FISH,
        })?;
        Ok(Exit::Done)
    }
}
