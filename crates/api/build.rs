//! Compiles every file under the repository's `proto/` folder, with a compiler written in Rust, so that no
//! `protoc` is needed.
//!
//! A new `.proto` file or folder is picked up without a change here; the module tree follows its package name.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    let manifest = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let root = manifest.join("../../proto").canonicalize()?;
    // Of a folder Cargo watches every file in it, including those added later. The path is relative to this crate, so
    // that clones which share a target folder each watch their own files.
    println!("cargo::rerun-if-changed=../../proto");

    let mut files = Vec::new();
    collect(&root, &mut files)?;
    // A fixed order, because the generated code must not depend on that of the file system.
    files.sort();

    let mut descriptors = protox::compile(&files, [&root])?;
    tonic_prost_build::configure()
        // `Bytes` instead of `Vec<u8>`: a decoded key or value shares the buffer it arrived in.
        .bytes(".")
        .codec_path("crate::codec::SizedCodec")
        .include_file("modules.rs")
        .compile_fds(descriptors.clone())?;

    // Reflection serves names and types; comments would only make every binary larger.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    Ok(())
}

/// Adds every `.proto` file under `folder` to `files`.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
    Ok(())
}
