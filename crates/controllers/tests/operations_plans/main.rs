//! Golden scripts of what the controllers decide, one property each, in `tests/operations_plans/scripts`: pure plans, played over simulated time,
//! with what they say applied as a process would.
//!
//! After a change of behaviour that is meant, run with `UPDATE_GOLDENFILES=1` and read the difference.

mod autoscaler;
mod node_monitor;
mod policy_rollout;

use goldenscript::Runner;

macro_rules! scripts {
    ($($folder:ident: $runner:ty { $($name:ident)* })*) => {
        $(
            mod $folder {
                $(
                    #[test]
                    fn $name() {
                        let path = concat!("tests/operations_plans/scripts/", stringify!($folder), "/", stringify!($name));
                        super::play(&mut <$runner>::default(), path);
                    }
                )*
            }
        )*
        const LISTED: &[(&str, &[&str])] = &[$((stringify!($folder), &[$(stringify!($name)),*])),*];
    };
}

fn play(runner: &mut impl Runner<Command = goldenscript::Command>, path: &str) {
    goldenscript::run(runner, path).expect("the script's output");
}

mod played {
    use super::play;

    scripts! {
        node_monitor: crate::node_monitor::Script {
            drain
            evidence
            taints
            zones
        }
        autoscaler: crate::autoscaler::Script {
            bounds
            held
            pace
        }
        policy_rollout: crate::policy_rollout::Script {
            gate
            rollback
        }
    }

    #[test]
    fn every_script_is_run_and_opens_with_its_property() {
        for (folder, listed) in LISTED {
            for file in
                std::fs::read_dir(format!("tests/operations_plans/scripts/{folder}")).expect("the scripts")
            {
                let path = file.expect("a script").path();
                let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
                assert!(listed.contains(&name.as_str()), "{folder}/{name} is not run");
                let text = std::fs::read_to_string(&path).expect("a script");
                let property: String = text.lines().take_while(|line| line.starts_with('#')).collect();
                assert!(property.ends_with('.'), "{name} does not open with its property");
            }
        }
    }
}
