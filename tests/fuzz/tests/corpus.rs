//! Replays every input of the corpus, without a fuzzer: what once broke something stays mended.

use std::fs;
use std::path::Path;

use setpoint_fuzz_tests::TARGETS;

#[test]
fn every_input_of_the_corpus_keeps_the_properties() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in TARGETS {
        let inputs = fs::read_dir(corpus.join(name)).unwrap_or_else(|error| panic!("corpus/{name}: {error}"));
        let mut inputs: Vec<_> = inputs.map(|input| input.expect("an entry").path()).collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "corpus/{name} is empty: give it an example");
        for input in inputs {
            let data = fs::read(&input).expect("readable");
            let shown = input.display();
            if std::panic::catch_unwind(|| target(&data)).is_err() {
                panic!("{name} does not keep its properties for {shown}");
            }
        }
        target(&[]);
    }
}

#[test]
fn every_folder_of_the_corpus_is_of_a_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for folder in fs::read_dir(corpus).expect("a folder") {
        let name = folder.expect("an entry").file_name().to_string_lossy().into_owned();
        assert!(TARGETS.iter().any(|(target, _)| *target == name), "no target is named {name}");
    }
}
