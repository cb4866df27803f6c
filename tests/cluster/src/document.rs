//! Documents whose commands are run: what is in them, and ports to run it on.

use std::net::TcpListener;

/// The blocks of one kind of code in a document: those that open with "```sh", for `sh`. Panics if one is not closed.
pub fn blocks(text: &str, kind: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in text.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(opened)) => open = Some((opened.trim() == kind, String::new())),
            (None, None) => {}
            (Some(_), Some(_)) => {
                if let Some((true, block)) = open.take() {
                    blocks.push(block);
                }
            }
            (Some((_, block)), None) => {
                block.push_str(line);
                block.push('\n');
            }
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// The first digits of a hundred ports that nothing listens on.
pub fn free_hundred() -> String {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let start = u16::try_from(std::process::id() % 100).unwrap_or(0);
    // Below those that other tests take, and far below those that the kernel gives out.
    let hundreds = (0..80).map(|place| 120 + (start + place) % 80);
    let found = hundreds.into_iter().find(|hundred| (0..90).all(|port| free(hundred * 100 + port)));
    found.expect("some hundred ports are free").to_string()
}
