//! Which member should have which shard. Pure.
//!
//! Everybody keeps what they have up to their fair share, and what is left over goes to those who have less. Who has what is
//! part of the question, so no more moves than has to; a function of the members alone would take a leader's only
//! shard away because somebody with a better number came.

/// A member, as its place in the list of members that both sides of a call share.
pub type Place = usize;

/// For every shard the member that should have it; for none if there are no members.
///
/// `held` says which member has each shard now; none, if nobody has it or nobody who is still a member.
///
/// - Balanced: no member gets two more than another.
/// - Minimal: of all balanced answers none takes fewer shards away from members that have them.
/// - Stable: asked again once everybody has what they should have, it answers the same.
pub fn assign(members: usize, held: &[Option<Place>]) -> Vec<Option<Place>> {
    if members == 0 {
        return vec![None; held.len()];
    }
    let mut room = shares(members, held);
    let mut answer: Vec<Option<Place>> = Vec::with_capacity(held.len());
    for holder in held {
        let kept = holder.filter(|place| room.get(*place).is_some_and(|room| *room > 0));
        if let Some(place) = kept {
            room[place] -= 1;
        }
        answer.push(kept);
    }
    let mut place = 0;
    for shard in answer.iter_mut().filter(|shard| shard.is_none()) {
        while room[place] == 0 {
            place += 1;
        }
        room[place] -= 1;
        *shard = Some(place);
    }
    answer
}

/// How many shards each member should have. Where it does not come out even, those with the most keep one more: that is what
/// makes fewest move.
fn shares(members: usize, held: &[Option<Place>]) -> Vec<usize> {
    let mut counts = vec![0usize; members];
    for place in held.iter().flatten().filter(|place| **place < members) {
        counts[*place] += 1;
    }
    let mut order: Vec<Place> = (0..members).collect();
    order.sort_by_key(|place| (std::cmp::Reverse(counts[*place]), *place));
    let mut shares = vec![held.len() / members; members];
    for place in order.into_iter().take(held.len() % members) {
        shares[place] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(members: usize, answer: &[Option<Place>]) -> Vec<usize> {
        (0..members).map(|place| answer.iter().filter(|it| **it == Some(place)).count()).collect()
    }

    /// How many shards were taken away from a member that had them.
    fn taken(held: &[Option<Place>], answer: &[Option<Place>]) -> usize {
        held.iter().zip(answer).filter(|(had, has)| had.is_some() && had != has).count()
    }

    /// The fewest that any balanced answer takes away, by trying every way to hand out the larger shares.
    fn least_taken(members: usize, held: &[Option<Place>]) -> usize {
        let (base, extra) = (held.len() / members, held.len() % members);
        let had = counts(members, held);
        (0u32..1 << members)
            .filter(|larger| larger.count_ones() as usize == extra)
            .map(|larger| {
                let share = |place: usize| base + (larger >> place & 1) as usize;
                had.iter().enumerate().map(|(place, had)| had.saturating_sub(share(place))).sum()
            })
            .min()
            .expect("there is a way")
    }

    proptest! {
        #[test]
        fn it_is_balanced_minimal_and_stable(
            members in 1usize..9,
            held in prop::collection::vec(prop::option::of(0usize..12), 1..40),
        ) {
            let held: Vec<Option<Place>> = held.into_iter().map(|it| it.filter(|place| *place < members)).collect();
            let answer = assign(members, &held);
            let counts = counts(members, &answer);
            prop_assert_eq!(counts.iter().sum::<usize>(), held.len(), "every shard has somebody");
            let (least, most) = (counts.iter().min().expect("one"), counts.iter().max().expect("one"));
            prop_assert!(most - least <= 1, "{:?}", counts);
            prop_assert_eq!(taken(&held, &answer), least_taken(members, &held));
            prop_assert_eq!(&assign(members, &answer), &answer);
        }

        /// One who comes takes no more than its share, and nothing moves between the others.
        #[test]
        fn few_move_when_a_member_comes(members in 1usize..9, shards in 1usize..40) {
            let before = assign(members, &vec![None; shards]);
            let after = assign(members + 1, &before);
            prop_assert!(taken(&before, &after) <= shards / (members + 1));
            for (had, has) in before.iter().zip(&after) {
                prop_assert!(had == has || *has == Some(members));
            }
        }

        /// Of one who goes only its own shards move.
        #[test]
        fn few_move_when_a_member_goes(members in 2usize..9, shards in 1usize..40, gone in 0usize..8) {
            let gone = gone % members;
            let before = assign(members, &vec![None; shards]);
            let place = |place: Place| if place > gone { place - 1 } else { place };
            let left: Vec<Option<Place>> =
                before.iter().map(|it| it.filter(|it| *it != gone).map(place)).collect();
            prop_assert_eq!(taken(&left, &assign(members - 1, &left)), 0);
        }

        /// Members that act one after the other, each on what it sees then, come to rest where everybody has their share.
        #[test]
        fn acting_step_by_step_ends_balanced(
            members in 1usize..6,
            held in prop::collection::vec(prop::option::of(0usize..6), 1..20),
            turns in prop::collection::vec((0usize..6, 0usize..20), 0..60),
        ) {
            let mut held: Vec<Option<Place>> =
                held.into_iter().map(|it| it.filter(|place| *place < members)).collect();
            let all = (0..members).flat_map(|place| (0..held.len()).map(move |shard| (place, shard)));
            let fair: Vec<(usize, usize)> = all.collect();
            let turns = turns.into_iter().map(|(place, shard)| (place % members, shard % held.len()));
            // After any disorder everybody gets their turns.
            for (place, shard) in turns.collect::<Vec<_>>().into_iter().chain(fair.iter().copied()).chain(fair.iter().copied()) {
                let target = assign(members, &held);
                if held[shard] == Some(place) && target[shard] != Some(place) {
                    held[shard] = None;
                } else if held[shard].is_none() && target[shard] == Some(place) {
                    held[shard] = Some(place);
                }
            }
            prop_assert_eq!(assign(members, &held), held);
        }
    }

    #[test]
    fn without_members_nobody_has_anything_and_more_members_than_shards_stand_by() {
        assert_eq!(assign(0, &[None, Some(3)]), [None, None]);
        assert_eq!(assign(3, &[Some(2)]), [Some(2)], "the leader stays, whoever else is there");
        assert_eq!(assign(3, &[Some(7)]), [Some(0)], "one who is no member has nothing");
    }
}
