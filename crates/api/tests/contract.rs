//! The compiled contract equals the etcd v3 API, method by method and field by field (`etcd_v3_contract.txt`).
//!
//! A number changed by mistake would not fail anywhere else: both ends of our own tests would change together.

use std::collections::BTreeSet;

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
};

#[test]
fn every_method_field_and_number_is_etcds() {
    let written: BTreeSet<String> = include_str!("etcd_v3_contract.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    let set = FileDescriptorSet::decode(setpoint_api::FILE_DESCRIPTOR_SET).expect("our own encoding");
    let compiled: BTreeSet<String> =
        set.file.iter().filter(|file| file.name().starts_with("etcd/")).flat_map(file_lines).collect();

    let missing: Vec<_> = written.difference(&compiled).collect();
    let unexpected: Vec<_> = compiled.difference(&written).collect();
    assert!(
        missing.is_empty() && unexpected.is_empty(),
        "missing: {missing:#?}\nunexpected: {unexpected:#?}"
    );
}

fn file_lines(file: &FileDescriptorProto) -> Vec<String> {
    let package = file.package();
    let mut lines = Vec::new();
    for service in &file.service {
        for method in &service.method {
            lines.push(format!(
                "{package}.{}/{}({}{}) -> {}{}",
                service.name(),
                method.name(),
                if method.client_streaming() { "stream " } else { "" },
                last_segment(method.input_type()),
                if method.server_streaming() { "stream " } else { "" },
                last_segment(method.output_type()),
            ));
        }
    }
    lines.extend(file.enum_type.iter().map(|kind| enum_line(package, kind)));
    for message in &file.message_type {
        lines.push(message_line(package, message));
        let scope = format!("{package}.{}", message.name());
        lines.extend(message.enum_type.iter().map(|kind| enum_line(&scope, kind)));
    }
    lines
}

fn message_line(scope: &str, message: &DescriptorProto) -> String {
    let mut line = format!("{scope}.{}:", message.name());
    for field in &message.field {
        line.push_str(&format!(" {}={}:{}", contract_name(field), field.number(), field_type(field)));
    }
    line
}

fn enum_line(scope: &str, kind: &EnumDescriptorProto) -> String {
    let mut line = format!("{scope}.{}:", kind.name());
    for value in &kind.value {
        line.push_str(&format!(" {}={}", value.name(), value.number()));
    }
    line
}

/// The field's name, or its JSON name where the proto file sets one that does not follow from it.
fn contract_name(field: &FieldDescriptorProto) -> &str {
    let mut usual = String::new();
    let mut after_underscore = false;
    for letter in field.name().chars() {
        match letter {
            '_' => after_underscore = true,
            _ if after_underscore => {
                usual.push(letter.to_ascii_uppercase());
                after_underscore = false;
            }
            _ => usual.push(letter),
        }
    }
    if field.json_name() == usual { field.name() } else { field.json_name() }
}

fn field_type(field: &FieldDescriptorProto) -> String {
    let kind = match field.r#type() {
        Type::Bytes => "B",
        Type::Int64 => "i",
        Type::Uint64 => "u",
        Type::Uint32 => "u32",
        Type::String => "s",
        Type::Bool => "b",
        Type::Message | Type::Enum => last_segment(field.type_name()),
        other => panic!("{} has a type the contract does not know: {other:?}", field.name()),
    };
    let repeated = if field.label() == Label::Repeated { "[]" } else { "" };
    let member = if field.oneof_index.is_some() { "?" } else { "" };
    format!("{repeated}{member}{kind}")
}

fn last_segment(name: &str) -> &str {
    name.rsplit('.').next().expect("rsplit yields at least one part")
}
