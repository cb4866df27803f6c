//! Every built-in kind: a file each, with its spec, its status, and what a schema cannot say about them.
//!
//! Beside them lie the parts that several kinds share: `template` (what a replica runs), `placement` (where it may), `probe`,
//! `pending` (why something waits). Comments on fields are written for users: they become the descriptions in the
//! schema.
//!
//! In specs and statuses, empty lists, maps and texts mean the same as missing ones.

mod admission_policy;
mod artifact;
mod autoscaler;
mod binding;
mod decision;
mod event;
mod kind_definition;
mod lease;
mod namespace;
mod node;
mod pending;
mod placement;
mod placement_policy;
mod priority_class;
mod probe;
mod quota;
mod replica;
mod replica_set;
mod role;
mod role_binding;
mod rollout;
mod template;
mod workload;
mod workload_status;

pub use admission_policy::{
    AdmissionAction, AdmissionMatch, AdmissionOperation, AdmissionPolicy, AdmissionPolicySpec,
    AdmissionPolicyStatus, FailurePolicy, Mutation, MutationType, NamedExpression, Validation,
};
pub use artifact::Artifact;
pub use autoscaler::{
    Autoscaler, AutoscalerSpec, AutoscalerStatus, Metric, MetricStatus, MetricType, Recommendation,
    ScaleBehaviour, ScaleChange, ScaleRule, ScaleTarget,
};
pub use binding::{Binding, BindingSpec, BindingState, BindingStatus, Reservation};
pub use decision::{
    Cause, Decision, DecisionSpec, DecisionStatus, DetailLevel, FilterCount, NearestMiss, NodeScore, Outcome,
    QuotaVerdict, SearchScope, TopologyVerdict, Verdict, Victim, WakeCondition,
};
pub use event::{Event, EventSpec, EventStatus, EventType};
pub use kind_definition::{
    DefinedColumn, DefinedColumnType, KindDefinition, KindDefinitionSpec, KindDefinitionStatus, KindNames,
    KindRule, KindScope, UnknownFields,
};
pub use lease::{Lease, LeaseSpec, LeaseStatus, LeaseWaiter};
pub use namespace::{Namespace, NamespacePhase, NamespaceSpec, NamespaceStatus};
pub use node::{AgentInfo, Node, NodeSpec, NodeStatus, Taint, TaintEffect};
pub use pending::{PendingCount, PendingReason};
pub use placement::{Affinity, NodePreference, Placement, Spread, Toleration, WhenUnsatisfiable};
pub use placement_policy::{
    Activation, ObservedBy, PlacementPolicy, PlacementPolicySpec, PlacementPolicyStatus, PlacementRules,
    PolicyGate, PolicyScope, ScoreStrategy,
};
pub use priority_class::{Preemption, PriorityClass, PriorityClassSpec, PriorityClassStatus};
pub use probe::{ExecAction, GrpcAction, HttpAction, Probe, TcpAction};
pub use quota::{Quota, QuotaSpec, QuotaStatus, ZoneLimits, ZoneUse};
pub use replica::{Blocked, Exit, Replica, ReplicaEndpoint, ReplicaSpec, ReplicaStatus, Stage, StageTimes};
pub use replica_set::{ReplicaSet, ReplicaSetSpec, ReplicaSetStatus};
pub use role::{AccessRule, Role, RoleSpec, RoleStatus};
pub use role_binding::{RoleBinding, RoleBindingSpec, RoleBindingStatus};
pub use rollout::{Rollout, RolloutPhase, RolloutStrategy};
pub use template::{EnvVar, OnDisconnect, Port, Protocol, ReplicaTemplate, RestartBackoff, RestartPolicy};
pub use workload::{Batch, Workload, WorkloadSpec};
pub use workload_status::{
    DeadlineState, DeadlineStatus, FailureCount, LastAction, LastError, ReplicaCounts, RolloutStatus,
    WorkloadStatus,
};
