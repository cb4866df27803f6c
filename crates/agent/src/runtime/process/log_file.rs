//! What a process wrote, in files of a bounded size: `log` is the newest, `log.1` the one before.
//!
//! A line is `TIME STREAM END TEXT`: milliseconds since 1970; `o` or `e` for output and errors; `F` if the line ends here,
//! `P` if it was too long and goes on in the next. Nothing here waits for anything but the page cache: what cannot be written,
//! because the disk is full, is counted and dropped, and the process is never held up by it.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use setpoint_types::Timestamp;

/// A line is cut after so many bytes, so that an endless one needs no endless memory.
pub const LINE_BYTES_MAX: usize = 16 << 10;

/// Which of its two outputs a process wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Output,
    Errors,
}

impl Stream {
    pub fn letter(self) -> char {
        match self {
            Self::Output => 'o',
            Self::Errors => 'e',
        }
    }
}

/// The files.
pub struct LogFile {
    path: PathBuf,
    file: Option<File>,
    size: u64,
    bytes_max: u64,
    files_max: u32,
    /// Bytes that could not be written since the last line that could.
    dropped: u64,
    pending: [Vec<u8>; 2],
}

impl LogFile {
    /// `files_max` counts all of them, the newest included.
    pub fn new(path: PathBuf, bytes_max: u64, files_max: u32) -> Self {
        let pending = [Vec::new(), Vec::new()];
        Self { path, file: None, size: 0, bytes_max, files_max: files_max.max(1), dropped: 0, pending }
    }

    /// Takes in what was read from one output.
    pub fn take(&mut self, stream: Stream, bytes: &[u8], now: Timestamp) {
        let mut pending = std::mem::take(&mut self.pending[stream as usize]);
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = LINE_BYTES_MAX - pending.len();
            let reach = &rest[..rest.len().min(room)];
            match reach.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    pending.extend_from_slice(&rest[..end]);
                    self.line(stream, true, &pending, now);
                    pending.clear();
                    rest = &rest[end + 1..];
                }
                None => {
                    pending.extend_from_slice(reach);
                    rest = &rest[reach.len()..];
                    if pending.len() == LINE_BYTES_MAX {
                        self.line(stream, false, &pending, now);
                        pending.clear();
                    }
                }
            }
        }
        self.pending[stream as usize] = pending;
    }

    /// Writes what has no end yet. The process is gone.
    pub fn finish(&mut self, now: Timestamp) {
        for stream in [Stream::Output, Stream::Errors] {
            let pending = std::mem::take(&mut self.pending[stream as usize]);
            if !pending.is_empty() {
                self.line(stream, true, &pending, now);
            }
        }
    }

    fn line(&mut self, stream: Stream, ends: bool, text: &[u8], now: Timestamp) {
        let end = if ends { 'F' } else { 'P' };
        let mut line = Vec::with_capacity(text.len() + 32);
        if self.dropped > 0 {
            line.extend(
                format!("{} e F [{} bytes were lost: the disk is full]\n", now.0, self.dropped).bytes(),
            );
        }
        line.extend(format!("{} {} {end} ", now.0, stream.letter()).bytes());
        line.extend_from_slice(text);
        line.push(b'\n');
        match self.append(&line) {
            Ok(()) => self.dropped = 0,
            Err(_) => self.dropped += text.len() as u64,
        }
    }

    fn append(&mut self, line: &[u8]) -> std::io::Result<()> {
        if self.size > 0 && self.size + line.len() as u64 > self.bytes_max {
            self.rotate();
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let file = File::options().create(true).append(true).open(&self.path)?;
                self.size = file.metadata()?.len();
                none.insert(file)
            }
        };
        let written = file.write_all(line);
        match written {
            Ok(()) => self.size += line.len() as u64,
            // Half a line would spoil the next one.
            Err(_) => drop(file.set_len(self.size)),
        }
        written
    }

    /// Names move by one, the oldest goes.
    fn rotate(&mut self) {
        self.file = None;
        self.size = 0;
        let older = |number: u32| match number {
            0 => self.path.clone(),
            number => self.path.with_extension(number.to_string()),
        };
        for number in (1..self.files_max).rev() {
            fs::rename(older(number - 1), older(number)).ok();
        }
        if self.files_max == 1 {
            fs::remove_file(older(0)).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(folder: &tempfile::TempDir, name: &str) -> String {
        fs::read_to_string(folder.path().join(name)).unwrap_or_default()
    }

    #[test]
    fn lines_of_two_outputs_are_kept_apart_and_stamped() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut log = LogFile::new(folder.path().join("log"), 1000, 2);
        log.take(Stream::Output, b"one\ntw", Timestamp(1));
        log.take(Stream::Errors, b"bad\n", Timestamp(2));
        log.take(Stream::Output, b"o\n\nlast", Timestamp(3));
        log.finish(Timestamp(4));
        assert_eq!(content(&folder, "log"), "1 o F one\n2 e F bad\n3 o F two\n3 o F \n4 o F last\n");
    }

    #[test]
    fn a_line_without_an_end_is_cut() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut log = LogFile::new(folder.path().join("log"), 1 << 20, 2);
        log.take(Stream::Output, &vec![b'x'; LINE_BYTES_MAX + 3], Timestamp(1));
        log.take(Stream::Output, b"\n", Timestamp(2));
        let text = content(&folder, "log");
        let lines: Vec<(&str, usize)> = text.lines().map(|line| (&line[..6], line.len())).collect();
        assert_eq!(lines, [("1 o P ", LINE_BYTES_MAX + 6), ("2 o F ", 9)]);
    }

    #[test]
    fn files_are_bounded_in_size_and_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut log = LogFile::new(folder.path().join("log"), 40, 3);
        for number in 0..20 {
            log.take(Stream::Output, format!("line {number:02}\n").as_bytes(), Timestamp(7));
        }
        assert_eq!(content(&folder, "log"), "7 o F line 18\n7 o F line 19\n");
        assert_eq!(content(&folder, "log.2"), "7 o F line 14\n7 o F line 15\n");
        assert_eq!(fs::read_dir(folder.path()).expect("a listing").count(), 3);
    }

    #[test]
    fn a_full_disk_loses_lines_and_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut log = LogFile::new(folder.path().join("no/such/folder/log"), 1000, 2);
        log.take(Stream::Output, b"lost\n", Timestamp(1));
        fs::create_dir_all(folder.path().join("no/such/folder")).expect("folders");
        log.take(Stream::Output, b"kept\n", Timestamp(2));
        let text = content(&folder, "no/such/folder/log");
        assert_eq!(text, "2 e F [4 bytes were lost: the disk is full]\n2 o F kept\n");
    }
}
