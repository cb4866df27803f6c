//! How much clients may ask for at a time.

use std::ops::RangeInclusive;

use setpoint_access::{FlowOptions, TallyOptions};
use setpoint_apiserver::load::LoadOptions;

use super::Problems;
use crate::options::Settings;

/// Sums of seats have to fit their type.
const SEATS: RangeInclusive<u32> = 1..=1_000_000;
const PLACES: RangeInclusive<usize> = 1..=1_000_000_000;

pub(super) fn load(settings: &Settings, problems: &mut Problems) -> LoadOptions {
    let LoadOptions { streams, watches, sessions, .. } = LoadOptions::default();
    let requests = problems.within("max-requests", settings.max_requests, 1024, SEATS);
    let lists = problems.within("max-lists", settings.max_lists, 16, SEATS);
    let waiting = problems.within("max-waiting-requests", settings.max_waiting_requests, 8192, PLACES);
    let mut most = |setting: &str, value, default| problems.within(setting, value, default, PLACES);
    LoadOptions {
        flow: FlowOptions::sized(requests, lists, waiting),
        streams: TallyOptions {
            max: most("max-streams", settings.max_streams, streams.max),
            client_max: most("max-streams-per-client", settings.max_streams_per_client, streams.client_max),
        },
        watches: TallyOptions {
            max: most("max-watches", settings.max_watches, watches.max),
            client_max: most("max-watches-per-client", settings.max_watches_per_client, watches.client_max),
        },
        sessions: TallyOptions {
            max: most("max-sessions", settings.max_sessions, sessions.max),
            client_max: most(
                "max-sessions-per-client",
                settings.max_sessions_per_client,
                sessions.client_max,
            ),
        },
    }
}
