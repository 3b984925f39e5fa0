//! Files and names.

use super::parse::number;
use super::session::Session;
use super::structures::mode;
use crate::error::{Context, Failure, Result};
use crate::listing;
use crate::outfile::{Kind, Out};
use crate::output::Output;
use crate::text;
use spindle_ffs::ROOT_INO;
use spindle_vfs::FileKind;
use std::collections::HashSet;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

/// Zeros of a hole that are written at once.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Fails if something could not be read.
fn complete(unread: u64) -> Result<()> {
    if unread == 0 {
        return Ok(());
    }
    Err(Failure::new(format!("damaged: left out what cannot be read: {}", text::counted(unread, "part"))))
}

/// Lists a directory.
pub fn ls(session: &mut Session, out: &mut Output, words: &[String]) -> Result<()> {
    let ino = words.first().map_or(Ok(session.directory.0), |word| session.find(word))?;
    let mut inspector = session.inspector();
    let (listed, damaged) = inspector.list(ino)?;
    for entry in listed {
        let name = text::printable(&entry.name);
        let Ok(inode) = inspector.inode(entry.ino) else {
            out.line(format!("{:>8} there is no such inode  {name}", entry.ino))?;
            continue;
        };
        let time = listing::time(inode.mtime, false);
        let mode = mode(inode.kind, inode.mode);
        let (ino, nlink, uid, gid, size) = (inode.ino, inode.nlink, inode.uid, inode.gid, inode.size);
        let target = inode.target.map(|target| format!(" -> {}", text::printable(&target)));
        let target = target.unwrap_or_default();
        out.line(format!("{ino:>8} {mode} {nlink:>3} {uid:>5} {gid:>5} {size:>12} {time} {name}{target}"))?;
    }
    complete(u64::from(damaged))
}

/// Chooses a directory.
pub fn cd(session: &mut Session, _: &mut Output, words: &[String]) -> Result<()> {
    let Some(word) = words.first() else {
        session.directory = (ROOT_INO, "/".into());
        return Ok(());
    };
    let ino = session.find(word)?;
    session.inspector().list(ino).named(word.as_bytes())?;
    let path = match super::parse::inode_number(word)? {
        Some(ino) => {
            let names = session.inspector().names(&HashSet::from([ino]), &mut |_, _| ());
            let path = names.get(&ino).and_then(|paths| paths.first());
            path.map_or_else(|| format!("<{ino}>"), |path| String::from_utf8_lossy(path).into_owned())
        }
        None => join(&session.directory.1, word),
    };
    session.directory = (ino, path);
    Ok(())
}

/// Returns the path that leads to `path` from `base`.
fn join(base: &str, path: &str) -> String {
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{base}/{path}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    let begins = if whole.starts_with('/') { "/" } else { "" };
    format!("{begins}{}", parts.join("/"))
}

/// Prints the path of the chosen directory.
pub fn pwd(session: &mut Session, out: &mut Output, _: &[String]) -> Result<()> {
    let (ino, path) = &session.directory;
    out.line(format!("{} (inode {ino})", text::printable(path.as_bytes())))
}

/// Writes the contents of a file to standard output.
pub fn cat(session: &mut Session, out: &mut Output, words: &[String]) -> Result<()> {
    let ino = session.find(&words[0])?;
    let mut inspector = session.inspector();
    let inode = inspector.inode(ino)?;
    if let Some(target) = inode.target {
        return out.bytes(&target);
    }
    let mut written = 0;
    let zeros = |out: &mut Output, from: u64, to: u64| -> Result<()> {
        let mut left = to.saturating_sub(from);
        while left > 0 {
            let n = left.min(ZEROS.len() as u64);
            out.bytes(&ZEROS[..usize::try_from(n).unwrap_or(0)])?;
            left -= n;
        }
        Ok(())
    };
    let unread = inspector.read_file(ino, &mut |at, bytes| {
        zeros(out, written, at)?;
        written = at + bytes.len() as u64;
        out.bytes(bytes)
    })?;
    if holds_data(inode.kind) {
        zeros(out, written, inode.size)?;
    }
    complete(unread)
}

