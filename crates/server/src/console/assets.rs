//! The files of the pages, which are part of this program: one noun each, as they were written, with nothing built of them.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

macro_rules! files {
    ($($name:literal: $kind:expr),* $(,)?) => {
        &[$(($name, $kind, include_str!(concat!("page/", $name)))),*]
    };
}

const FILES: &[(&str, &str, &str)] = files! {
    "index.html": HTML,
    "console.css": CSS,
    "mark.svg": PICTURE,
    "age.js": SCRIPT,
    "amount.js": SCRIPT,
    "element.js": SCRIPT,
    "live.js": SCRIPT,
    "main.js": SCRIPT,
    "path.js": SCRIPT,
    "record.js": SCRIPT,
    "server.js": SCRIPT,
    "state.js": SCRIPT,
    "table.js": SCRIPT,
    "view-kind.js": SCRIPT,
    "view-node.js": SCRIPT,
    "view-nodes.js": SCRIPT,
    "view-object.js": SCRIPT,
    "view-overview.js": SCRIPT,
    "view-workload.js": SCRIPT,
    "view-workloads.js": SCRIPT,
    "yaml.js": SCRIPT,
};

pub async fn index() -> Response {
    find("index.html")
}

pub async fn file(Path(name): Path<String>) -> Response {
    find(&name)
}

fn find(name: &str) -> Response {
    match FILES.iter().find(|(file, ..)| *file == name) {
        Some((_, kind, text)) => ([(header::CONTENT_TYPE, *kind)], *text).into_response(),
        None => (StatusCode::NOT_FOUND, "the console has no such page; begin at /console/\n").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy would keep a browser from running or loading it, and a page that needs it would be broken.
    #[test]
    fn nothing_comes_from_elsewhere_and_nothing_makes_markup_of_text() {
        for (name, kind, text) in FILES {
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "https://",
                "style=",
            ] {
                assert!(!text.contains(forbidden), "{name} has {forbidden}");
            }
            for imported in text.lines().filter(|line| *kind == SCRIPT && line.starts_with("import ")) {
                let file = imported
                    .split("\"./")
                    .nth(1)
                    .and_then(|rest| rest.split('"').next())
                    .expect("a file beside it");
                assert!(FILES.iter().any(|(there, ..)| *there == file), "{name} imports {file}");
            }
        }
    }
}
