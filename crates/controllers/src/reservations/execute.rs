//! Giving back what is nobody's: the server is asked once more whether the binding is gone, and the commit has the guard that it still is.

use setpoint_runtime::recorder::{Detail, Note};
use setpoint_runtime::{ReconcileError, Run};
use setpoint_types::ObjectKey;
use setpoint_types::kinds::{Binding, BindingState, Outcome, Verdict};

use super::plan::{Owner, Plan};

pub(super) async fn execute(run: &Run, plan: Plan, detail: &Detail) -> Result<(), ReconcileError> {
    for (owner, ledgers) in plan.give_back {
        give_back(run, &owner, &ledgers, detail).await?;
    }
    Ok(())
}

async fn give_back(
    run: &Run,
    owner: &Owner,
    ledgers: &[String],
    detail: &Detail,
) -> Result<(), ReconcileError> {
    let found = run.client().api::<Binding>().namespace(&owner.namespace).find(&owner.binding).await?;
    let key = ObjectKey::new("Binding", &owner.namespace, &owner.binding);
    let guarded = run.client().transaction();
    let guarded = match &found {
        None => guarded.if_absent(&key),
        Some(binding) => {
            let is_released = binding.status.as_ref().is_some_and(|it| it.state == BindingState::Released);
            if binding.metadata.uid.as_str() == owner.uid && !is_released {
                // It is there: what was seen was old.
                return Ok(());
            }
            guarded.if_at(&key, binding.metadata.revision)
        }
    };
    let transaction = ledgers.iter().fold(guarded, |write, ledger| write.release(ledger, owner.text()));
    let some: Vec<&str> = ledgers.iter().take(3).map(String::as_str).collect();
    let message = format!(
        "the binding {}/{} is gone; what it had reserved in {} ledgers was given back: {}",
        owner.namespace,
        owner.binding,
        ledgers.len(),
        some.join(", ")
    );
    let verdict = Verdict { outcome: Outcome::Accepted, message: message.clone(), ..Verdict::default() };
    let draft = run.grounds().decide("GiveBack").verdict(verdict);
    let decided = draft.into_transaction(transaction, run.client(), detail);
    decided.transaction.commit(&decided.options).await?;
    let note = Note::warning(run.reference(), "ReservationLeaked").message(message);
    run.event(note.decision(decided.name)).await;
    Ok(())
}
