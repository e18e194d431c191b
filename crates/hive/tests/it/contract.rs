//! The protos against the list of the contract: every name, number and type, both ways.

use protox::prost_reflect::prost_types::FileDescriptorProto;
use protox::prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use std::collections::BTreeSet;

const CONTRACT: &str = include_str!("../contract.md");

/// `package message number name type` of each field, `package enum name=number` of each value, `package service method` of each method.
fn told() -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    let mut package = "";
    for line in CONTRACT.lines() {
        if let Some(name) = line.strip_prefix("## Package `") {
            package = name.trim_end_matches('`');
        } else if let Some(service) = line.strip_prefix("**service ") {
            let (service, methods) = service.split_once("**: ").unwrap();
            facts.extend(methods.split("; ").map(|method| format!("{package} service {service} {}", method.replace(" → ", " "))));
        } else if let Some(values) = line.strip_prefix("- enum ") {
            let (name, values) = values.split_once(": ").unwrap();
            facts.extend(values.split(", ").map(|value| format!("{package} enum {name} {value}")));
        } else if let Some(fields) = line.strip_prefix("- ") {
            let (name, mut fields) = fields.split_once(": ").unwrap();
            let mut chosen = Vec::new();
            if let Some((before, oneof)) = fields.split_once(" (oneof ") {
                fields = before;
                let (oneof, names) = oneof.trim_end_matches(')').split_once(" = ").unwrap();
                chosen = names.split('|').map(|name| (name, oneof)).collect();
            }
            facts.insert(format!("{package} message {name}"));
            for field in fields.split(", ").filter(|field| *field != "empty") {
                // The comma in `map<string, string>` is none between fields.
                let field = field.strip_prefix("string>").map_or(field, |_| "");
                let words: Vec<&str> = field.splitn(3, ' ').collect();
                if let [number, field, kind] = words.as_slice() {
                    let kind = if *kind == "map<string" { "map<string, string>" } else { kind };
                    let oneof = chosen.iter().find(|(name, _)| name == field).map_or(String::new(), |(_, oneof)| format!(" of {oneof}"));
                    facts.insert(format!("{package} message {name} {number} {field} {kind}{oneof}"));
                }
            }
        }
    }
    facts
}

/// The same of a file.
fn has(file: &FileDescriptorProto) -> BTreeSet<String> {
    let package = file.package();
    let plain = |name: &str| name.trim_start_matches(&format!(".{package}.")).trim_start_matches('.').to_owned();
    let mut facts = BTreeSet::new();
    for service in &file.service {
        for method in &service.method {
            let stream = |is_stream| if is_stream { "stream " } else { "" };
            let (input, output) = (plain(method.input_type()), plain(method.output_type()));
            let (of, to) = (stream(method.client_streaming()), stream(method.server_streaming()));
            facts.insert(format!("{package} service {} {}({of}{input}) {to}{output}", service.name(), method.name()));
        }
    }
    for kind in &file.enum_type {
        facts.extend(kind.value.iter().map(|value| format!("{package} enum {} {}={}", kind.name(), value.name(), value.number())));
    }
    for message in &file.message_type {
        facts.insert(format!("{package} message {}", message.name()));
        for field in &message.field {
            let is_map = message.nested_type.iter().any(|nested| field.type_name().ends_with(&format!(".{}", nested.name())));
            let kind = match field.r#type() {
                Type::Message if is_map => "map<string, string>".to_owned(),
                Type::Message | Type::Enum => plain(field.type_name()),
                other => other.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
            };
            let repeated = if field.label() == Label::Repeated && !is_map { "repeated " } else { "" };
            let oneof = field.oneof_index.map_or(String::new(), |at| format!(" of {}", message.oneof_decl[at as usize].name()));
            facts.insert(format!("{package} message {} {} {} {repeated}{kind}{oneof}", message.name(), field.number(), field.name()));
        }
    }
    facts
}

#[test]
fn the_protos_are_the_contract() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let files = protox::compile(["agent.proto", "core.proto"], [folder]).unwrap().file;
    let has: BTreeSet<String> = files.iter().flat_map(has).collect();
    let told = told();
    let (missing, extra): (Vec<_>, Vec<_>) = (told.difference(&has).collect(), has.difference(&told).collect());
    assert!(missing.is_empty() && extra.is_empty(), "the protos lack {missing:#?}\nand have {extra:#?}");
    // A control: the list was read.
    let count = |part: &str| told.iter().filter(|fact| fact.contains(part)).count();
    assert_eq!((count("agent service AgentService"), count("core service CoreService")), (6, 22));
    assert!(told.contains("hivekernel.agent message SystemCall 11 list_siblings ListSiblingsRequest of call"));
    assert!(told.contains("hivekernel.core message ProcessEvent 20 fields map<string, string>"));
}
