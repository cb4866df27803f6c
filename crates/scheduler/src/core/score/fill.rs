//! Whether nodes are filled one after the other or all alike: the policy says.

use setpoint_types::kinds::ScoreStrategy;

pub fn value((cpu, memory): (i64, i64), strategy: ScoreStrategy) -> i64 {
    let used = ((cpu + memory) / 2).clamp(0, 1000);
    match strategy {
        ScoreStrategy::Pack => used,
        ScoreStrategy::Spread => -used,
    }
}
