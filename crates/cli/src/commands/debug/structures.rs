//! Structures as they stand on the disk.

use super::parse::number;
use super::session::Session;
use crate::error::{Failure, Result};
use crate::output::Output;
use crate::text;
use spindle_clock::Timestamp;
use spindle_ffs::inspect::{Field, Form, Owner, Slot};
use spindle_ffs::{Frag, Group};
use spindle_ondisk::Endian;
use spindle_vfs::FileKind;
use std::fmt::Write;

/// Bytes in a line of a dump.
const DUMP_LINE: usize = 16;

/// Prints the superblock.
pub fn superblock(session: &mut Session, out: &mut Output, _: &[String]) -> Result<()> {
    let superblock = session.superblock();
    let layout = &superblock.layout;
    out.line(format!(
        "{} of {}, {}-endian, superblock at byte {}",
        text::version_name(layout.version),
        superblock.dialect,
        text::endian(layout.endian),
        layout.fs_sblockloc
    ))?;
    fields(out, &Field::of_superblock(), superblock.raw(), layout.endian)
}

/// Prints a cylinder group.
pub fn group(session: &mut Session, out: &mut Output, words: &[String]) -> Result<()> {
    let cgx: u32 = number(&words[0])?;
    session.inspector().check_group(cgx)?;
    let layout = session.layout();
    let (block, map) = session.inspector().group(cgx)?;
    let group = Group::new(layout, &map, &block);
    let cs = group.cs();
    out.line(format!(
        "group {cgx}: fragments {} to {}, superblock copy at {}, block at {}, inodes at {}, data from {}",
        layout.cgbase(cgx),
        (layout.cgbase(cgx) + u64::from(map.ndblk)).0 - 1,
        layout.cgsblock(cgx),
        layout.cgtod(cgx),
        layout.cgimin(cgx),
        layout.cgdmin(cgx)
    ))?;
    out.line(format!(
        "  cg_cs         ndir {} nbfree {} nifree {} nffree {}",
        cs.cs_ndir, cs.cs_nbfree, cs.cs_nifree, cs.cs_nffree
    ))?;
    out.line(format!("  cg_ndblk      {}", map.ndblk))?;
    out.line(format!("  cg_rotor      {}", group.rotor()))?;
    out.line(format!("  cg_frotor     {}", group.frotor()))?;
    out.line(format!("  cg_irotor     {}", group.irotor()))?;
    out.line(format!("  cg_initediblk {}", group.initediblk()))?;
    let frsum: Vec<String> = (1..layout.fs_frag).map(|frags| group.frsum(frags).to_string()).collect();
    out.line(format!("  cg_frsum      {}", frsum.join(" ")))
}

/// Prints an inode.
pub fn inode(session: &mut Session, out: &mut Output, words: &[String]) -> Result<()> {
    let ino = session.find(&words[0])?;
    let mut inspector = session.inspector();
    let bytes = inspector.inode_bytes(ino)?;
    let inode = inspector.inode(ino)?;
    let (block, offset) = session.layout().ino_to_fsba(ino);
    let kind = match inode.kind {
        Some(kind) => format!("{}, {}", text::kind_name(kind), text::mode_string(kind, inode.mode.into())),
        None if inode.mode == 0 => "free".into(),
        None => "of no known kind".into(),
    };
    let marked = match inspector.is_inode_used(ino) {
        Ok(true) => "marked used",
        Ok(false) => "marked free",
        Err(_) => "the map of its group cannot be read",
    };
    out.line(format!(
        "inode {ino}: {kind}; {marked}; in group {}, byte {} of block {block}",
        session.layout().ino_to_cg(ino),
        offset
    ))?;
    if let Some(target) = inode.target {
        out.line(format!("  target          {}", text::printable(&target)))?;
    }
    fields(out, &Field::of_inode(session.layout()), &bytes, session.layout().endian)
}

/// Prints fields, the elements of an array in one line.
fn fields(out: &mut Output, fields: &[Field], bytes: &[u8], endian: Endian) -> Result<()> {
    let base = |field: &Field| field.name.split('[').next().unwrap_or("").to_owned();
    for array in fields.chunk_by(|a, b| base(a) == base(b)) {
        let values: Vec<String> = array.iter().map(|field| value(field, bytes, endian)).collect();
        out.line(format!("  {:<20} {}", base(&array[0]), values.join(" ")))?;
    }
    Ok(())
}

/// Returns the value of a field as people write it.
pub fn value(field: &Field, bytes: &[u8], endian: Endian) -> String {
    let Some(number) = field.number(bytes, endian) else {
        let bytes = bytes.get(field.at..field.at + field.len).unwrap_or_default();
        return match field.form {
            Form::Text => {
                let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                format!("\"{}\"", text::printable(&bytes[..end]))
            }
            _ if bytes.iter().all(|&byte| byte == 0) => format!("{} bytes, all zero", bytes.len()),
            _ => bytes.iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            }),
        };
    };
    number_text(field.form, number)
}

