//! As much of `protoc` as build scripts need, so that testing with the `etcd-client` crate needs no system package.
//!
//! `scripts/test-rust-client` uses it.
//!
//! It reads proto files and writes a descriptor set: `protoc [--flags] -o OUT -I DIR... FILE...`. It generates no code.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use prost::Message;

#[derive(Debug, thiserror::Error)]
enum ProtocError {
    #[error("{0:?} needs an argument")]
    MissingArgument(&'static str),
    #[error("no output file; only -o OUT is supported")]
    NoOutput,
    #[error(transparent)]
    Compile(#[from] protox::Error),
    #[error("could not write the descriptor set")]
    Write(#[from] std::io::Error),
}

#[expect(clippy::print_stderr, reason = "a command-line program")]
fn main() -> ExitCode {
    match run(std::env::args_os().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("protoc-in-rust: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: impl Iterator<Item = OsString>) -> Result<(), ProtocError> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let mut files: Vec<PathBuf> = Vec::new();
    let mut out = None;
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("-o") => out = Some(arguments.next().ok_or(ProtocError::MissingArgument("-o"))?),
            Some("-I") => folders.push(arguments.next().ok_or(ProtocError::MissingArgument("-I"))?.into()),
            // Imports and source information are always included.
            Some(flag) if flag.starts_with("--") => {}
            _ => files.push(argument.into()),
        }
    }
    let out = out.ok_or(ProtocError::NoOutput)?;
    let descriptors = protox::compile(files, folders)?;
    std::fs::write(out, descriptors.encode_to_vec())?;
    Ok(())
}
