//! Scenarios: what controllers make of the world together, through every fault. All of it is in `tests/suite`.
