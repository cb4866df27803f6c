//! Setpoint's wire contracts: the messages, clients and server traits generated from the files under `proto/`.
//!
//! The module of a message is its protobuf package, with its comments as documentation:
//!
//! | module | contract | source |
//! |---|---|---|
//! | [`etcdserverpb`] | etcd v3 services: KV, Watch, Lease, Cluster, Maintenance, Auth | `proto/etcd/rpc.proto` |
//! | [`mvccpb`], [`authpb`] | the messages they share | `proto/etcd/kv.proto`, `auth.proto` |
//! | [`v3lockpb`], [`v3electionpb`] | etcd's lock and election services | `proto/etcd/lock.proto`, `election.proto` |
//! | [`setpoint::v1`] | objects, and leases over them | `proto/setpoint/v1/` |
//! | [`setpoint::peer::v1`] | what the members of a cluster say to each other | `proto/setpoint/peer/v1/` |
//!
//! [`raw`] is the server's side of the services that answer with objects, which sends them as they are stored, and
//! [`status`] what a refused call carries. Not here: any meaning. Messages are checked and turned into domain types at the edge that receives them.

// Documentation and shape of generated code follow the proto files and the generator, not our lints.
#![allow(clippy::doc_lazy_continuation, clippy::large_enum_variant)]

pub mod codec;
pub mod raw;
pub mod status;

include!(concat!(env!("OUT_DIR"), "/modules.rs"));

/// Every contract of this crate as an encoded `FileDescriptorSet`, for gRPC server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