/// Returns a number as people write it.
pub fn number_text(form: Form, number: i128) -> String {
    match form {
        Form::Octal if number != 0 => format!("0{number:o}"),
        Form::Hex => format!("{number:#x}"),
        Form::Time => {
            let time = i64::try_from(number).map(|secs| Timestamp::new(secs, 0).to_string());
            format!("{number} ({})", time.unwrap_or_default())
        }
        _ => number.to_string(),
    }
}

/// Prints a block.
pub fn block(session: &mut Session, out: &mut Output, words: &[String]) -> Result<()> {
    let frag: u64 = number(&words[0])?;
    let mut inspector = session.inspector();
    inspector.check_frag(frag)?;
    let layout = session.layout();
    let per_block = u64::from(layout.fs_frag);
    let frags = (per_block - frag % per_block).min(layout.fs_size - frag);
    let frags = u32::try_from(frags).unwrap_or(1);
    let bytes = inspector.block(frag, frags)?;
    match words.get(1).map(String::as_str) {
        None => hexdump(out, layout.byte(Frag(frag)), &bytes),
        Some("dir") => {
            for slot in joined(inspector.directory_slots(&bytes)) {
                show_slot(out, &slot)?;
            }
            Ok(())
        }
        Some("indirect") => {
            for (n, pointer) in inspector.pointers(&bytes).into_iter().enumerate() {
                if pointer != 0 {
                    let known = if layout.contains(Frag(pointer), 1) { "" } else { "  out of range" };
                    out.line(format!("[{n:>5}] {pointer}{known}"))?;
                }
            }
            Ok(())
        }
        Some("inodes") => {
            let Some(Owner::Inodes { first, .. }) = inspector.structure_at(frag) else {
                return Err(Failure::new(format!("{frag}: there are no inodes")));
            };
            let count = bytes.len() / layout.inode_size();
            for ino in (first..).take(count) {
                let Ok(inode) = inspector.inode(ino) else { continue };
                let mode = mode(inode.kind, inode.mode);
                let (nlink, size) = (inode.nlink, inode.size);
                out.line(format!("{ino:>8} {mode} {nlink:>5} {:>6} {:>6} {size:>12}", inode.uid, inode.gid))?;
            }
            Ok(())
        }
        Some(other) => Err(Failure::new(format!("{other}: give dir, indirect or inodes"))),
    }
}

/// Returns type and permissions of an inode that may be free.
pub fn mode(kind: Option<FileKind>, mode: u16) -> String {
    kind.map_or_else(|| format!("{mode:<#10o}"), |kind| text::mode_string(kind, mode.into()))
}

/// Joins neighbouring chunks that are no entries.
fn joined(slots: Vec<Slot>) -> Vec<Slot> {
    let mut found: Vec<Slot> = Vec::new();
    for slot in slots {
        if let (Some(Slot::Broken { bytes: before, .. }), Slot::Broken { bytes, .. }) =
            (found.last_mut(), &slot)
        {
            *before += bytes;
        } else {
            found.push(slot);
        }
    }
    found
}

fn show_slot(out: &mut Output, slot: &Slot) -> Result<()> {
    match slot {
        Slot::Entry { at, ino, kind, name } => {
            let kind = kind.map(|kind| kind.to_string()).unwrap_or_default();
            out.line(format!("{at:>6} {ino:>10} {kind:>2} {}", text::printable(name)))
        }
        Slot::Broken { at, bytes, why } => out.line(format!("{at:>6} {bytes} bytes are no entries: {why}")),
    }
}

/// Prints bytes in hexadecimal and as text; lines that repeat are one `*`.
pub fn hexdump(out: &mut Output, base: u64, bytes: &[u8]) -> Result<()> {
    let mut last: Option<&[u8]> = None;
    let mut starred = false;
    for (n, line) in bytes.chunks(DUMP_LINE).enumerate() {
        if last == Some(line) {
            if !std::mem::replace(&mut starred, true) {
                out.line("*")?;
            }
            continue;
        }
        starred = false;
        last = Some(line);
        let mut hex = String::new();
        for (n, byte) in line.iter().enumerate() {
            let gap = if n == DUMP_LINE / 2 { "  " } else { " " };
            let _ = write!(hex, "{gap}{byte:02x}");
        }
        let letters: String = line
            .iter()
            .map(|&b| if b.is_ascii_graphic() || b == b' ' { char::from(b) } else { '.' })
            .collect();
        out.line(format!("{:010x} {hex:<50} |{letters}|", base + (n * DUMP_LINE) as u64))?;
    }
    out.line(format!("{:010x}", base + bytes.len() as u64))
}

/// Prints whether fragments are marked used.
pub fn testb(session: &mut Session, out: &mut Output, words: &[String]) -> Result<()> {
    for word in words {
        let frag = number(word)?;
        let marked = if session.inspector().is_frag_used(frag)? { "used" } else { "free" };
        out.line(format!("fragment {frag}: marked {marked}"))?;
    }
    Ok(())
}

/// Prints whether inodes are marked used.
pub fn testi(session: &mut Session, out: &mut Output, words: &[String]) -> Result<()> {
    for word in words {
        let ino = session.find(word)?;
        let marked = if session.inspector().is_inode_used(ino)? { "used" } else { "free" };
        out.line(format!("inode {ino}: marked {marked}"))?;
    }
    Ok(())
}
