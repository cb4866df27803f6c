//! What a node tells about its services, as grpcurl asks: no file of ours is needed to call it.

use std::collections::BTreeMap;

use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorProto};
use setpoint_cluster_tests::testbed::{Setup, Testbed, patiently};
use tonic::Status;
use tonic::transport::Channel;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServiceResponse};

async fn ask(channel: &Channel, message: MessageRequest) -> Result<MessageResponse, Status> {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(message) };
    let mut client = ServerReflectionClient::new(channel.clone());
    let mut answers = client.server_reflection_info(tokio_stream::once(request)).await?.into_inner();
    let answer = answers.message().await?.and_then(|it| it.message_response);
    answer.ok_or_else(|| Status::unavailable("the stream ended"))
}

/// The files that describe a symbol, by name, with all that they import.
async fn files(channel: &Channel, symbol: &str) -> BTreeMap<String, FileDescriptorProto> {
    let (mut found, mut wanted) =
        (BTreeMap::new(), vec![MessageRequest::FileContainingSymbol(symbol.into())]);
    while let Some(request) = wanted.pop() {
        let answer = patiently(|| ask(channel, request.clone())).await;
        let MessageResponse::FileDescriptorResponse(answer) = answer else { panic!("{symbol}: {answer:?}") };
        for bytes in answer.file_descriptor_proto {
            let file = FileDescriptorProto::decode(&bytes[..]).expect("a descriptor");
            let imports = file.dependency.iter().filter(|name| !found.contains_key(*name));
            wanted.extend(imports.cloned().map(MessageRequest::FileByFilename));
            found.insert(file.name().to_owned(), file);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_our_files_learns_how_to_call_us() {
    let bed = Testbed::start_with("a_client_without_our_files", Setup::of(1)).await;
    let channel = bed.clients[0].channel.clone();
    let answer = patiently(|| ask(&channel, MessageRequest::ListServices(String::new()))).await;
    let MessageResponse::ListServicesResponse(listed) = answer else { panic!("{answer:?}") };
    let names: Vec<String> = listed.service.into_iter().map(|ServiceResponse { name }| name).collect();
    for service in ["setpoint.v1.Objects", "setpoint.v1.Coordination", "etcdserverpb.KV"] {
        assert!(names.iter().any(|name| name == service), "{service} is not in {names:?}");
    }

    let files = files(&channel, "setpoint.v1.Objects").await;
    let messages: BTreeMap<String, &DescriptorProto> = files
        .values()
        .flat_map(|file| {
            file.message_type.iter().map(move |it| (format!(".{}.{}", file.package(), it.name()), it))
        })
        .collect();
    let services = files.values().flat_map(|file| &file.service);
    let objects = services.clone().find(|service| service.name() == "Objects").expect("the service");
    let methods: Vec<&str> = objects.method.iter().map(|method| method.name()).collect();
    for method in ["Get", "List", "Watch", "Apply", "Transact", "History"] {
        assert!(methods.contains(&method), "{method} is not in {methods:?}");
    }
    // Whatever is needed to write a request and read its answer.
    for method in &objects.method {
        for message in [method.input_type(), method.output_type()] {
            assert!(messages.contains_key(message), "{message} of {} is not described", method.name());
        }
    }
    let object = messages[".setpoint.v1.Object"];
    let fields: Vec<&str> = object.field.iter().map(|field| field.name()).collect();
    assert_eq!(fields, ["kind", "metadata", "spec", "status"]);
    for message in messages.values() {
        for field in message.field.iter().filter(|field| field.type_name().starts_with(".setpoint.v1.")) {
            let known = messages.keys().any(|it| field.type_name().starts_with(it.as_str()));
            let is_enum = files.values().any(|file| {
                file.enum_type
                    .iter()
                    .any(|it| field.type_name() == format!(".{}.{}", file.package(), it.name()))
            });
            assert!(known || is_enum, "{} is not described", field.type_name());
        }
    }
    let unknown = MessageRequest::FileContainingSymbol("setpoint.v1.Nothing".into());
    assert!(!matches!(ask(&channel, unknown).await, Ok(MessageResponse::FileDescriptorResponse(_))));
    bed.no_panics();
}
