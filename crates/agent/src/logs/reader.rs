//! Reads the log files of a replica's runs, oldest first, and goes on while they grow and are rotated.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use setpoint_client::LogQuery;

use crate::runtime::process::run_folder::RunFolder;

/// A place in what a replica wrote.
pub struct Reader {
    query: LogQuery,
    /// Folders of its runs, oldest first, that were not begun with.
    runs: VecDeque<PathBuf>,
    current: Option<Current>,
    /// Lines to pass over, because only the last ones are wanted.
    skip: u64,
    /// A line that has come in parts, and has not ended yet.
    broken: bool,
}

struct Current {
    run: PathBuf,
    file: BufReader<File>,
    inode: u64,
}

/// How much is given at once, to which the last line may add.
const BYTES_MAX: usize = 64 << 10;
/// How many lines are looked at before something is given.
const LINES_MAX: usize = 1024;

impl Reader {
    /// Of these runs, oldest first.
    pub fn new(runs: Vec<PathBuf>, query: LogQuery) -> Self {
        let lines = query.tail.map(|tail| (tail, runs.iter().map(|run| count(run)).sum::<u64>()));
        let skip = lines.map_or(0, |(tail, there)| there.saturating_sub(tail));
        Self { query, runs: runs.into(), current: None, skip, broken: false }
    }

    /// The next lines. None: there is no more now.
    pub fn more(&mut self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut lines = 0;
        let mut line = Vec::new();
        while lines < LINES_MAX && out.len() < BYTES_MAX {
            let Some(current) = self.current.as_mut() else {
                if !self.open_next() {
                    break;
                }
                continue;
            };
            line.clear();
            let at = current.file.stream_position().unwrap_or(0);
            let read = current.file.read_until(b'\n', &mut line).unwrap_or(0);
            if read == 0 || line.last() != Some(&b'\n') {
                // Half a line is read again when it is whole.
                current.file.seek(SeekFrom::Start(at)).ok();
                if !self.advance() {
                    break;
                }
                continue;
            }
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            lines += self.take(&line, &mut out);
        }
        (!out.is_empty()).then_some(out)
    }

    /// Whether nothing more can come: the last run has ended, and all of it was read.
    pub fn is_over(&self) -> bool {
        let Some(current) = &self.current else { return self.runs.is_empty() };
        let folder = RunFolder::new(&current.run);
        // One whose folder was taken away has ended, too.
        let ended = || folder.ended().is_ok_and(|ended| ended.is_some()) || !folder.path().exists();
        self.runs.is_empty() && ended()
    }

    fn take(&mut self, line: &[u8], out: &mut Vec<u8>) -> usize {
        let Some((time, ends, text)) = parse(line) else { return 0 };
        if self.query.since.is_some_and(|since| time < since.0) {
            return 0;
        }
        if self.query.timestamps && !self.broken {
            out.extend(format!("{time} ").bytes());
        }
        out.extend_from_slice(text);
        if ends {
            out.push(b'\n');
        }
        self.broken = !ends;
        1
    }

    /// The oldest file of the next run. False: there is none yet.
    fn open_next(&mut self) -> bool {
        let Some(run) = self.runs.front().cloned() else { return false };
        let Some(path) = files(&run).into_iter().next() else {
            // A run that wrote nothing, unless it goes on.
            if self.runs.len() > 1 {
                self.runs.pop_front();
                return true;
            }
            return false;
        };
        self.runs.pop_front();
        self.current = open(&run, &path);
        self.current.is_some()
    }

    /// From the end of a file to the one after it. False: this is the newest, and all of it was read.
    fn advance(&mut self) -> bool {
        let Some(current) = &self.current else { return false };
        let files = files(&current.run);
        let place = files.iter().position(|path| inode(path) == Some(current.inode));
        let next = match place {
            Some(place) => files.get(place + 1),
            // It was rotated away while it was read: the oldest that is left goes on.
            None => files.first(),
        };
        match next {
            Some(path) => {
                let opened = open(&current.run.clone(), path);
                let is_open = opened.is_some();
                self.current = opened.or_else(|| self.current.take());
                is_open
            }
            None if !self.runs.is_empty() => {
                self.current = None;
                true
            }
            None => false,
        }
    }
}

