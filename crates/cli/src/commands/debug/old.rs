//! The commands of `spindle debug` on an old file system, which change nothing.

use super::parse;
use super::session::Outcome;
use super::structures::hexdump;
use crate::commands::find_deleted::old::show_deleted;
use crate::commands::map::old::print_pointers;
use crate::error::{Context, Failure, Result};
use crate::listing;
use crate::output::Output;
use crate::text::printable;
use spindle::inspect::OpenedOld;
use spindle_ondisk::Field;
use spindle_v7::inspect::{Inode, Inspector};
use spindle_v7::{Family, ROOT_INO};

/// The commands: name, words, help, and the least and greatest number of words.
const COMMANDS: [(&str, &str, &str, usize, usize); 11] = [
    ("super", "", "the super-block", 0, 0),
    ("inode", "INODE", "an inode, all fields", 1, 1),
    ("block", "N [AS]", "a block: as bytes, or AS dir, indirect", 1, 2),
    ("ls", "[INODE]", "the names in a directory, also deleted ones, with their inodes", 0, 1),
    ("blocks", "INODE", "where a file lies", 1, 1),
    ("owner", "N...", "the inodes that have these blocks", 1, usize::MAX),
    ("testb", "N...", "whether blocks are on the free list", 1, usize::MAX),
    ("free", "", "the length of the free list, and what is wrong with it", 0, 0),
    ("deleted", "", "deleted names and inodes, as find-deleted", 0, 0),
    ("help", "", "this list", 0, 0),
    ("quit", "", "end the session", 0, 0),
];

/// A session.
pub struct Session<'a> {
    inspector: Inspector<'a>,
}

impl<'a> Session<'a> {
    /// Begins.
    ///
    /// # Errors
    /// If the sizes in the super-block are impossible.
    pub fn new(opened: &'a OpenedOld) -> Result<Self> {
        Ok(Self { inspector: Inspector::new(&*opened.device, &opened.detected)? })
    }

    /// Runs the commands of a line.
    ///
    /// # Errors
    /// The first failure; the commands behind it are not run.
    pub fn run_line(&self, line: &str) -> Result<Outcome> {
        for words in parse::commands(line)? {
            let (name, rest) = (words[0].as_str(), &words[1..]);
            let (_, form, _, least, most) =
                COMMANDS.iter().find(|(known, ..)| *known == name).ok_or_else(|| {
                    Failure::new(format!("{name}: no such command on this file system; help lists them"))
                })?;
            if !(least..=most).contains(&&rest.len()) {
                return Err(Failure::new(format!("give {name} {form}")));
            }
            if name == "quit" {
                return Ok(Outcome::Quit);
            }
            let mut out = Output::stdout();
            let done = self.command(name, rest, &mut out).context(name);
            out.finish()?;
            done?;
        }
        Ok(Outcome::Continue)
    }

    fn command(&self, name: &str, words: &[String], out: &mut Output) -> Result<()> {
        match name {
            "super" => self.superblock(out),
            "inode" => self.inode(&self.inspector.inode(self.find(&words[0])?)?, out),
            "block" => self.block(words, out),
            "ls" => {
                let ino = words.first().map_or(Ok(ROOT_INO), |word| self.find(word))?;
                for entry in self.inspector.entries(ino)? {
                    let ino = if entry.ino == 0 { "deleted".into() } else { entry.ino.to_string() };
                    out.line(format!("{ino:>8} {}", printable(&entry.name)))?;
                }
                Ok(())
            }
            "blocks" => print_pointers(out, &self.inspector.blocks(self.find(&words[0])?)?),
            "owner" => words.iter().try_for_each(|word| self.owner(parse::number(word)?, out)),
            "testb" => words.iter().try_for_each(|word| {
                let block = self.checked(parse::number(word)?)?;
                let state =
                    if self.inspector.is_free(block) { "on the free list" } else { "not on the free list" };
                out.line(format!("block {block} is {state}"))
            }),
            "free" => {
                let (blocks, wrong) = self.inspector.free_blocks();
                out.line(format!("{blocks} blocks on the free list"))?;
                wrong.map_or(Ok(()), |why| Err(Failure::new(format!("the free list is damaged: {why}"))))
            }
            "deleted" => show_deleted(out, &self.inspector.deleted()),
            _ => COMMANDS.iter().try_for_each(|(name, form, help, ..)| {
                out.line(format!("{:<20} {help}", format!("{name} {form}")))
            }),
        }
    }

    /// Returns the inode that a word names, by number or by path.
    fn find(&self, word: &str) -> Result<u16> {
        match parse::inode_number(word)? {
            Some(ino) => {
                let last = self.inspector.layout().last_ino();
                let found = u16::try_from(ino).ok().filter(|ino| (1..=last).contains(ino));
                found.ok_or_else(|| Failure::new(format!("{ino}: inodes are numbered from 1 to {last}")))
            }
            None => self.inspector.lookup(word.as_bytes()).named(word.as_bytes()),
        }
    }

    /// Returns a block if there is one of this number.
    fn checked(&self, block: u32) -> Result<u32> {
        let end = self.inspector.layout().s_fsize;
        if block < end {
            return Ok(block);
        }
        Err(Failure::new(format!("{block}: blocks are numbered from 0 to {}", end - 1)))
    }

