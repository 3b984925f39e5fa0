//! What the table of areas of a label must be, so that a set can be put together from it.

use super::label::{AREAS_FROM, Area, Role, last_label_at};

/// Returns true if no area overlaps another one of its member, the labels, or the list of members.
pub(super) fn is_apart(areas: &[Area], own: [u8; 16], own_bytes: u64) -> bool {
    let mut ends: Vec<_> =
        areas.iter().map(|a| (a.member_id, a.offset, a.offset.checked_add(a.len))).collect();
    ends.sort_unstable();
    let is_inside = |&(member, offset, end): &([u8; 16], u64, Option<u64>)| {
        offset >= AREAS_FROM && end.is_some_and(|end| member != own || end <= last_label_at(own_bytes))
    };
    let follows =
        |pair: &[([u8; 16], u64, Option<u64>)]| pair[0].0 != pair[1].0 || pair[0].2 <= Some(pair[1].1);
    ends.iter().all(is_inside) && ends.windows(2).all(follows)
}

/// Returns true if the parts of each role, and the copies of each part, are numbered from 0, and
/// the copies of a part are equally long.
pub(super) fn is_complete(areas: &[Area]) -> bool {
    Role::ALL.iter().all(|role| {
        let mut places: Vec<_> =
            areas.iter().filter(|a| a.role == *role).map(|a| (a.index, a.copy, a.len)).collect();
        places.sort_unstable();
        let follows = |pair: &[(u32, u32, u64)]| {
            let ((index, copy, len), next) = (pair[0], pair[1]);
            next == (index, copy.saturating_add(1), len) || (next.0, next.1) == (index.saturating_add(1), 0)
        };
        places.first().is_some_and(|first| (first.0, first.1) == (0, 0)) && places.windows(2).all(follows)
    })
}

/// Returns true if every class of data has a part, no other area has a class, and the copies of a
/// part have the same one.
pub(crate) fn has_classes(areas: &[Area], count: usize) -> bool {
    let data = |area: &&Area| area.role == Role::Data;
    let class_of = |index| areas.iter().filter(data).find(|area| area.index == index).map(|a| a.class);
    let has_part = |class| areas.iter().filter(data).any(|area| usize::from(area.class) == class);
    (0..count).all(has_part)
        && areas.iter().all(|area| match area.role {
            Role::Data => usize::from(area.class) < count && class_of(area.index) == Some(area.class),
            Role::Control | Role::Log => area.class == 0,
        })
}

#[cfg(test)]
mod tests {
    use super::super::checksum::seal;
    use super::super::class::{Class, Structure};
    use super::super::history::History;
    use super::super::label::{CHECKSUM, LABEL_BYTES, Label, Parameters};
    use super::super::read_only::{Fingerprint, ReadOnlyClass};
    use super::*;
    use spindle_vfs::Error;

    /// Returns a label with these areas, in MiB from byte 0: role, class and part.
    fn label(areas: &[(Role, u8, u32)]) -> Label {
        let area = |(n, &(role, class, index)): (u64, &(Role, u8, u32))| Area {
            role,
            class,
            index,
            copy: 0,
            member_id: [1; 16],
            offset: n << 20,
            len: 1 << 20,
            lost: false,
            filling: None,
        };
        let structure = Structure { block_bytes: 8192, track_blocks: 16, stripe_bytes: 4096 };
        let parameters = Parameters { checksums: true, ..Parameters::small() };
        Label {
            set_id: [9; 16],
            member_id: [1; 16],
            member_bytes: 64 << 20,
            epoch: 1,
            settled: 1,
            opened: 0,
            history: History::default(),
            unequal: false,
            unlogged: false,
            parameters,
            classes: vec![Class { name: "large".parse().unwrap(), structure }],
            read_only: Vec::new(),
            areas: (1..).zip(areas).map(area).collect(),
        }
    }

    /// Promise: a label with classes of data survives the disk; one with a class that has no part,
    /// or areas of classes that there are not, is damage; a set of version 1 is refused as such.
    #[test]
    fn classes_and_areas_agree() {
        use Role::{Control, Data, Log};
        let whole = label(&[(Control, 0, 0), (Data, 0, 0), (Data, 1, 1), (Log, 0, 0)]);
        assert_eq!(Label::decode(&whole.encode(), "label").unwrap(), Some(whole.clone()));
        for areas in [
            [(Control, 0, 0), (Data, 0, 0), (Data, 0, 1), (Log, 0, 0)],
            [(Control, 0, 0), (Data, 1, 0), (Data, 1, 1), (Log, 0, 0)],
            [(Control, 0, 0), (Data, 0, 0), (Data, 2, 1), (Log, 0, 0)],
            [(Control, 0, 0), (Data, 0, 0), (Data, 1, 1), (Log, 1, 0)],
        ] {
            let decoded = Label::decode(&label(&areas).encode(), "label");
            assert!(matches!(decoded, Err(Error::Corrupt { .. })), "{areas:?}");
        }
        let mut old = whole.encode();
        old[8] = 1;
        seal(&mut old, CHECKSUM);
        let refused = Label::decode(&old, "label").unwrap_err();
        assert!(refused.to_string().contains("a set of version 1"), "{refused}");
    }

