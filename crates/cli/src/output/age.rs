//! Times for people: how long ago, as kubectl writes it, and dates.

use std::time::{Duration, UNIX_EPOCH};

use setpoint_types::Timestamp;

/// `45s`, `5m30s`, `3h12m`, `4d6h`: two units while that says more, one after.
pub fn span(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |large: u64, unit: char, small: u64, part: char| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{part}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        _ => two(days / 365, 'y', days % 365, 'd'),
    }
}

/// How long ago something was. What never was has no age.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    if then.0 == 0 { "<none>".to_owned() } else { span(now.0.saturating_sub(then.0) / 1000) }
}

/// `2026-11-18T05:17:49Z`
pub fn date(time: Timestamp) -> String {
    // The year 9999 is as far as such dates are written.
    let seconds = (time.0 / 1000).min(253_402_300_799);
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_written_as_users_of_kubectl_know_them() {
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (330, "5m30s"),
            (3_600, "60m"),
            (11_520, "3h12m"),
            (100_000, "27h"),
            (367_200, "4d6h"),
            (864_000, "10d"),
            (63_072_000, "2y"),
        ] {
            assert_eq!(span(seconds), text);
        }
        assert_eq!(age(Timestamp(0), Timestamp(5)), "<none>");
        assert_eq!(age(Timestamp(9_000), Timestamp(5_000)), "0s");
        assert_eq!(date(Timestamp(1_794_000_000_000)), "2026-11-06T21:20:00Z");
        assert!(date(Timestamp(u64::MAX)).starts_with("9999-"));
    }
}
