//! The keys whose time has come, and which of them goes first.
//!
//! Between levels: the most urgent one, except that a level which was passed over `ageing_gets` times goes first. Within a
//! level: its tenants take turns, one key each. Within a tenant: first come, first served.
//!
//! **The bound.** A level that has keys is served at least once in any `ageing_gets + LEVELS` gets: once it was passed over
//! `ageing_gets` times, only levels passed over more often go before it, each of them once, because being served takes it
//! behind. A tenant is at the latest served when each of the others in its level has had a turn, because whoever was served,
//! and whoever is new, goes to the end. So a key before which `p` keys of its tenant wait in its level, among at most `t`
//! tenants, is handed out within `(p + 1) * t * (ageing_gets + LEVELS)` gets. Whatever else is added meanwhile does not
//! matter, except more tenants. A tenant at its limit of running keys is not waiting in this sense.
//!
//! Not here: when a key's time has come (`super::Core`).

use hashbrown::HashTable;

use super::list::{LinkTable, List};
use super::priority::{LEVELS, Priority};
use super::settings::Options;
use super::tenant::Tenant;

/// The number of a tenant that the queue knows keys of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneId(u32);

#[derive(Debug)]
pub struct Ready {
    levels: [Level; LEVELS],
    lanes: Vec<Lane>,
    free: Vec<u32>,
    /// Finds a lane by its tenant. Never walked, so that its order decides nothing.
    table: HashTable<u32>,
    /// Of keys within the list of their tenant and level.
    keys: LinkTable,
    ageing_gets: u32,
    running_max: u32,
}

#[derive(Debug, Default)]
struct Level {
    /// The tenants that have keys in this level and may run them, in the order of their turns.
    turns: List,
    links: LinkTable,
    /// Gets of other levels since this one was last served or empty.
    passed: u32,
    /// Keys, also of tenants at their limit.
    keys: usize,
}

/// One tenant.
#[derive(Debug)]
struct Lane {
    tenant: Tenant,
    /// Keys the queue knows, in whatever place: the lane lives as long as there is one.
    known: usize,
    running: u32,
    lists: [List; LEVELS],
}

impl Ready {
    pub fn new(options: &Options) -> Self {
        let settings = options.settings();
        Self {
            levels: Default::default(),
            lanes: Vec::new(),
            free: Vec::new(),
            table: HashTable::new(),
            keys: LinkTable::default(),
            ageing_gets: settings.ageing_gets,
            running_max: if settings.tenant_running_max == 0 {
                u32::MAX
            } else {
                settings.tenant_running_max
            },
        }
    }

    pub fn keys(&self, priority: Priority) -> usize {
        self.levels[priority.level()].keys
    }

    pub fn tenants(&self) -> usize {
        self.table.len()
    }

    /// There is a key that may be handed out.
    pub fn has_next(&self) -> bool {
        self.levels.iter().any(|level| !level.turns.is_empty())
    }

    /// There is a key, if only of a tenant at its limit.
    pub fn is_empty(&self) -> bool {
        self.levels.iter().all(|level| level.keys == 0)
    }

    /// A key of this tenant has become known.
    pub fn enter(&mut self, tenant: Tenant) -> LaneId {
        let found = self.table.find(tenant.hash(), |lane| self.lanes[*lane as usize].tenant == tenant);
        if let Some(lane) = found.copied() {
            self.lanes[lane as usize].known += 1;
            return LaneId(lane);
        }
        let lane = Lane { tenant, known: 1, running: 0, lists: Default::default() };
        let id = match self.free.pop() {
            Some(id) => {
                self.lanes[id as usize] = lane;
                id
            }
            None => {
                self.lanes.push(lane);
                // Lanes are no more than keys, and those are far fewer than numbers.
                (self.lanes.len() - 1) as u32
            }
        };
        for level in &mut self.levels {
            level.links.reserve(id);
        }
        let lanes = &self.lanes;
        self.table.insert_unique(tenant.hash(), id, |lane| lanes[*lane as usize].tenant.hash());
        LaneId(id)
    }

    /// A key of this tenant, which is neither ready nor running, is known no longer.
    pub fn leave(&mut self, id: LaneId) {
        let lane = &mut self.lanes[id.0 as usize];
        lane.known -= 1;
        if lane.known == 0 {
            let hash = lane.tenant.hash();
            if let Ok(entry) = self.table.find_entry(hash, |other| *other == id.0) {
                entry.remove();
            }
            self.free.push(id.0);
        }
    }

    /// A key's time has come.
    pub fn push(&mut self, key: u32, id: LaneId, priority: Priority) {
        self.keys.reserve(key);
        let level = &mut self.levels[priority.level()];
        let lane = &mut self.lanes[id.0 as usize];
        let list = &mut lane.lists[priority.level()];
        if list.is_empty() && lane.running < self.running_max {
            level.take_turn(id);
        }
        list.push(&mut self.keys, key);
        level.keys += 1;
    }

    /// Takes back a key that was pushed and not popped.
    pub fn remove(&mut self, key: u32, id: LaneId, priority: Priority) {
        let level = &mut self.levels[priority.level()];
        let lane = &mut self.lanes[id.0 as usize];
        let list = &mut lane.lists[priority.level()];
        list.remove(&mut self.keys, key);
        level.keys -= 1;
        if list.is_empty() && lane.running < self.running_max {
            level.turns.remove(&mut level.links, id.0);
        }
    }