    /// Promise: read-only classes survive the disk, also one that was detached; a label with some
    /// is none that older versions read; what contradicts itself is damage.
    #[test]
    fn read_only_classes_are_stored() {
        use Role::{Control, Data, Log};
        let mut whole = label(&[(Control, 0, 0), (Data, 0, 0), (Data, 1, 1), (Log, 0, 0)]);
        let area = Fingerprint { samples: 0x1234_5678, whole: 0x9abc_def0, bytes: 1 << 20 };
        let class = |name: &str, area| ReadOnlyClass { name: name.parse().unwrap(), block_bytes: 2048, area };
        let last = Fingerprint { samples: 9, ..area };
        whole.read_only = vec![class("video", Some(area)), class("gone", None), class("old", Some(last))];
        let bytes = whole.encode();
        assert_eq!(bytes[8], 3);
        assert_eq!(Label::decode(&bytes, "label").unwrap(), Some(whole.clone()));
        // Area 4 is that of the class `video`, whose entry is the second one.
        let (area, entry) = (128 + 4 * 44, 3648 + 48);
        for (at, byte) in
            [(8, 2), (area + 1, 4), (area + 1, 9), (area + 2, 1), (area + 24, 1), (area + 33, 9)]
        {
            let mut damaged = bytes.clone();
            damaged[at] = byte;
            seal(&mut damaged, CHECKSUM);
            let decoded = Label::decode(&damaged, "label");
            assert!(matches!(decoded, Err(Error::Corrupt { .. })), "{at}: {decoded:?}");
        }
        for (at, byte) in [(entry, b'o'), (entry + 32, 1), (entry + 44, 0), (entry + 48 + 44, 0)] {
            let mut damaged = bytes.clone();
            let bytes = if at == entry { *b"large" } else { [byte, 0, 0, 0, 0] };
            damaged[at..at + 5].copy_from_slice(&bytes);
            seal(&mut damaged, CHECKSUM);
            let decoded = Label::decode(&damaged, "label");
            assert!(matches!(decoded, Err(Error::Corrupt { .. })), "{at}: {decoded:?}");
        }
        whole.read_only.clear();
        assert_eq!(whole.encode()[8], 2);
    }

    /// Promise: a label whose areas lie on each other, on a label or outside its member is refused.
    #[test]
    fn areas_that_overlap_are_refused() {
        let member_bytes = 4 << 20;
        let area = |role, offset, len| Area {
            role,
            class: 0,
            index: 0,
            copy: 0,
            member_id: [1; 16],
            offset,
            len,
            lost: false,
            filling: None,
        };
        let parameters = Parameters {
            block_bytes: 1024,
            cylinder_bytes: 16 << 10,
            data_block_bytes: 4096,
            track_blocks: 8,
            stripe_bytes: 4096,
            checksums: true,
            hash_key: [3; 16],
        };
        let decode = |control: u64, log_bytes: u64| {
            let areas = vec![
                area(Role::Control, control, 1 << 20),
                area(Role::Data, 2 << 20, 1 << 20),
                area(Role::Log, 3 << 20, log_bytes),
            ];
            let (set_id, member_id) = ([9; 16], [1; 16]);
            let (epoch, settled, opened) = (1, 1, 0);
            let (unequal, unlogged) = (false, false);
            let label = Label {
                set_id,
                member_id,
                member_bytes,
                epoch,
                settled,
                opened,
                history: History::default(),
                unequal,
                unlogged,
                parameters,
                classes: Vec::new(),
                read_only: Vec::new(),
                areas,
            };
            Label::decode(&label.encode(), "label").map(|found| assert_eq!(found, Some(label)))
        };
        let end = (1 << 20) - LABEL_BYTES as u64;
        decode(AREAS_FROM, end).unwrap();
        decode(1 << 20, end).unwrap();
        for (control, log_bytes) in
            [(0, end), (AREAS_FROM - 1, end), ((1 << 20) + 1, end), (1 << 20, end + 1)]
        {
            assert!(decode(control, log_bytes).is_err(), "{control} {log_bytes}");
        }
        assert!(decode(u64::MAX, end).is_err());
    }
}
