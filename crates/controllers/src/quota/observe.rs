//! What is read before a quota is shown: its ledgers, and now and then the bindings of its namespace at the same revision.

use setpoint_client::{Client, ReadAt};
use setpoint_runtime::ReconcileError;
use setpoint_runtime::cache::{Cache, Key};
use setpoint_types::Timestamp;
use setpoint_types::kinds::{Binding, Quota};

use super::audit::Sums;
use super::plan::{CONSISTENT, Observed, ledger_of};
use super::settings::QuotaSettings;

/// What is looked at.
pub struct Views {
    pub quotas: Cache<Quota>,
    pub bindings: Cache<Binding>,
}

impl Views {
    pub async fn observe(
        &self,
        client: &Client,
        key: &Key,
        now: Timestamp,
        settings: &QuotaSettings,
    ) -> Result<Option<Observed>, ReconcileError> {
        let Some(quota) = self.quotas.read(key)? else { return Ok(None) };
        let name = ledger_of(key.namespace(), key.name(), None);
        let conditions = quota.status.as_ref().map(|it| it.conditions.as_slice()).unwrap_or_default();
        let is_audited = conditions.iter().any(|it| it.kind == CONSISTENT);
        let (sums, at) = match !is_audited || is_due(key, now, settings) {
            true => {
                let bindings = self.bindings.snapshot();
                let mut sums = Sums::default();
                for binding in bindings.namespace(key.namespace()) {
                    let binding = binding.read()?;
                    sums.add(binding.status.as_ref(), &binding.spec.reservations);
                }
                (Some(sums), ReadAt::Exact(bindings.revision()))
            }
            false => (None, ReadAt::Latest),
        };
        let (mut ledgers, revision) = client.ledgers().list(&name, at).await?;
        // Names of others may begin with this one's.
        let zones = format!("{name}/");
        ledgers.retain(|ledger| ledger.name == name || ledger.name.starts_with(&zones));
        Ok(Some(Observed { quota, ledgers, revision, sums, now }))
    }
}

/// Whether this is the run of its period in which the quota is audited. Follows from the time alone, and is another moment for each.
fn is_due(key: &Key, now: Timestamp, settings: &QuotaSettings) -> bool {
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    let every = millis(settings.audit_every());
    let offset = key.stable_hash() % every;
    now.0.wrapping_add(offset) % every < millis(settings.show_every())
}
