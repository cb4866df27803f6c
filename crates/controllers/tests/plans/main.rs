//! Golden scripts of what controllers decide about replicas, one property each, in `plans/scripts`.
//!
//! A script says what there is, and asks what follows. After a change of behaviour that is meant, run with `UPDATE_GOLDENFILES=1` and read the
//! difference.
//!
//! | command | does |
//! |---|---|
//! | `set NUMBER [min_ready=S] [class=missing] [deadline=S]` | a ReplicaSet that wants so many |
//! | `batch COMPLETIONS PARALLELISM BACKOFF_LIMIT [deadline=S] [ttl=S]` | a workload that is a batch |
//! | `replica NAME STAGE [STATE] [zone=] [node=] [created=S] [ready=S] [ended=S] [attempt=] [index=] [replaces=] [blocked=Quota] [going] [held]` | a replica, with its binding if a state is given |
//! | `binding NAME STATE [since=S] [grace=S] [stopped=S]` | a binding for `release` |
//! | `gone NAME` | there is none of that name |
//! | `plan [now=S]` | what the replica or batch controller does, and says |
//! | `release NAME [now=S] [confirmed]` | what the binding controller does |

mod script;

use std::path::Path;

use script::Script;

#[test]
fn controllers_decide_as_the_scripts_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans/scripts");
    let mut found = 0;
    for entry in std::fs::read_dir(&folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        goldenscript::run(&mut Script::default(), &path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        found += 1;
    }
    assert!(found > 0, "there are no scripts");
}
