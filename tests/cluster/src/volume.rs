//! File systems of a test's own: small ones that fill up, and ones that lose power.
//!
//! Needs the right to mount. Where that is missing the constructors say why, and the test that wanted one prints it and
//! ends. Not here: slow and lying disks, which would need a device mapper.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted file system. Dropping it unmounts it; so drop the processes that use it first.
pub struct Volume {
    image: Option<PathBuf>,
    folder: PathBuf,
}

impl Volume {
    /// In memory, with so many bytes.
    pub fn small(folder: &Path, bytes: u64) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        run("mount", &["-t", "tmpfs", "-o", &format!("size={bytes}"), "setpoint-test", text(folder)])?;
        Ok(Self { image: None, folder: folder.to_owned() })
    }

    /// A journaling file system in a file, whose power can be cut.
    pub fn powered(image: &Path, folder: &Path, megabytes: u64) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let file = fs::File::create(image).map_err(|error| error.to_string())?;
        file.set_len(megabytes << 20).map_err(|error| error.to_string())?;
        run("mkfs.ext4", &["-q", "-F", text(image)])?;
        let volume = Self { image: Some(image.to_owned()), folder: folder.to_owned() };
        volume.mount()?;
        Ok(volume)
    }

    fn mount(&self) -> Result<(), String> {
        match &self.image {
            Some(image) => run("mount", &["-o", "loop", text(image), text(&self.folder)]),
            None => Ok(()),
        }
    }

    /// Power loss: whatever was not synced is gone, and nothing can be read or written until [`Volume::restore_power`].
    pub fn cut_power(&self) -> Result<(), String> {
        // FS_IOC_SHUTDOWN, without flushing the journal. There is no program for it, and no safe call either.
        let script = format!(
            "import fcntl,os,struct\nfcntl.ioctl(os.open({:?},os.O_RDONLY),0x8004587d,struct.pack('I',2))",
            text(&self.folder)
        );
        run("python3", &["-c", &script])
    }

    /// Mounts it again, as after a restart of the machine.
    pub fn restore_power(&self) -> Result<(), String> {
        run("umount", &[text(&self.folder)])?;
        self.mount()
    }

    /// Fills all space that is left.
    pub fn fill(&self) -> Result<(), String> {
        // Ends with "no space left", which is what is wanted.
        let _ = run("dd", &["if=/dev/zero", &format!("of={}", text(&self.ballast())), "bs=64k"]);
        if self.ballast().exists() { Ok(()) } else { Err("nothing could be written".to_owned()) }
    }

    /// Takes away what [`Volume::fill`] wrote.
    pub fn make_room(&self) {
        let _ = fs::remove_file(self.ballast());
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Lazily: a process that is ending may still hold a file.
        let _ = run("umount", &["-l", text(&self.folder)]);
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are plain text")
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output =
        Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
