//! A trace goes from the request that changed an object, through the revision, into the writes of the run that it woke.

use setpoint_client::{Entropy, Patch, PatchOptions};
use setpoint_runtime::trace::TraceContext;
use setpoint_testkit::World;
use setpoint_types::kinds::Quota;

use super::{created, quota};

#[tokio::test(start_paused = true)]
async fn a_trace_is_carried_from_the_revision_that_woke_a_run_into_its_writes() {
    let (world, entropy) = (World::new(), Entropy::seeded(1));
    let person = TraceContext::root(&entropy);
    let seen = created(&world.client().with_trace(&person.to_string()).api::<Quota>(), quota("q", 1)).await;
    let api = world.client().api::<Quota>();
    let versions = api.history("q", 10, None).await.expect("it is kept").versions;
    let woken_by = versions.first().map(|it| it.author.clone()).expect("it has an author");
    assert_eq!(woken_by.trace, Some(person.trace.to_string()));

    let run = TraceContext::of_run(Some(&woken_by), &entropy);
    assert_eq!(run.trace, person.trace);
    let label = Patch::Merge(serde_json::json!({"metadata": {"labels": {"done": "yes"}}}));
    let writer = world.client().with_trace(&run.to_string()).api::<Quota>();
    writer.patch(&seen.metadata.name, &label, &PatchOptions::default()).await.expect("it is there");
    let versions = api.history("q", 10, None).await.expect("it is kept").versions;
    let traces: Vec<_> = versions.iter().map(|it| it.author.trace.clone()).collect();
    assert_eq!(traces, [Some(person.trace.to_string()), Some(person.trace.to_string())]);
}
