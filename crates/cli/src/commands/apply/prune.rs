//! Pruning: what was applied before by the same manager, is selected, and is in the files no more, is deleted.

use std::collections::BTreeSet;

use setpoint_client::{Client, DeleteOptions, ListOptions, Scope, WriteOptions};
use setpoint_types::ObjectKey;
use setpoint_types::object::{Object, WriteOperation};

use super::{Apply, DryRun, scope_of};
use crate::failure::Failure;
use crate::kinds::Kinds;
use crate::manifest::Manifest;
use crate::session::Session;
use crate::targets;

impl Apply {
    pub(super) async fn prune(
        &self,
        session: &mut Session,
        client: &Client,
        kinds: &mut Kinds,
        manifests: &[Manifest],
    ) -> Result<(), Failure> {
        let mut kept = BTreeSet::new();
        let mut namespaces = BTreeSet::from([client.home().name().to_owned()]);
        for manifest in manifests {
            let scope = scope_of(session, client, manifest)?;
            namespaces.extend((scope != Scope::Cluster).then(|| scope.name().to_owned()));
            kept.insert(ObjectKey::new(&manifest.kind.name, scope.name(), &manifest.object.metadata.name));
        }
        let options =
            ListOptions { labels: self.selector.clone().unwrap_or_default(), ..ListOptions::default() };
        for kind in kinds.all().await?.to_vec() {
            let scopes = match kind.namespaced {
                true => namespaces.iter().map(Scope::namespace).collect(),
                false => vec![Scope::Cluster],
            };
            for scope in scopes {
                let api = client.dynamic(&kind.name, scope);
                for object in api.list_all(&options).await?.0 {
                    if !self.is_ours(&object) || kept.contains(&object.key()) {
                        continue;
                    }
                    if self.dry_run != DryRun::Client {
                        let write = WriteOptions {
                            dry_run: self.dry_run == DryRun::Server,
                            ..WriteOptions::default()
                        };
                        let uid = Some(object.metadata.uid.clone());
                        let options = DeleteOptions { uid, write, ..DeleteOptions::default() };
                        api.delete(&object.metadata.name, &options).await?;
                    }
                    session.say(format!(
                        "{} pruned{}",
                        targets::label(&kind, &object),
                        self.dry_run.suffix()
                    ))?;
                }
            }
        }
        Ok(())
    }

    /// Applied by this manager, and not on its way out.
    fn is_ours(&self, object: &Object) -> bool {
        let metadata = &object.metadata;
        let ours = metadata
            .managed_fields
            .iter()
            .any(|it| it.manager == self.field_manager && it.operation == WriteOperation::Apply);
        ours && metadata.deleted.is_none()
    }
}
