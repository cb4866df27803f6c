//! etcd's users and roles. They are answered as not implemented: who may do what is not decided by etcd's means. Only
//! the question whether they are on is answered, since clients ask it.

use setpoint_access::{Need, Verb};
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::auth_server::Auth;
use tonic::{Request, Response, Status};

use super::context::Context;

pub struct AuthService(pub Context);

fn unimplemented<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented(
        "etcd's users and roles are not served; docs/operations.md says how access is controlled",
    ))
}

macro_rules! unimplemented_rpcs {
    ($($name:ident($request:ident) -> $response:ident;)*) => {
        #[tonic::async_trait]
        impl Auth for AuthService {
            async fn auth_status(
                &self,
                request: Request<pb::AuthStatusRequest>,
            ) -> Result<Response<pb::AuthStatusResponse>, Status> {
                self.0.may_read(&request, |_| vec![Need::cluster(Verb::Get, "status")])?;
                let header = self.0.current_header();
                Ok(Response::new(pb::AuthStatusResponse { header, enabled: false, auth_revision: 1 }))
            }

            $(async fn $name(&self, _request: Request<pb::$request>) -> Result<Response<pb::$response>, Status> {
                unimplemented()
            })*
        }
    };
}

unimplemented_rpcs! {
    auth_enable(AuthEnableRequest) -> AuthEnableResponse;
    auth_disable(AuthDisableRequest) -> AuthDisableResponse;
    authenticate(AuthenticateRequest) -> AuthenticateResponse;
    user_add(AuthUserAddRequest) -> AuthUserAddResponse;
    user_get(AuthUserGetRequest) -> AuthUserGetResponse;
    user_list(AuthUserListRequest) -> AuthUserListResponse;
    user_delete(AuthUserDeleteRequest) -> AuthUserDeleteResponse;
    user_change_password(AuthUserChangePasswordRequest) -> AuthUserChangePasswordResponse;
    user_grant_role(AuthUserGrantRoleRequest) -> AuthUserGrantRoleResponse;
    user_revoke_role(AuthUserRevokeRoleRequest) -> AuthUserRevokeRoleResponse;
    role_add(AuthRoleAddRequest) -> AuthRoleAddResponse;
    role_get(AuthRoleGetRequest) -> AuthRoleGetResponse;
    role_list(AuthRoleListRequest) -> AuthRoleListResponse;
    role_delete(AuthRoleDeleteRequest) -> AuthRoleDeleteResponse;
    role_grant_permission(AuthRoleGrantPermissionRequest) -> AuthRoleGrantPermissionResponse;
    role_revoke_permission(AuthRoleRevokePermissionRequest) -> AuthRoleRevokePermissionResponse;
}
