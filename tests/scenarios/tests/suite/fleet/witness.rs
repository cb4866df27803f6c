//! What ran where and when, by one clock that nothing is wrong with (F6: one live copy per identity).

use setpoint_types::Uid;
use tokio::time::Instant;

/// One run of a replica.
#[derive(Clone, Debug)]
pub struct Line {
    pub replica: Uid,
    pub workload: String,
    pub node: String,
    /// There must be one copy of its workload at a time.
    pub is_exclusive: bool,
    pub from: Instant,
    pub until: Option<Instant>,
}

#[derive(Clone, Debug, Default)]
pub struct Witness {
    lines: Vec<Line>,
}

impl Witness {
    pub fn started(&mut self, replica: &Uid, workload: &str, node: &str, is_exclusive: bool) {
        self.lines.push(Line {
            replica: replica.clone(),
            workload: workload.to_owned(),
            node: node.to_owned(),
            is_exclusive,
            from: Instant::now(),
            until: None,
        });
    }

    pub fn stopped(&mut self, replica: &Uid, node: &str) {
        let is_it = |line: &&mut Line| line.until.is_none() && line.replica == *replica && line.node == node;
        if let Some(line) = self.lines.iter_mut().find(is_it) {
            line.until = Some(Instant::now());
        }
    }

    /// What runs now.
    pub fn running(&self) -> usize {
        self.lines.iter().filter(|line| line.until.is_none()).count()
    }

    /// F6: runs of one replica never overlap, nor do those of a workload of one exclusive replica.
    pub fn check(&self) -> Result<(), String> {
        for (place, one) in self.lines.iter().enumerate() {
            for other in &self.lines[place + 1..] {
                let is_same = one.replica == other.replica
                    || (one.is_exclusive && other.is_exclusive && one.workload == other.workload);
                let overlaps = other.from < one.until.unwrap_or(other.from + super::TICK)
                    && one.from < other.until.unwrap_or(one.from + super::TICK);
                if is_same && overlaps {
                    return Err(format!("F6: {one:?} and {other:?} ran at the same time"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn two_copies_at_a_time_are_caught_and_two_in_a_row_are_not() {
        let one = Uid::new("one");
        let second = Duration::from_secs(1);
        let mut witness = Witness::default();
        witness.started(&one, "w", "a", false);
        tokio::time::sleep(second).await;
        witness.stopped(&one, "a");
        tokio::time::sleep(second).await;
        witness.started(&one, "w", "b", false);
        assert_eq!(witness.check(), Ok(()));
        tokio::time::sleep(second).await;
        witness.started(&one, "w", "c", false);
        assert!(witness.check().is_err_and(|it| it.starts_with("F6")));
        let mut exclusive = Witness::default();
        exclusive.started(&Uid::new("two"), "w", "a", true);
        tokio::time::sleep(second).await;
        exclusive.started(&Uid::new("three"), "w", "b", true);
        assert!(exclusive.check().is_err(), "two replicas of a workload that has one at a time");
    }
}
