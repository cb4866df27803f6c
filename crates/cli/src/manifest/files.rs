//! Where documents come from: files, folders, standard input.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::Failure;

/// Which files.
#[derive(Args, Clone, Debug, Default)]
pub struct Files {
    /// A file, a folder with .yaml, .yml and .json files, or - for standard input; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "PATH")]
    pub files: Vec<String>,
    /// With the folders inside folders
    #[arg(short = 'R', long, requires = "files")]
    pub recursive: bool,
}

/// A text, and what to call it.
pub struct Text {
    pub name: String,
    pub text: String,
}

/// Of one file. Larger ones are made by mistake.
const BYTES_MAX: u64 = 64 << 20;
/// Folders inside folders; more are a circle of links.
const DEPTH_MAX: usize = 32;

impl Files {
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The texts, in the order they were named; those of a folder by their names.
    pub fn read(&self, input: &mut dyn Read) -> Result<Vec<Text>, Failure> {
        let mut texts = Vec::new();
        for name in &self.files {
            if name == "-" {
                texts.push(Text { name: "standard input".to_owned(), text: text("standard input", input)? });
            } else if name.starts_with("http://") || name.starts_with("https://") {
                let advice =
                    format!("{name} is not a file; fetch it first: curl -fsSL {name} | setpoint apply -f -");
                return Err(Failure::usage(advice));
            } else {
                self.read_path(Path::new(name), &mut texts)?;
            }
        }
        Ok(texts)
    }

    fn read_path(&self, path: &Path, texts: &mut Vec<Text>) -> Result<(), Failure> {
        let found = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
        if !found.is_dir() {
            texts.push(read_file(path)?);
            return Ok(());
        }
        let before = texts.len();
        for file in self.folder(path, 0)? {
            texts.push(read_file(&file)?);
        }
        if texts.len() == before {
            let deeper = if self.recursive { "" } else { "; -R looks into the folders in it, too" };
            return Err(Failure::usage(format!(
                "{} has no .yaml, .yml or .json files{deeper}",
                path.display()
            )));
        }
        Ok(())
    }

    fn folder(&self, path: &Path, depth: usize) -> Result<Vec<PathBuf>, Failure> {
        let entries = fs::read_dir(path).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>()
        });
        let mut entries = entries.map_err(|error| unreadable(path, &error))?;
        entries.sort();
        let mut files = Vec::new();
        for entry in entries {
            if entry.is_dir() {
                if self.recursive && depth < DEPTH_MAX {
                    files.extend(self.folder(&entry, depth + 1)?);
                }
            } else if entry.extension().is_some_and(|it| it == "yaml" || it == "yml" || it == "json") {
                files.push(entry);
            }
        }
        Ok(files)
    }
}

fn read_file(path: &Path) -> Result<Text, Failure> {
    let mut file = fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    let name = path.display().to_string();
    Ok(Text { text: text(&name, &mut file)?, name })
}

fn text(name: &str, input: &mut dyn Read) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = input.take(BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(Path::new(name), &error))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Failure::usage(format!("{name} is larger than {} MiB; split it", BYTES_MAX >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{name} is not text (UTF-8)")))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let reason = match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "you are not allowed to read it".to_owned(),
        _ => error.to_string(),
    };
    Failure::usage(format!("{} cannot be read: {reason}", path.display()))
}
