//! The report of `spindle info` on a member of a multi-structured file system.

use crate::error::Result;
use crate::mount_point;
use crate::output::Output;
use crate::text;
use serde::Serialize;
use spindle::set::{AreaState, AreaStatus, Label, MemberStatus, Share, State, Status, StorageUse, find};
use spindle_clock::Timestamp;
use spindle_device::Spec;
use spindle_fuse::{FuseMount, fuse_mounts};
use spindle_report::number;
use spindle_vfs::Objection;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A set, as seen from one of its members.
#[derive(Debug, Serialize)]
pub struct SetInfo {
    version: &'static str,
    member_id: String,
    whole: bool,
    pub objections: Vec<Objection>,
    #[serde(flatten)]
    status: Status,
}

impl SetInfo {
    /// Collects the report from a label, and from the other members if they can be found.
    pub fn of(label: &Label, device_name: &str) -> Result<Self> {
        let spec = Spec::parse(device_name)?;
        let found = find(&spec)?;
        let status = Status::of(&found)?;
        let missing = |state| state != AreaState::Whole;
        let mut objections = Vec::new();
        for role in ["data", "log", "control"] {
            let areas = || status.members.iter().flat_map(|member| &member.areas).filter(|a| a.role == role);
            let gone = |index| areas().filter(|area| area.index == index).all(|area| missing(area.state));
            let parts = areas().map(|area| area.index).max().map_or(0, |last| last + 1);
            for index in (0..parts).filter(|&index| gone(index)) {
                objections.push(Objection {
                    reason: format!("{role} storage {index} is missing"),
                    remedy: "make all members available".into(),
                    overridable: false,
                });
            }
        }
        Ok(Self {
            version: "MFS",
            member_id: format!("{:032x}", u128::from_be_bytes(label.member_id)),
            whole: status.is_whole(),
            objections,
            status,
        })
    }

    /// Returns format, size and state in one line.
    pub fn summary(&self) -> String {
        format!(
            "multi-structured file system of {} member{}, {} of data, {}{}",
            self.status.members.len(),
            if self.status.members.len() == 1 { "" } else { "s" },
            number::bytes(self.status.data_bytes),
            if self.whole { "all members there" } else { "not whole" },
            match self.status.state {
                State::Unmounted => "",
                State::Mounted => ", mounted",
                State::Open => ", in use",
                State::NotUnmounted => ", not unmounted",
            },
        )
    }

    /// Prints everything except the summary, for people.
    pub fn show(&self, out: &mut Output) -> Result<()> {
        show(out, &self.status)
    }
}

/// Returns whether a set is used, in words.
fn state(status: &Status) -> String {
    match (status.state, &status.mount) {
        (State::Unmounted, _) => "unmounted".into(),
        (State::Mounted, Some(at)) => {
            let read_only = if at.read_only { " read-only" } else { "" };
            format!("mounted{read_only} {}", mount_point::place(at))
        }
        (State::Mounted, None) => {
            let members: Vec<_> = status.members.iter().filter_map(|member| member.path.as_ref()).collect();
            let is_it = |mount: &FuseMount| members.iter().any(|path| mount.source == Path::new(path));
            let mounts = fuse_mounts().unwrap_or_default();
            let at = mounts.iter().rfind(|mount| is_it(mount));
            let at = at.map(|mount| format!(" on {}", text::quoted(mount.dir.as_os_str().as_bytes())));
            format!("mounted{} by another user", at.unwrap_or_default())
        }
        (State::Open, _) => "in use by a process that writes it".into(),
        (State::NotUnmounted, _) => {
            "was not unmounted: its log is replayed by the next mount, or by fsck -p".into()
        }
    }
}

