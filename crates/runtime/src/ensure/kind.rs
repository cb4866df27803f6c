//! A kind that a program brings along is served, before anything is asked of it.

use std::time::Duration;

use setpoint_client::{Client, Typed};
use setpoint_types::kinds::{KindDefinition, KindDefinitionSpec};

use super::{EnsureError, Ensured, ensure_applied};
use crate::sentence::sentence;

/// Between two tries while the cluster cannot be reached: short for whoever waits, long for a server that comes up.
const PAUSE: Duration = Duration::from_secs(1);

/// The kind is defined as the program describes it, by the client's manager: `KindDefinitionSpec::of::<K>()`, with rules added where a
/// type cannot say them. For the start of a program, before its caches are asked for.
///
/// Fields of the definition that others decide are taken from them: the program reads and writes objects of its type, and of no other.
///
/// **Guarantees**: once it returns, every node that is asked serves the kind so. Run again, it changes nothing. While there is no
/// answer, it tries again: drop it to stop.
/// **Does not promise** anything about objects that are there and do not fit: they stay as they are until they are written.
pub async fn ensure_kind(
    client: &Client,
    definition: KindDefinitionSpec,
) -> Result<Ensured<Typed<KindDefinition>>, EnsureError> {
    let api = client.api::<KindDefinition>();
    let wanted = Typed::<KindDefinition>::new(definition.names.plural.clone(), definition);
    loop {
        match ensure_applied(&api, None, &wanted, true).await {
            Err(EnsureError::Call(error)) if error.is_transient() => {
                let (kind, error) = (&*wanted.spec.names.kind, sentence(&error));
                tracing::warn!(kind, error, "the kind could not be defined, and is tried again");
                tokio::time::sleep(PAUSE).await;
            }
            answered => return answered,
        }
    }
}
