//! Changes of single fields and names.

use super::parse::number;
use super::session::Session;
use super::structures::number_text;
use crate::date;
use crate::error::{Context, Failure, Result};
use crate::output::Output;
use spindle_ffs::inspect::Edited;

/// Parses a value: a number or, for a time, also a date.
fn value(field: &str, word: &str) -> Result<i128> {
    let parsed = number(word);
    if parsed.is_err() && field.ends_with("time") {
        return date::parse(word).map(|time| time.secs.into()).map_err(Failure::new).context(word);
    }
    parsed
}

fn show(out: &mut Output, edited: &Edited) -> Result<()> {
    let Edited { field, old, new } = edited;
    let (old, new) = (number_text(field.form, *old), number_text(field.form, *new));
    out.line(format!("{} changes from {old} to {new}", field.name))
}

/// Sets a field of an inode.
pub fn set(session: &mut Session, out: &mut Output, words: &[String]) -> Result<()> {
    let ino = session.find(&words[0])?;
    let value = value(&words[1], &words[2])?;
    let edited = session.editor()?.set_inode(ino, &words[1], value)?;
    show(out, &edited)
}

/// Sets a field of the superblock.
pub fn setsuper(session: &mut Session, out: &mut Output, words: &[String]) -> Result<()> {
    let value = value(&words[0], &words[1])?;
    let edited = session.editor()?.set_superblock(&words[0], value)?;
    show(out, &edited)
}

/// Makes an inode a free one.
pub fn clri(session: &mut Session, out: &mut Output, words: &[String]) -> Result<()> {
    let ino = session.find(&words[0])?;
    session.editor()?.clear_inode(ino)?;
    out.line(format!("inode {ino} cleared"))
}

/// Returns the directory that a path leads through, and the name at its end.
fn place<'w>(session: &Session, path: &'w str) -> Result<(u32, &'w [u8])> {
    let (dir, name) = match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((dir, name)) => (dir, name),
        None => (".", path),
    };
    if matches!(name, "" | "." | "..") {
        return Err(Failure::new(format!("{path}: give the path of a name, not of . or ..")));
    }
    let dir = session.inspector().lookup(session.directory.0, dir.as_bytes()).named(dir.as_bytes())?;
    Ok((dir, name.as_bytes()))
}

/// Enters a name.
pub fn link(session: &mut Session, out: &mut Output, words: &[String]) -> Result<()> {
    let ino = session.find(&words[0])?;
    let (dir, name) = place(session, &words[1])?;
    session.editor()?.link(dir, name, ino).named(words[1].as_bytes())?;
    out.line(format!("inode {ino} linked; its count of links is unchanged"))
}

/// Removes a name.
pub fn unlink(session: &mut Session, out: &mut Output, words: &[String]) -> Result<()> {
    let (dir, name) = place(session, &words[0])?;
    let ino = session.editor()?.unlink(dir, name).named(words[0].as_bytes())?;
    out.line(format!("inode {ino} unlinked; its count of links is unchanged"))
}
