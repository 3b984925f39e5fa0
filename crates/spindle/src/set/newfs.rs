//! Making a set.

use super::find::is_same;
use crate::error::{Context, Error, Result};
use crate::newfs::{Created, clock, open_new, rng, size_of};
use spindle_device::{Device, MemoryDevice, Spec};
use spindle_mfs::newfs::{Member, NewArea, Wishes, make};
use spindle_mfs::{Role, Set};
use std::sync::Arc;

/// A member of a new set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMember {
    /// Where it is.
    pub spec: Spec,
    /// The size of a new file in bytes.
    pub size: Option<u64>,
    /// What it gets.
    pub areas: Vec<NewArea>,
}

/// Settings of [`newfs`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Overwrite what is there.
    pub force: bool,
    /// Write nothing: the set is made in memory.
    pub dry_run: bool,
    /// The time of all timestamps, and the seed of random numbers.
    pub timestamp: Option<i64>,
}

/// Parses the members of one role, in the order of their parts. Each has the form `PATH` or
/// `PATH+PATH`, whose files are copies of one part. A path may end in `:SIZE`, by which a missing
/// file is made; `parse_size` reads it. A device that occurs already, under whatever name, gets one
/// more area. `class` is that of data, 0 for the default one; its parts come after those that are
/// in `members`.
///
/// # Errors
/// If a path is empty or cannot be parsed.
pub fn parse_members(
    members: &mut Vec<NewMember>,
    (role, class): (Role, u8),
    words: &[String],
    parse_size: impl Fn(&str) -> Option<u64>,
) -> Result<()> {
    let known = members.iter().flat_map(|member| &member.areas).filter(|area| area.role == role);
    let first = known.filter_map(|area| area.part).max().map_or(0, |last| last + 1);
    for (part, word) in (first..).zip(words) {
        let part = if role == Role::Control { 0 } else { part };
        for name in word.split('+') {
            let (path, size) = match name.rsplit_once(':') {
                Some((path, size)) if std::fs::symlink_metadata(name).is_err() => match parse_size(size) {
                    Some(bytes) => (path, Some(bytes)),
                    None => (name, None),
                },
                _ => (name, None),
            };
            if path.is_empty() {
                return Err(Error::new(format!("{word:?}: a member without a name")));
            }
            let spec = Spec::parse(path)?;
            let area = NewArea { class, part: Some(part), ..NewArea::of(role) };
            match members.iter_mut().find(|member| is_same(&member.spec, &spec)) {
                Some(member) if member.areas.iter().any(|a| (a.role, a.part) == (role, area.part)) => {
                    let other = member.spec.to_string();
                    let as_what =
                        if other == path { String::new() } else { format!(" ({other} is the same)") };
                    return Err(Error::new(format!("{path}: named twice for {role} storage{as_what}")));
                }
                Some(member) => {
                    member.areas.push(area);
                    member.size = member.size.or(size);
                }
                None => members.push(NewMember { spec, size, areas: vec![area] }),
            }
        }
    }
    Ok(())
}

/// Makes a set over `members`, each wrapped by `wrap`. Files that are missing are created.
///
/// # Errors
/// If a member cannot be used or has something already, a parameter is wrong, or a device fails;
/// files that were made are removed again.
pub fn newfs(
    members: &[NewMember],
    wishes: &Wishes,
    settings: Settings,
    wrap: impl Fn(Arc<dyn Device>) -> Arc<dyn Device>,
) -> Result<Set> {
    let mut created: Vec<Created> = Vec::new();
    let made = open_all(members, settings, &mut created).and_then(|devices| {
        let of = |(member, device): (&NewMember, Arc<dyn Device>)| Member {
            device: wrap(device),
            areas: member.areas.clone(),
        };
        let members: Vec<_> = members.iter().zip(devices).map(of).collect();
        Ok(make(&members, wishes, &*clock(settings.timestamp), &mut rng(settings.timestamp))?)
    });
    made.inspect_err(|_| created.iter().for_each(Created::undo))
}