    /// The next key, which runs from now on.
    pub fn pop(&mut self) -> Option<u32> {
        let chosen = self.choose()?;
        for (index, level) in self.levels.iter_mut().enumerate() {
            let passed_over = index != chosen && !level.turns.is_empty();
            level.passed = if passed_over { level.passed.saturating_add(1) } else { 0 };
        }
        let level = &mut self.levels[chosen];
        let id = level.turns.pop(&mut level.links)?;
        let lane = &mut self.lanes[id as usize];
        let key = lane.lists[chosen].pop(&mut self.keys)?;
        level.keys -= 1;
        lane.running += 1;
        if lane.running < self.running_max {
            if !lane.lists[chosen].is_empty() {
                level.take_turn(LaneId(id));
            }
            return Some(key);
        }
        // At its limit: the tenant gives up its turns in all levels.
        for (index, level) in self.levels.iter_mut().enumerate() {
            if index != chosen && !lane.lists[index].is_empty() {
                level.turns.remove(&mut level.links, id);
            }
        }
        Some(key)
    }

    /// A key that was popped runs no longer.
    pub fn finished(&mut self, id: LaneId) {
        let lane = &mut self.lanes[id.0 as usize];
        lane.running -= 1;
        if lane.running + 1 == self.running_max {
            for (level, list) in self.levels.iter_mut().zip(&lane.lists) {
                if !list.is_empty() {
                    level.take_turn(id);
                }
            }
        }
    }

    /// The level that is served next.
    fn choose(&self) -> Option<usize> {
        let waiting = || self.levels.iter().enumerate().filter(|(_, level)| !level.turns.is_empty());
        let ripe = waiting().filter(|(_, level)| level.passed >= self.ageing_gets);
        let ripest = ripe.rev().max_by_key(|(_, level)| level.passed);
        ripest.or_else(|| waiting().next()).map(|(index, _)| index)
    }
}

impl Level {
    fn take_turn(&mut self, id: LaneId) {
        if self.turns.is_empty() {
            self.passed = 0;
        }
        self.turns.push(&mut self.links, id.0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::Settings;
    use super::*;

    fn ready(ageing_gets: u32, tenant_running_max: u32) -> Ready {
        let settings = Settings { ageing_gets, tenant_running_max, ..Settings::default() };
        Ready::new(&settings.check().expect("settings within bounds"))
    }

    fn pops(ready: &mut Ready, count: usize) -> Vec<u32> {
        (0..count).map_while(|_| ready.pop()).collect()
    }

    #[test]
    fn a_level_is_served_after_it_was_passed_over_so_often() {
        let mut ready = ready(3, 0);
        let lane = ready.enter(Tenant::named("a"));
        for key in 0..8 {
            ready.push(key, lane, Priority::Normal);
        }
        ready.push(100, lane, Priority::Bulk);
        ready.push(101, lane, Priority::Bulk);
        assert_eq!(pops(&mut ready, 10), [0, 1, 2, 100, 3, 4, 5, 101, 6, 7]);
    }

    #[test]
    fn with_every_level_waiting_none_waits_longer_than_the_bound() {
        for ageing in 1..6 {
            let mut ready = ready(ageing, 0);
            let lane = ready.enter(Tenant::named("a"));
            for key in 0..300 {
                ready.push(key, lane, super::super::priority::PRIORITIES[key as usize % LEVELS]);
            }
            let served: Vec<usize> =
                pops(&mut ready, 100).into_iter().map(|key| key as usize % LEVELS).collect();
            for window in served.windows(ageing as usize + LEVELS) {
                assert!((0..LEVELS).all(|level| window.contains(&level)), "{ageing}: {served:?}");
            }
        }
    }

    #[test]
    fn tenants_take_turns_and_a_new_one_waits_for_one_round() {
        let mut ready = ready(16, 0);
        let [a, b, c] = ["a", "b", "c"].map(|name| ready.enter(Tenant::named(name)));
        for key in 0..4 {
            ready.push(key, a, Priority::Normal);
        }
        ready.push(10, b, Priority::Normal);
        ready.push(11, b, Priority::Normal);
        assert_eq!(pops(&mut ready, 2), [0, 10]);
        ready.push(20, c, Priority::Normal);
        assert_eq!(pops(&mut ready, 5), [1, 11, 20, 2, 3]);
        assert!(!ready.has_next() && ready.is_empty());
    }

    #[test]
    fn a_tenant_at_its_limit_waits_until_one_of_its_keys_has_finished() {
        let mut ready = ready(16, 2);
        let [a, b] = ["a", "b"].map(|name| ready.enter(Tenant::named(name)));
        for key in 0..3 {
            ready.push(key, a, Priority::Normal);
        }
        ready.push(3, a, Priority::Urgent);
        ready.push(10, b, Priority::Bulk);
        assert_eq!(pops(&mut ready, 9), [3, 0, 10]);
        assert!(!ready.is_empty() && !ready.has_next());
        ready.remove(1, a, Priority::Normal);
        ready.push(1, a, Priority::Urgent);
        ready.finished(a);
        assert_eq!(pops(&mut ready, 9), [1]);
        ready.finished(a);
        assert_eq!(pops(&mut ready, 9), [2]);
    }

    #[test]
    fn a_tenant_without_keys_is_forgotten() {
        let mut ready = ready(16, 0);
        let a = ready.enter(Tenant::named("a"));
        assert_eq!(ready.enter(Tenant::named("a")), a);
        ready.leave(a);
        assert_eq!(ready.tenants(), 1);
        ready.leave(a);
        assert_eq!(ready.tenants(), 0);
        assert_eq!(ready.enter(Tenant::named("b")), a);
    }
}
