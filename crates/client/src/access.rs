//! Who one is to the server, and what one may do.

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::access_client::AccessClient;

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

/// Who the server takes this client for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhoAmI {
    /// `user:jane`, `anonymous`
    pub principal: String,
    pub groups: Vec<String>,
    /// False: nobody is asked who they are, and everybody may do everything.
    pub enforced: bool,
}

/// Something one would like to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deed {
    /// `get`, `delete`
    pub verb: String,
    /// `Workload`; `keys`, `ledgers` or `cluster` for what is no object.
    pub kind: String,
    /// Empty: all of them, or a kind of the whole cluster.
    pub namespace: String,
    /// Empty: all objects, or one that is yet to be named.
    pub name: String,
    /// Of this part instead of the rest: `status`; of a Replica also `logs` and `exec`. Empty: the object.
    pub part: String,
}

/// Whether one may, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leave {
    pub allowed: bool,
    pub reason: String,
}

impl Client {
    /// Asks the server. **Does not promise** that the next request is seen as the same: a token may be revoked meanwhile.
    pub async fn who_am_i(&self) -> Result<WhoAmI, Error> {
        let call = Call::read("ask", "who I am");
        let sent = self.call(&call, pb::WhoAmIRequest {}, |wire, request| async move {
            AccessClient::new(wire).who_am_i(request).await
        });
        let answer = sent.await?.0.into_inner();
        Ok(WhoAmI { principal: answer.principal, groups: answer.groups, enforced: answer.enforced })
    }

    /// Nothing is done. **Does not promise** that it is still allowed when it is.
    pub async fn can_i(&self, deed: &Deed) -> Result<Leave, Error> {
        let call = Call::read("ask", "what I may do");
        let request = pb::CanIRequest {
            verb: deed.verb.clone(),
            kind: deed.kind.clone(),
            namespace: deed.namespace.clone(),
            name: deed.name.clone(),
            part: deed.part.clone(),
        };
        let sent =
            self.call(
                &call,
                request,
                |wire, request| async move { AccessClient::new(wire).can_i(request).await },
            );
        let answer = sent.await?.0.into_inner();
        Ok(Leave { allowed: answer.allowed, reason: answer.reason })
    }
}
