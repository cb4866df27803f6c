//! The fuzzer: libFuzzer with one of the targets, which `FUZZ_TARGET` names. Built and run by `scripts/fuzz`.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use setpoint_fuzz_tests::TARGETS;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    // libFuzzer's own hook ends the process at every panic, also at those that are caught: the interpreter of users'
    // expressions is allowed to panic. One that nobody catches still ends it.
    drop(std::panic::take_hook());
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(target, _)| *target == name);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET names no target: {name:?}")).1
});

fuzz_target!(|data: &[u8]| TARGET(data));