    fn superblock(&self, out: &mut Output) -> Result<()> {
        let superblock = self.inspector.superblock();
        let (head, tail) = (&superblock.head, &superblock.tail);
        let text = |bytes: &[u8]| printable(bytes.split(|&b| b == 0).next().unwrap_or_default());
        let used = |count: i16| usize::try_from(count).unwrap_or(0);
        let mut row = |name: &str, value: String| out.line(format!("{name:<10} {value}"));
        row("format", superblock.format.to_string())?;
        row("s_isize", head.s_isize.to_string())?;
        row("s_fsize", head.s_fsize.to_string())?;
        row("s_nfree", head.s_nfree.to_string())?;
        row("s_free", joined(head.s_free.iter().take(used(head.s_nfree))))?;
        row("s_ninode", head.s_ninode.to_string())?;
        row("s_inode", joined(head.s_inode.iter().take(used(head.s_ninode))))?;
        row("s_flock", head.s_flock.to_string())?;
        row("s_ilock", head.s_ilock.to_string())?;
        row("s_fmod", head.s_fmod.to_string())?;
        row("s_ronly", head.s_ronly.to_string())?;
        row("s_time", spindle_clock::Timestamp::new(head.s_time.into(), 0).to_string())?;
        row("s_tfree", tail.s_tfree.to_string())?;
        row("s_tinode", tail.s_tinode.to_string())?;
        row("s_m", tail.s_m.to_string())?;
        row("s_n", tail.s_n.to_string())?;
        row("s_fname", text(&tail.s_fname))?;
        row("s_fpack", text(&tail.s_fpack))?;
        if matches!(superblock.format.family, Family::SysV | Family::SysV16) {
            row("s_state", format!("{:#x}", superblock.s_state))?;
        }
        Ok(())
    }

    fn inode(&self, inode: &Inode, out: &mut Output) -> Result<()> {
        let (block, at) = self.inspector.layout().inode_at(inode.ino);
        let kind = match (inode.di_mode, inode.kind) {
            (0, _) => "free",
            (_, Some(kind)) => crate::text::kind_name(kind),
            (_, None) => "of no kind",
        };
        out.line(format!("inode {}, in block {} at byte {at}: {kind}", inode.ino, block.0))?;
        let mut row = |name: &str, value: String| out.line(format!("{name:<10} {value}"));
        row("di_mode", format!("{:07o}", inode.di_mode))?;
        row("di_nlink", inode.di_nlink.to_string())?;
        row("di_uid", inode.di_uid.to_string())?;
        row("di_gid", inode.di_gid.to_string())?;
        row("di_size", inode.di_size.to_string())?;
        row("di_addr", joined(inode.di_addr.iter()))?;
        row("di_atime", listing::time(inode.di_atime, true))?;
        row("di_mtime", listing::time(inode.di_mtime, true))?;
        row("di_ctime", listing::time(inode.di_ctime, true))
    }

    fn block(&self, words: &[String], out: &mut Output) -> Result<()> {
        let block = self.checked(parse::number(&words[0])?)?;
        let layout = self.inspector.layout();
        let bytes = self.inspector.block(block)?;
        let endian = layout.format.endian;
        match words.get(1).map(String::as_str) {
            None => hexdump(out, layout.byte(spindle_v7::Block(block)), &bytes),
            Some("dir") => {
                bytes.chunks_exact(spindle_v7::ondisk::ENTRY_SIZE).enumerate().try_for_each(|(n, entry)| {
                    let name = entry[2..].split(|&b| b == 0).next().unwrap_or_default();
                    let at = n * spindle_v7::ondisk::ENTRY_SIZE;
                    out.line(format!("{at:>5} {:>6} {}", u16::get(entry, endian), printable(name)))
                })
            }
            Some("indirect") => bytes.chunks_exact(u32::SIZE).enumerate().try_for_each(|(n, pointer)| {
                match u32::get(pointer, endian) {
                    0 => Ok(()),
                    block => out.line(format!("{n:>5} {block}")),
                }
            }),
            Some(other) => Err(Failure::new(format!("{other}: show a block as dir or indirect"))),
        }
    }

    fn owner(&self, block: u32, out: &mut Output) -> Result<()> {
        let block = self.checked(block)?;
        let layout = self.inspector.layout();
        if layout.data_block(block).is_none() {
            let what = if block < layout.inode_at(1).0.0 { "the super-block" } else { "inodes" };
            return out.line(format!("block {block} has {what}"));
        }
        let owners = self.inspector.owners(block);
        if owners.is_empty() {
            let state =
                if self.inspector.is_free(block) { "is on the free list" } else { "belongs to nothing" };
            return out.line(format!("block {block} {state}"));
        }
        owners.iter().try_for_each(|(ino, pointer)| {
            let place = match pointer.level {
                0 => format!("block {}", pointer.lbn),
                level => format!("the indirect block {level} for {}", pointer.lbn),
            };
            out.line(format!("block {block} is {place} of inode {ino}"))
        })
    }
}

fn joined<T: ToString>(numbers: impl Iterator<Item = T>) -> String {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
}
