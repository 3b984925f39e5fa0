//! Names of extended attributes: which name spaces there are.
//!
//! Above the seam a name carries its name space as a prefix, `user.` or `system.`; on disk the name
//! space is a number, everywhere that of UFS2 (`sys/ufs/ufs/extattr.h`). Linux has two more that
//! only root may use; of these `trusted.` is a part of `system`, where the whole name stands.

/// The name spaces with their prefixes.
const SPACES: [(u8, &[u8]); 2] = [(1, b"user."), (2, b"system.")];

/// The names by which Linux asks for access control lists, in an encoding of its own. Kept as they
/// come they would control nothing, and `cp -a` would leave out the permission bits that it
/// believes to be in them.
const LINUX_ACL: &[u8] = b"system.posix_acl_";

/// Number of the name space `system`.
const SYSTEM: u8 = 2;
/// How names begin that stand in the name space `system` as they are.
const TRUSTED: &[u8] = b"trusted.";

/// Returns true if there is a name space with this number.
#[must_use]
pub fn is_space(space: u8) -> bool {
    SPACES.iter().any(|&(known, _)| known == space)
}

/// Returns the whole name of an attribute, if there is a name space with this number.
#[must_use]
pub fn join(space: u8, name: &[u8]) -> Option<Vec<u8>> {
    let &(_, prefix) = SPACES.iter().find(|&&(known, _)| known == space)?;
    let is_whole = space == SYSTEM && name.starts_with(TRUSTED);
    Some(if is_whole { name.to_vec() } else { [prefix, name].concat() })
}

/// Splits a name into its name space and the rest, of which [`join`] makes the name again: so
/// `system.trusted.x` is none.
#[must_use]
pub fn split(name: &[u8]) -> Option<(u8, &[u8])> {
    if name.starts_with(TRUSTED) {
        return (name != TRUSTED).then_some((SYSTEM, name));
    }
    if name.starts_with(LINUX_ACL) {
        return None;
    }
    let split = |&(space, prefix): &(u8, &[u8])| Some((space, name.strip_prefix(prefix)?));
    SPACES.iter().find_map(split).filter(|&(space, rest)| space != SYSTEM || !rest.starts_with(TRUSTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: names of the name spaces are distinguished, each has one place, and what Linux
    /// would take for an access control list is nobody's.
    #[test]
    fn names_have_a_space() {
        assert_eq!(split(b"user.x"), Some((1, &b"x"[..])));
        assert_eq!(split(b"system.posix1e.acl_access"), Some((2, &b"posix1e.acl_access"[..])));
        assert_eq!(split(b"system.posix_acl_access"), None);
        assert_eq!(split(b"trusted.x"), Some((2, &b"trusted.x"[..])));
        for name in [&b"trusted."[..], b"system.trusted.x", b"security.x", b"x"] {
            assert_eq!(split(name), None);
        }
        for name in [&b"user.x"[..], b"user.trusted.x", b"system.x", b"trusted.overlay.opaque"] {
            let (space, rest) = split(name).unwrap();
            assert_eq!(join(space, rest).unwrap(), name);
        }
        assert_eq!((join(3, b"x"), is_space(0), is_space(2)), (None, false, true));
    }
}
