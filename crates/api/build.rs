//! Compiles every file under the repository's `proto/` folder, with a compiler written in Rust, so that no
//! `protoc` is needed.
//!
//! A new `.proto` file or folder is picked up without a change here; the module tree follows its package name.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorSet};

/// Whose maps have an order: encoded again, a request is the same bytes, and an operation id recognises its repetition.
const IN_ORDER: &str = ".setpoint.v1";

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
        .btree_map(IN_ORDER)
        .codec_path("crate::codec::SizedCodec")
        .include_file("modules.rs")
        .compile_fds(descriptors.clone())?;
    compile_raw(&descriptors, &out.join("raw"))?;

    // Reflection serves names and types; comments would only make every binary larger.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    Ok(())
}

/// The package whose answers carry objects, and where its ordinary types are.
const OBJECTS: (&str, &str) = (".setpoint.v1", "crate::setpoint::v1");
/// What the server writes by hand instead: see `src/raw`.
const BY_HAND: [(&str, &str); 2] =
    [("Object", "crate::raw::RawObject"), ("WatchResponse", "crate::raw::RawWatchResponse")];

/// Compiles once more, for the server, the services that answer with objects: those answers hold objects as they are
/// stored. All other messages are the ordinary ones.
fn compile_raw(descriptors: &FileDescriptorSet, out: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(out)?;
    let (package, module) = OBJECTS;
    let mut set = descriptors.clone();
    set.file.retain(|file| format!(".{}", file.package()) == package);
    let messages: Vec<_> = set.file.iter().flat_map(|file| file.message_type.clone()).collect();
    let carrying = carrying(&messages, package);
    let mut answers = BTreeSet::new();
    for file in &mut set.file {
        file.service
            .retain(|service| service.method.iter().any(|method| carrying.contains(method.output_type())));
        let methods = file.service.iter().flat_map(|service| &service.method);
        methods.for_each(|method| reach(method.output_type(), &messages, package, &mut answers));
    }

    let mut builder = tonic_prost_build::configure()
        .bytes(".")
        .btree_map(IN_ORDER)
        .codec_path("crate::codec::SizedCodec")
        .build_client(false)
        .out_dir(out)
        .include_file("modules.rs");
    let enums = set.file.iter().flat_map(|file| &file.enum_type).map(|it| it.name());
    for name in messages.iter().map(|message| message.name()).chain(enums) {
        let path = format!("{package}.{name}");
        if let Some((_, by_hand)) = BY_HAND.iter().find(|(it, _)| *it == name) {
            builder = builder.extern_path(path, by_hand);
        } else if !(carrying.contains(&path) && answers.contains(&path)) {
            builder = builder.extern_path(path, format!("{module}::{name}"));
        }
    }
    builder.compile_fds(set)?;
    Ok(())
}

/// The messages in which an object lies, at any depth.
fn carrying(messages: &[DescriptorProto], package: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::from([format!("{package}.Object")]);
    loop {
        let before = found.len();
        for message in messages {
            if message.field.iter().any(|field| found.contains(field.type_name())) {
                found.insert(format!("{package}.{}", message.name()));
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// Adds a message and everything in it to `reached`.
fn reach(path: &str, messages: &[DescriptorProto], package: &str, reached: &mut BTreeSet<String>) {
    let here = |message: &&DescriptorProto| format!("{package}.{}", message.name()) == path;
    if let Some(message) = messages.iter().find(here)
        && reached.insert(path.to_owned())
    {
        message.field.iter().for_each(|field| reach(field.type_name(), messages, package, reached));
    }
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
