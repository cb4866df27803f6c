//! What a process knows of all leases of its controller, from the watch: who is a member, who has which shard, and whether
//! others count the shards differently. Pure.

use setpoint_types::kinds::LeaseStatus;
use setpoint_types::{Epoch, Revision};

use super::assignment::{Place, assign};
use super::name::{Layout, Names, Slot, Which};
use super::shard::ShardId;

/// All leases of a controller at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    pub revision: Revision,
    seen: Vec<Seen>,
}

/// One lease, as the watch shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub which: Which,
    pub layout: Layout,
    /// None: nobody has it.
    pub holder: Option<String>,
    /// Of the holder, or of the last one.
    pub epoch: Epoch,
    /// Of the last change, which is mostly that somebody took it.
    pub changed: Revision,
}

impl Seen {
    /// A lease, if it is one of the controller's.
    pub fn read(names: &Names, lease: &str, status: &LeaseStatus, changed: Revision) -> Option<Self> {
        let (which, layout) = names.read(lease)?;
        let holder = (!status.holder.is_empty()).then(|| status.holder.clone());
        Some(Self { which, layout, holder, epoch: status.epoch, changed })
    }
}

/// What a member is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// It is not known yet that the others see this process.
    Unknown,
    /// Others were here first who split the keys into so many shards. To work beside them would be two on one key.
    StandBy(Layout),
    /// The shards that are this member's.
    Shards(Vec<ShardId>),
}

impl View {
    pub fn new(revision: Revision, leases: impl IntoIterator<Item = Seen>) -> Self {
        let mut seen: Vec<Seen> = leases.into_iter().collect();
        seen.sort_by_key(|seen| (seen.layout, seen.which));
        Self { revision, seen }
    }

    pub fn get(&self, which: Which, layout: Layout) -> Option<&Seen> {
        let found =
            self.seen.binary_search_by_key(&(layout, which), |seen| (seen.layout, seen.which)).ok()?;
        self.seen.get(found)
    }

    /// Members of a layout that came before those of any other, by slot, each once. The rest of them stand by.
    pub fn members(&self, layout: Layout) -> Vec<&str> {
        let held = |seen: &&Seen| matches!(seen.which, Which::Member(_)) && seen.holder.is_some();
        let others = self.seen.iter().filter(held).filter(|seen| seen.layout != layout);
        let first = others.map(joined).min();
        let own = self.seen.iter().filter(held).filter(|seen| seen.layout == layout);
        let mut members: Vec<&str> = Vec::new();
        for seen in own.filter(|seen| first.is_none_or(|first| joined(seen) < first)) {
            match seen.holder.as_deref() {
                Some(member) if !members.contains(&member) => members.push(member),
                _ => {}
            }
        }
        members
    }

    /// The slot that a process has.
    pub fn slot_of(&self, layout: Layout, member: &str) -> Option<Slot> {
        self.slots(layout).find(|(_, holder)| *holder == member).map(|(slot, _)| slot)
    }

    /// Slots that somebody has, in order.
    fn slots(&self, layout: Layout) -> impl Iterator<Item = (Slot, &str)> {
        self.seen.iter().filter(move |seen| seen.layout == layout).filter_map(|seen| match seen.which {
            Which::Member(slot) => Some((slot, seen.holder.as_deref()?)),
            Which::Shard(_) => None,
        })
    }

    /// The first slot from this one on that nobody has.
    pub fn free_slot(&self, layout: Layout, from: Slot, slots: u32) -> Option<Slot> {
        let is_free = |slot: &u32| {
            self.get(Which::Member(Slot(*slot)), layout).is_none_or(|seen| seen.holder.is_none())
        };
        (from.0..slots).find(is_free).map(Slot)
    }