fn open_all(
    members: &[NewMember],
    settings: Settings,
    created: &mut Vec<Created>,
) -> Result<Vec<Arc<dyn Device>>> {
    let mut devices: Vec<Arc<dyn Device>> = Vec::new();
    for NewMember { spec, size, .. } in members {
        if settings.dry_run {
            let size = size.map_or_else(|| size_of(spec), Ok)?;
            devices.push(Arc::new(MemoryDevice::new(size / 512 * 512)));
            continue;
        }
        // The list of members has paths that lead to them from anywhere.
        let path = std::path::absolute(&spec.path).context(spec)?;
        let spec = Spec { path: path.canonicalize().unwrap_or(path), ..spec.clone() };
        let (device, made) = open_new(&spec, *size, settings.force)?;
        devices.push(device);
        created.push(made);
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(control: &[&str], data: &[&str]) -> Result<Vec<NewMember>> {
        let mut members = Vec::new();
        let size = |text: &str| text.parse().ok();
        for (role, words) in [(Role::Control, control), (Role::Data, data)] {
            let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
            parse_members(&mut members, (role, 0), &words, size)?;
        }
        Ok(members)
    }

    /// Promise: files joined by + are copies of one part, a file can have several roles, and a size
    /// belongs to the path before it.
    #[test]
    fn members_are_parsed() {
        let members = parse(&["a:4096", "b"], &["a", "c+d:512", "x:y"]).unwrap();
        let found: Vec<_> = members
            .iter()
            .map(|m| {
                let areas: Vec<_> = m.areas.iter().map(|a| (a.role, a.part.unwrap())).collect();
                (m.spec.to_string(), m.size, areas)
            })
            .collect();
        let expected = [
            ("a", Some(4096), vec![(Role::Control, 0), (Role::Data, 0)]),
            ("b", None, vec![(Role::Control, 0)]),
            ("c", None, vec![(Role::Data, 1)]),
            ("d", Some(512), vec![(Role::Data, 1)]),
            ("x:y", None, vec![(Role::Data, 2)]),
        ];
        assert_eq!(found, expected.map(|(name, size, areas)| (name.to_owned(), size, areas)));
        let mut members = members;
        parse_members(&mut members, (Role::Data, 1), &["a".into(), "z".into()], |_| None).unwrap();
        let second: Vec<_> =
            members.iter().flat_map(|m| &m.areas).filter(|a| a.class == 1).map(|a| a.part).collect();
        assert_eq!(second, [Some(3), Some(4)], "parts are numbered through all classes");
        assert!(parse(&["a", "a"], &[]).unwrap_err().to_string().contains("named twice"));
        assert!(parse(&["a+"], &[]).is_err());
    }

    /// Promise: a file is one member under all its names: twice in one role it is refused as named
    /// twice, with the other name, and in two roles it gets two areas. So is one that is not there
    /// yet.
    #[test]
    fn a_member_has_several_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(path("c"), [0; 512]).unwrap();
        std::fs::hard_link(path("c"), path("hard")).unwrap();
        std::os::unix::fs::symlink("c", path("symbolic")).unwrap();
        std::fs::write(path("other"), [0; 512]).unwrap();
        let c = path("c");
        for name in ["hard", "symbolic", "./c"] {
            let error = parse(&[&c, &path(name)], &[]).unwrap_err().to_string();
            assert!(error.contains(&format!("named twice for control storage ({c} is the same)")), "{error}");
            assert_eq!(parse(&[&c], &[&path(name)]).unwrap()[0].areas.len(), 2, "{name}");
        }
        let error = parse(&[&path("new"), &path("./new")], &[]).unwrap_err().to_string();
        assert!(error.contains("named twice"), "{error}");
        assert_eq!(parse(&[&c, &path("other")], &[]).unwrap().len(), 2);
    }
}