/// Returns true if the size of such a file counts bytes that it has.
pub const fn holds_data(kind: Option<FileKind>) -> bool {
    matches!(kind, Some(FileKind::Regular | FileKind::Directory | FileKind::Symlink))
}

/// Writes the contents of a file to a file of the host.
pub fn dump(session: &mut Session, _: &mut Output, words: &[String]) -> Result<()> {
    let ino = session.find(&words[0])?;
    let path = Path::new(&words[1]);
    let mut inspector = session.inspector();
    let inode = inspector.inode(ino)?;
    let out = Out::create(path, Kind::Contents, false)?;
    let mut file = out.handle()?;
    let mut write = || -> Result<u64> {
        if let Some(target) = &inode.target {
            file.write_all(target)?;
            return Ok(0);
        }
        let unread = inspector.read_file(ino, &mut |at, bytes| -> Result<()> {
            file.seek(SeekFrom::Start(at))?;
            Ok(file.write_all(bytes)?)
        })?;
        if holds_data(inode.kind) {
            file.set_len(inode.size)?;
        }
        Ok(unread)
    };
    let unread = write().context(&out.name)?;
    out.finish()?;
    complete(unread)
}

/// Prints where a file lies.
pub fn blocks(session: &mut Session, out: &mut Output, words: &[String]) -> Result<()> {
    let ino = session.find(&words[0])?;
    let map = session.inspector().file_map(ino)?;
    crate::commands::map::file::print(out, session.layout(), &map)?;
    complete(u64::from(!map.damage.is_none()))
}

/// Prints who has fragments.
pub fn owner(session: &mut Session, out: &mut Output, words: &[String]) -> Result<()> {
    let frags: Vec<u64> = words.iter().map(|word| number(word)).collect::<Result<_>>()?;
    let mut inspector = session.inspector();
    let owners = session.with_progress("owner", |inspector, progress| inspector.owners(&frags, progress))?;
    for (frag, owners) in owners {
        let marked = match inspector.is_frag_used(frag) {
            Ok(true) => "marked used",
            Ok(false) => "marked free",
            Err(_) => "the map of its group cannot be read",
        };
        if owners.is_empty() {
            out.line(format!("fragment {frag}: nobody ({marked})"))?;
        }
        for owner in owners {
            out.line(format!("fragment {frag}: {owner} ({marked})"))?;
        }
    }
    Ok(())
}

/// Prints all paths of inodes.
pub fn names(session: &mut Session, out: &mut Output, words: &[String]) -> Result<()> {
    let inodes: Vec<u32> = words.iter().map(|word| session.find(word)).collect::<Result<_>>()?;
    let wanted: HashSet<u32> = inodes.iter().copied().collect();
    let names = session.with_progress("names", |inspector, progress| inspector.names(&wanted, progress));
    for ino in inodes {
        match names.get(&ino) {
            None => out.line(format!("{ino:>8} no name"))?,
            Some(paths) => {
                for path in paths {
                    out.line(format!("{ino:>8} {}", text::printable(path)))?;
                }
            }
        }
    }
    Ok(())
}

/// Prints what was deleted.
pub fn deleted(session: &mut Session, out: &mut Output, _: &[String]) -> Result<()> {
    let deleted = session.with_progress("deleted", |inspector, progress| inspector.deleted(progress));
    crate::commands::find_deleted::show(out, session.layout(), &deleted)
}

#[cfg(test)]
mod tests {
    use super::join;

    /// Promise: paths are joined without dots.
    #[test]
    fn paths_are_joined() {
        assert_eq!((join("/", "a/../b/."), join("/a/b", "../../..")), ("/b".into(), "/".into()));
        assert_eq!((join("/a", "/c"), join("<5>", "d")), ("/c".into(), "<5>/d".into()));
    }
}