    /// What the member does who has this slot at this epoch.
    ///
    /// Only one layout is worked in: the one whose member came first. Whoever comes later sees the earlier one, because the
    /// look follows the joining, both in the order of revisions; and waits until nobody of it holds anything.
    pub fn part(&self, me: &str, slot: Slot, epoch: Epoch, layout: Layout) -> Part {
        let own = self.get(Which::Member(slot), layout);
        let Some(own) = own.filter(|seen| seen.holder.as_deref() == Some(me) && seen.epoch == epoch) else {
            return Part::Unknown;
        };
        let others = self.seen.iter().filter(|seen| seen.layout != layout && seen.holder.is_some());
        let before_us = |seen: &&Seen| match seen.which {
            Which::Member(_) => joined(seen) < joined(own),
            Which::Shard(_) => true,
        };
        if let Some(other) = others.into_iter().find(before_us) {
            return Part::StandBy(other.layout);
        }
        let members = self.members(layout);
        let place = |holder: &str| members.iter().position(|member| *member == holder);
        let shards = (0..layout.0).map(ShardId);
        let held: Vec<Option<Place>> = shards
            .clone()
            .map(|shard| self.get(Which::Shard(shard), layout)?.holder.as_deref().and_then(place))
            .collect();
        let mine = place(me);
        let answer = assign(members.len(), &held);
        Part::Shards(shards.filter(|shard| answer[shard.index()] == mine).collect())
    }
}

/// The order in which members came.
fn joined(seen: &Seen) -> (Revision, Layout) {
    (seen.changed, seen.layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Layout = Layout(2);
    const THREE: Layout = Layout(3);

    /// Leases as `name holder revision`; `-` is nobody.
    fn view(leases: &[(&str, &str, u64)]) -> View {
        let names = Names::new("c").expect("a name");
        let seen = leases.iter().filter_map(|(lease, holder, changed)| {
            let holder = holder.trim_matches('-').to_owned();
            let status = LeaseStatus { holder, epoch: Epoch(1), ..LeaseStatus::default() };
            Seen::read(&names, lease, &status, Revision::new(*changed))
        });
        View::new(Revision::new(100), seen)
    }

    fn part(view: &View, me: &str, slot: u32, layout: Layout) -> Part {
        view.part(me, Slot(slot), Epoch(1), layout)
    }

    #[test]
    fn members_share_the_shards_and_keep_what_they_have() {
        let view = view(&[
            ("c.member-0-of-3", "a", 1),
            ("c.member-1-of-3", "-", 2),
            ("c.member-2-of-3", "b", 3),
            ("c.shard-0-of-3", "b", 4),
            ("c.shard-1-of-3", "gone", 5),
            ("other.member-0-of-3", "x", 6),
        ]);
        assert_eq!(part(&view, "b", 2, THREE), Part::Shards(vec![ShardId(0), ShardId(2)]));
        assert_eq!(part(&view, "a", 0, THREE), Part::Shards(vec![ShardId(1)]));
        assert_eq!(view.free_slot(THREE, Slot(0), 8), Some(Slot(1)));
        assert_eq!(view.free_slot(THREE, Slot(2), 8), Some(Slot(3)));
        assert_eq!(view.free_slot(THREE, Slot(2), 3), None);
    }

    #[test]
    fn whoever_is_not_seen_does_not_know_its_part() {
        let view = view(&[("c.member-0-of-3", "a", 1)]);
        assert_eq!(part(&view, "b", 0, THREE), Part::Unknown);
        assert_eq!(part(&view, "a", 1, THREE), Part::Unknown);
        assert_eq!(view.part("a", Slot(0), Epoch(2), THREE), Part::Unknown, "that was an earlier time");
    }

    #[test]
    fn of_two_layouts_the_one_that_came_first_is_worked_in() {
        let both = view(&[("c.member-0-of-2", "a", 5), ("c.member-0-of-3", "b", 4)]);
        assert_eq!(part(&both, "a", 0, TWO), Part::StandBy(THREE));
        assert!(matches!(part(&both, "b", 0, THREE), Part::Shards(shards) if shards.len() == 3));
        let three =
            view(&[("c.member-0-of-3", "b", 4), ("c.member-0-of-2", "a", 5), ("c.member-1-of-3", "d", 6)]);
        assert!(matches!(part(&three, "b", 0, THREE), Part::Shards(shards) if shards.len() == 3));
        assert_eq!(part(&three, "d", 1, THREE), Part::StandBy(TWO), "it came after one that waits");
        let left =
            view(&[("c.member-0-of-2", "a", 5), ("c.member-0-of-3", "-", 6), ("c.shard-1-of-3", "b", 4)]);
        assert_eq!(part(&left, "a", 0, TWO), Part::StandBy(THREE), "it still holds a shard");
    }
}