/// Prints a set and its members.
pub fn show(out: &mut Output, status: &Status) -> Result<()> {
    let mut row = |name: &str, value: String| out.row(name, &value);
    row("set", status.set_id.clone())?;
    row("state", state(status))?;
    let opened = match status.opened {
        0 => "never opened to write".into(),
        nanos => {
            let time = Timestamp::new(nanos.div_euclid(1_000_000_000), 0);
            {
                let times = text::counted(status.epoch - 1, "time");
                format!("opened to write or changed {times}, last at {time}")
            }
        }
    };
    row("use", opened)?;
    let checksums = if status.checksums { "; data blocks with checksums" } else { "" };
    row("blocks", format!("{} bytes in control storage{checksums}", status.block_bytes))?;
    if let Some(storage) = &status.storage {
        let StorageUse { headers, name_blocks, log_bytes, .. } = storage;
        let share = |of: &Share| format!("{} used, {} free", of.used, of.free);
        row("headers", format!("{} (cylinders: {})", share(headers), storage.header_cylinders))?;
        row("names", format!("{} blocks (cylinders: {})", share(name_blocks), storage.name_cylinders))?;
        let each = status.headers / status.cylinders.max(1);
        row("unused", format!("cylinders: {}, for {each} headers each", storage.unused_cylinders))?;
        let bytes =
            |share: &Share| format!("{} used, {} free", number::bytes(share.used), number::bytes(share.free));
        row("log", bytes(log_bytes))?;
    }
    for class in &status.classes {
        if class.read_only {
            let bytes = number::bytes(class.bytes);
            row(
                "data",
                format!("class {}: {bytes}, read-only; blocks of {} bytes", class.name, class.block_bytes),
            )?;
            continue;
        }
        let share = match &class.share {
            Some(Share { used, free }) => {
                format!("{} used, {} free", number::bytes(*used), number::bytes(*free))
            }
            None => number::bytes(class.bytes),
        };
        row(
            "data",
            format!(
                "class {}: {share}; blocks of {} bytes, striped by {} in tracks of {}",
                class.name,
                class.block_bytes,
                number::bytes(class.stripe_bytes.into()),
                number::bytes(class.track_bytes),
            ),
        )?;
    }
    for member in &status.members {
        let path = member.path.clone().unwrap_or_else(|| {
            let last =
                member.last_path.as_ref().map(|path| format!(", last at {}", text::quoted(path.as_bytes())));
            format!("(member {}{})", member.member_id, last.unwrap_or_default())
        });
        for area in &member.areas {
            let state = match area.state {
                AreaState::Whole => "",
                AreaState::Lost => ", LOST",
                AreaState::Unfinished => ", NOT FINISHED",
                AreaState::Missing => ", MISSING",
                AreaState::OutOfDate => ", OUT OF DATE",
                AreaState::TooShort => ", TOO SHORT",
            };
            let place = match area.role.as_str() {
                "read-only" => String::new(),
                "control" => format!("copy {}", area.copy),
                _ if area.copy > 0 => format!("{}, copy {}", area.index, area.copy),
                _ => area.index.to_string(),
            };
            let class = area.class.as_ref().filter(|_| status.classes.len() > 1);
            let class = class.map_or_else(String::new, |name| format!(" ({name})"));
            let what = format!("{} {place}{class}", area.role).replace("  ", " ");
            out.line(format!("  {what:<16} {:>9}  {path}{state}", number::bytes(area.bytes)))?;
        }
    }
    show_unfinished(out, status)?;
    if status.stale {
        out.line(
            "  how much is used is shown as it was written last; root and the user of the mount see what is now",
        )?;
    }
    if let Some(reason) = &status.unreadable {
        out.line(format!("  cannot be read: {reason}"))?;
    }
    if status.unequal {
        out.line(
            "  copies may differ after a crash, in what was never synced; spindle mfs scrub makes them equal",
        )?;
    }
    Ok(())
}

/// Says of each new copy that is not finished what finishes and what drops it.
fn show_unfinished(out: &mut Output, status: &Status) -> Result<()> {
    let is_whole = |member: &&MemberStatus| member.areas.iter().all(|area| area.state == AreaState::Whole);
    let member = status.members.iter().filter(is_whole).find_map(|member| member.path.as_ref());
    let Some(member) = member.map(|path| text::quoted(path.as_bytes())) else { return Ok(()) };
    for new in &status.members {
        let path = new.path.as_ref().or(new.last_path.as_ref()).map(|path| text::quoted(path.as_bytes()));
        let name = path.clone().unwrap_or_else(|| new.member_id.clone());
        for area in new.areas.iter().filter(|area| area.state == AreaState::Unfinished) {
            let AreaStatus { role, index, .. } = area;
            out.line(format!(
                "  {name} is no copy of {role} storage {index} yet: the change that began it goes on, was \
                 interrupted or has failed"
            ))?;
            let storage = if role == "control" { role.clone() } else { format!("{role}:{index}") };
            if let Some(path) = &path {
                out.line(format!(
                    "    to finish it, give the same command again, or spindle mfs add {member} {storage} {path}"
                ))?;
            }
            out.line(format!("    to drop it, spindle mfs remove {member} {name}"))?;
        }
    }
    Ok(())
}
