//! What weak controllers are made of: a loop that looks at everything every few seconds, in which each lesson puts one weakness.

use std::time::Duration;

use setpoint_client::{Client, DeleteOptions, Error, OperationId, Typed, WriteOptions};
use setpoint_runtime::ensure::{Owner, name_for};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::stage::{Part, Pool, PoolStatus, look, part};

const LOOK: Duration = Duration::from_secs(10);

/// Looks at everything again and again.
pub async fn every_few_seconds<F, Done>(client: Client, stop: CancellationToken, reconcile: F)
where
    F: Fn(Client, Typed<Pool>, Vec<Typed<Part>>) -> Done,
    Done: Future<Output = Result<(), Error>>,
{
    let forever = async {
        loop {
            for (pool, parts) in look(&client).await.unwrap_or_default() {
                // It is looked at again soon.
                reconcile(client.clone(), pool, parts).await.ok();
            }
            sleep(LOOK).await;
        }
    };
    stop.run_until_cancelled(forever).await;
}

pub fn missing(pool: &Typed<Pool>, parts: &[Typed<Part>]) -> Vec<u32> {
    (0..pool.spec.size).filter(|slot| !parts.iter().any(|part| part.spec.slot == *slot)).collect()
}

/// As it should be done.
pub async fn create(client: &Client, pool: &Typed<Pool>, slot: u32) -> Result<(), Error> {
    let name = name_for(&Owner::of(pool), &[&slot.to_string()]);
    match client.api::<Part>().create(&part(name, pool, slot), &WriteOptions::default()).await {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}

/// A name of the server's choice, and nothing by which the request could be recognised.
pub async fn create_some(client: &Client, pool: &Typed<Pool>, slot: u32) -> Result<(), Error> {
    let mut part = part("", pool, slot);
    part.metadata.generate_name = format!("{}-", pool.metadata.name);
    let options = WriteOptions { operation: OperationId::None, ..WriteOptions::default() };
    client.api::<Part>().create(&part, &options).await.map(drop)
}

/// Removes what is too much.
pub async fn trim(client: &Client, pool: &Typed<Pool>, parts: &[Typed<Part>]) -> Result<(), Error> {
    for part in parts.iter().filter(|part| part.spec.slot >= pool.spec.size) {
        let options = DeleteOptions { uid: Some(part.metadata.uid.clone()), ..DeleteOptions::default() };
        match client.api::<Part>().delete(&part.metadata.name, &options).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Says how many there are, if it says otherwise.
pub async fn tell(client: &Client, mut pool: Typed<Pool>) -> Result<(), Error> {
    let ready = pool.spec.size;
    if pool.status.as_ref().is_some_and(|status| status.ready == ready) {
        return Ok(());
    }
    pool.status = Some(PoolStatus { ready, ..PoolStatus::default() });
    client.api::<Pool>().update_status(&pool, &WriteOptions::default()).await.map(drop)
}
