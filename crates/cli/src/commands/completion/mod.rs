//! `setpoint completion`: scripts for shells, which ask this program what could come next.
//!
//! - [`candidates`]: what could come next
//!
//! The scripts are small and know nothing themselves, so they never fall behind the program. Where it knows nothing either, they
//! complete the names of files.

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
  if (( ${#candidates} )); then
    _describe setpoint candidates
  else
    _files
  fi
}
# Out of a folder of $fpath it is called at once, the first time; read by `source` it is only made known.
if [[ ${funcstack[1]} == _setpoint ]]; then
  _setpoint "$@"
else
  compdef _setpoint setpoint
fi
"#;

const FISH: &str = r#"# setpoint's completion for fish. To use it in every shell:
#   setpoint completion fish > ~/.config/fish/completions/setpoint.fish
function __setpoint_complete
  set -l words (commandline -opc)
  # Quoted, so that an empty word is a word.
  set -l current (commandline -ct)
  set -l found (setpoint __complete -- $words[2..-1] "$current" 2>/dev/null)
  if set -q found[1]
    printf '%s\n' $found
  else
    __fish_complete_path "$current"
  end
end
complete -c setpoint -f -a '(__setpoint_complete)'
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
