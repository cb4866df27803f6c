//! What names, labels and finalizers may look like.
//!
//! The rules are those of DNS (RFC 1123) and of Kubernetes' labels, so that names fit into host names, file names, metrics
//! and keys. In particular no name contains a `/`, which separates the parts of a key.

/// The longest name of an object.
pub const SUBDOMAIN_CHARS_MAX: usize = 253;
/// The longest label of a domain, value of a label, or name in a label's key.
pub const LABEL_CHARS_MAX: usize = 63;

/// A part of a host name: `web-1`. Namespaces, ports, zones.
pub fn check_dns_label(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("must not be empty");
    }
    if text.len() > LABEL_CHARS_MAX {
        return Err("must have at most 63 characters");
    }
    if !is_dns_part(text) {
        return Err(
            "must consist of lower-case letters, digits and '-', and begin and end with a letter or digit",
        );
    }
    Ok(())
}

/// The names of objects: `web-1.example`. As in Kubernetes the whole is bounded, and not each part between dots, so that a
/// name need not fit into a host name.
pub fn check_dns_subdomain(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("must not be empty");
    }
    if text.len() > SUBDOMAIN_CHARS_MAX {
        return Err("must have at most 253 characters");
    }
    if !text.bytes().all(|byte| is_plain(byte) || matches!(byte, b'-' | b'.')) {
        return Err("must consist of lower-case letters, digits, '-' and '.'");
    }
    if !text.split('.').all(is_dns_part) {
        return Err("must begin and end with a letter or digit, and so must each part between dots");
    }
    Ok(())
}

/// What a generated name begins with: a name, or a name that ends in `-`.
pub fn check_name_prefix(text: &str) -> Result<(), &'static str> {
    // A name is completed with an alphanumeric suffix, so what it ends in is not yet its end.
    check_dns_subdomain(&format!("{text}0"))
}

/// The key of a label or an annotation: `app`, `example.com/tier`.
pub fn check_label_key(text: &str) -> Result<(), &'static str> {
    let name = match text.split_once('/') {
        Some((prefix, name)) => {
            check_dns_subdomain(prefix).map_err(|_| "must have a host name before the '/'")?;
            name
        }
        None => text,
    };
    if name.is_empty() {
        return Err("must have a name");
    }
    if name.len() > LABEL_CHARS_MAX {
        return Err("must have at most 63 characters after the prefix");
    }
    if !is_qualified(name) {
        return Err(
            "must consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit",
        );
    }
    Ok(())
}

/// The value of a label. May be empty.
pub fn check_label_value(text: &str) -> Result<(), &'static str> {
    if text.len() > LABEL_CHARS_MAX {
        return Err("must have at most 63 characters");
    }
    if !text.is_empty() && !is_qualified(text) {
        return Err(
            "must consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit",
        );
    }
    Ok(())
}

/// A finalizer: `orphan`, `example.com/drain`.
pub fn check_finalizer(text: &str) -> Result<(), &'static str> {
    check_label_key(text)
}

/// The name of a kind: `Workload`.
pub fn check_kind(text: &str) -> Result<(), &'static str> {
    if text.len() > LABEL_CHARS_MAX {
        return Err("must have at most 63 characters");
    }
    let begins_well = text.starts_with(|letter: char| letter.is_ascii_uppercase());
    if !begins_well || !text.chars().all(|letter| letter.is_ascii_alphanumeric()) {
        return Err("must begin with an upper-case letter and consist of letters and digits");
    }
    Ok(())
}

/// The name of an environment variable.
pub fn check_env_name(text: &str) -> Result<(), &'static str> {
    let begins_well = text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    if !begins_well || !text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
        return Err("must consist of letters, digits and '_', and not begin with a digit");
    }
    Ok(())
}

/// A machine-readable reason: `QuotaExceeded`.
pub fn check_reason(text: &str) -> Result<(), &'static str> {
    if text.len() > 1024 {
        return Err("must have at most 1024 characters");
    }
    let begins_well = text.starts_with(|letter: char| letter.is_ascii_alphabetic());
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | ',' | ':');
    if !begins_well || !text.chars().all(fits) {
        return Err("must be one word in CamelCase");
    }
    Ok(())
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Of any length.
fn is_dns_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| is_plain(*byte))
        && bytes.last().is_some_and(|byte| is_plain(*byte))
        && bytes.iter().all(|byte| is_plain(*byte) || *byte == b'-')
}

fn is_qualified(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&str) -> Result<(), &'static str>, good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(rule(text), Ok(()), "{text:?}");
        }
        for text in bad {
            assert!(rule(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_fit_into_host_names() {
        let long = "a".repeat(63);
        let too_long = "a".repeat(64);
        check(
            check_dns_label,
            &["a", "1", "web-1", &long],
            &["", "-a", "a-", "A", "a.b", "a/b", "ä", &too_long],
        );
        let four = [long.as_str(); 4].join(".");
        check(
            check_dns_subdomain,
            &["a", "a.b", "web-1.example.com", &four[..253], &too_long, &"a".repeat(253)],
            &["", ".", "a.", ".a", "a..b", "a.-b", "A", "a_b", "a/b", &four, &"a".repeat(254)],
        );
        check(check_name_prefix, &["web-", "web", "a.b-", "a."], &["-", "A-", "a/", &"a".repeat(253)]);
    }

    #[test]
    fn label_keys_may_have_a_prefix_and_values_may_be_empty() {
        let long = "a".repeat(63);
        let too_long = "a".repeat(64);
        check(
            check_label_key,
            &["app", "App_1.x-y", "example.com/tier", &format!("e.com/{long}"), &long],
            &["", "/", "a/", "/a", "a/b/c", "-a", "a-", "Example.com/tier", "a b", "é", &too_long],
        );
        check(check_label_value, &["", "a", "A.b_c-1", &long], &["-", "a/b", "a b", ".a", &too_long]);
        check(check_finalizer, &["orphan", "example.com/drain"], &["", "a/b/c"]);
    }

    #[test]
    fn kinds_variables_and_reasons_are_words() {
        check(check_kind, &["Workload", "A1"], &["", "workload", "Work-load", "1A"]);
        check(check_env_name, &["A", "_a1", "PATH"], &["", "1A", "A-B", "A=B"]);
        check(check_reason, &["QuotaExceeded", "a"], &["", "Quota exceeded", "1a"]);
    }
}
