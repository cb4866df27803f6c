//! The service by which clients ask who they are and what they may do. Asking is for everybody, and is not written down.

use setpoint_access::{Need, Part, Verb};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::access_server::Access;
use tonic::{Request, Response, Status};

use super::{Caller, Gate};
use crate::objects::Refusal;

pub struct AccessService {
    pub gate: Gate,
}

#[tonic::async_trait]
impl Access for AccessService {
    async fn who_am_i(
        &self,
        request: Request<pb::WhoAmIRequest>,
    ) -> Result<Response<pb::WhoAmIResponse>, Status> {
        let Caller { principal, .. } = Caller::of(&request);
        Ok(Response::new(pb::WhoAmIResponse {
            principal: principal.to_string(),
            groups: principal.groups().iter().map(ToString::to_string).collect(),
            enforced: self.gate.is_enforced(),
        }))
    }

    async fn can_i(&self, request: Request<pb::CanIRequest>) -> Result<Response<pb::CanIResponse>, Status> {
        let caller = Caller::of(&request);
        let asked = request.into_inner();
        let verb: Verb = asked.verb.parse().map_err(|_| {
            let verbs: Vec<&str> = Verb::all().map(Verb::as_str).collect();
            Refusal::new(Reason::Invalid, format!("verb must be one of {}", verbs.join(", ")))
        })?;
        if asked.kind.is_empty() {
            return Err(Refusal::invalid("kind", "names no kind").into());
        }
        let part = match asked.part.as_str() {
            "" => Part::Object,
            part => Part::of(part)
                .ok_or_else(|| Refusal::invalid("part", "must be status, logs or exec, or empty"))?,
        };
        let need = Need::part(verb, &asked.kind, part, &asked.namespace, &asked.name);
        let decision = self.gate.decide(&caller, &need);
        Ok(Response::new(pb::CanIResponse { allowed: decision.is_allowed(), reason: decision.to_string() }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use setpoint_access::{Authorizer, Policy, Principal, Role, RoleBinding, Rule};
    use setpoint_consensus::Clock;
    use setpoint_types::Timestamp;

    use super::*;

    struct Never;

    impl Clock for Never {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }
    }

    fn service() -> AccessService {
        let texts = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let rule = Rule { verbs: texts(&["get"]), kinds: texts(&["Workload"]), names: Vec::new() };
        let role = Role { name: "reader".into(), rules: vec![rule] };
        let binding = RoleBinding {
            name: "jane".into(),
            role: "reader".into(),
            subjects: texts(&["user:jane"]),
            namespaces: texts(&["shop"]),
        };
        let authorizer = Arc::new(Authorizer::on(Policy::compile(&[role], &[binding])));
        AccessService { gate: Gate::new(authorizer, None, None, Arc::new(Never)) }
    }

    fn jane<T>(message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.extensions_mut().insert(Principal::new("jane", ["ops"]).expect("a name"));
        request
    }

    #[tokio::test]
    async fn everybody_is_told_who_they_are_and_what_they_may_do() {
        let service = service();
        let told = service.who_am_i(jane(pb::WhoAmIRequest {})).await.expect("an answer").into_inner();
        assert_eq!((told.principal.as_str(), told.enforced), ("user:jane", true));
        assert!(told.groups.contains(&"ops".to_owned()), "{:?}", told.groups);
        let ask = |verb: &str, namespace: &str| pb::CanIRequest {
            verb: verb.into(),
            kind: "Workload".into(),
            namespace: namespace.into(),
            ..Default::default()
        };
        for (verb, namespace, part, allowed) in [
            ("get", "shop", "", true),
            ("get", "shop", "status", false),
            ("get", "", "", false),
            ("delete", "shop", "", false),
        ] {
            let asked = pb::CanIRequest { part: part.into(), ..ask(verb, namespace) };
            let told = service.can_i(jane(asked)).await.expect("an answer").into_inner();
            assert_eq!(told.allowed, allowed, "{verb} {namespace} {part}: {}", told.reason);
            assert!(!told.reason.is_empty());
        }
        let asked = pb::CanIRequest { part: "soul".into(), ..ask("get", "shop") };
        let refused = service.can_i(jane(asked)).await.expect_err("no part");
        assert!(refused.message().contains("status, logs or exec"), "{}", refused.message());
        let refused = service.can_i(jane(ask("eat", "shop"))).await.expect_err("no verb");
        assert!(refused.message().contains("get, list"), "{}", refused.message());
    }

    #[tokio::test]
    async fn where_nobody_is_asked_everything_is_allowed() {
        let service = AccessService { gate: Gate::open() };
        let told =
            service.who_am_i(Request::new(pb::WhoAmIRequest {})).await.expect("an answer").into_inner();
        assert_eq!((told.principal.as_str(), told.enforced), ("anonymous", false));
        let ask = pb::CanIRequest { verb: "delete".into(), kind: "Node".into(), ..Default::default() };
        assert!(service.can_i(Request::new(ask)).await.expect("an answer").into_inner().allowed);
    }
}