fn open(run: &Path, path: &Path) -> Option<Current> {
    let file = File::open(path).ok()?;
    let inode = file.metadata().ok()?.ino();
    Some(Current { run: run.to_owned(), file: BufReader::new(file), inode })
}

fn inode(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|about| about.ino())
}

/// The log files of a run that are there, oldest first.
fn files(run: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(run).into_iter().flatten().flatten();
    let mut numbered: Vec<(u32, PathBuf)> = names
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let number = match name.strip_prefix("log")? {
                "" => 0,
                rest => rest.strip_prefix('.')?.parse().ok()?,
            };
            Some((number, entry.path()))
        })
        .collect();
    numbered.sort();
    numbered.into_iter().rev().map(|(_, path)| path).collect()
}

/// Lines in all files of a run.
fn count(run: &Path) -> u64 {
    let mut lines = 0;
    let mut bytes = vec![0; 64 << 10];
    for path in files(run) {
        let Ok(mut file) = File::open(path) else { continue };
        while let Ok(read @ 1..) = file.read(&mut bytes) {
            lines += bytes[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
        }
    }
    lines
}

/// `TIME STREAM END TEXT`: the time, whether the line ends here, and the text.
fn parse(line: &[u8]) -> Option<(u64, bool, &[u8])> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let mut words = line.splitn(4, |byte| *byte == b' ');
    let time = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    words.next()?;
    let ends = words.next()? == b"F";
    Some((time, ends, words.next()?))
}

#[cfg(test)]
mod tests {
    use setpoint_types::Timestamp;

    use super::*;
    use crate::runtime::process::log_file::{LogFile, Stream};

    fn read(reader: &mut Reader) -> String {
        let mut text = Vec::new();
        while let Some(more) = reader.more() {
            text.extend(more);
        }
        String::from_utf8(text).expect("text")
    }

    fn write(log: &mut LogFile, numbers: std::ops::Range<u32>) {
        for number in numbers {
            log.take(Stream::Output, format!("{number}\n").as_bytes(), Timestamp(number.into()));
        }
    }

    #[test]
    fn all_runs_come_in_order_and_only_what_was_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let runs: Vec<PathBuf> = ["r-1", "r-2", "r-3"].map(|name| folder.path().join(name)).into();
        runs.iter().for_each(|run| fs::create_dir(run).expect("made"));
        write(&mut LogFile::new(runs[0].join("log"), 20, 3), 0..4);
        write(&mut LogFile::new(runs[2].join("log"), 20, 3), 4..6);
        let text = |query| read(&mut Reader::new(runs.clone(), query)).replace('\n', " ");
        assert_eq!(text(LogQuery::default()), "0 1 2 3 4 5 ");
        assert_eq!(text(LogQuery { tail: Some(3), ..LogQuery::default() }), "3 4 5 ");
        assert_eq!(text(LogQuery { since: Some(Timestamp(2)), ..LogQuery::default() }), "2 3 4 5 ");
        let stamped = LogQuery { tail: Some(1), timestamps: true, ..LogQuery::default() };
        assert_eq!(text(stamped), "5 5 ");
    }

    #[test]
    fn a_reader_that_keeps_up_misses_nothing_while_files_are_rotated() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut log = LogFile::new(folder.path().join("log"), 30, 3);
        let mut reader = Reader::new(vec![folder.path().to_owned()], LogQuery::default());
        assert_eq!(reader.more(), None);
        let mut text = String::new();
        for number in 0..40 {
            write(&mut log, number..number + 1);
            // Every few lines, so that it finds itself one file behind.
            if number % 3 == 0 {
                text += &read(&mut reader);
            }
        }
        text += &read(&mut reader);
        let wanted: String = (0..40).map(|number| format!("{number}\n")).collect();
        assert_eq!(text, wanted);
    }

    #[test]
    fn parts_of_a_line_are_joined() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("log"), "1 o P ab\n1 o F cd\n2 o F \nnonsense\n").expect("written");
        let mut reader = Reader::new(vec![folder.path().to_owned()], LogQuery::default());
        assert_eq!(read(&mut reader), "abcd\n\n");
    }
}
