//! A kind of a program's own is served.

use setpoint_client::{Client, Typed};
use setpoint_types::KindType;
use setpoint_types::kinds::{KindDefinition, KindDefinitionSpec};

use super::{EnsureError, Ensured, ensure_applied};

/// The definition of `K` is as the program describes it; objects of it are served from then on, by every node.
///
/// To be called at start, by a client with a manager. The definition is applied whole: what another manager added to it stays, and a
/// field that another one decides is refused ([`EnsureError::FieldsTaken`]).
///
/// **Guarantees**: run again, it changes nothing. **Assumes** that the client may write KindDefinitions. **Does not promise** that objects
/// written under an earlier definition fit this one.
pub async fn ensure_kind<K: KindType>(client: &Client) -> Result<Ensured<Typed<KindDefinition>>, EnsureError> {
    let wanted = Typed::<KindDefinition>::new(K::INFO.plural, KindDefinitionSpec::of::<K>());
    ensure_applied(&client.api::<KindDefinition>(), None, &wanted, false).await
}
