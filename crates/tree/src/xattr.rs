//! Names of extended attributes: which name spaces there are.
//!
//! Above the seam a name carries its name space as a prefix, `user.` or `system.`; on disk the name
//! space is a number, everywhere that of UFS2 (`sys/ufs/ufs/extattr.h`).

/// The name spaces with their prefixes.
const SPACES: [(u8, &[u8]); 2] = [(1, b"user."), (2, b"system.")];

/// The names by which Linux asks for access control lists, in an encoding of its own. Kept as they
/// come they would control nothing, and `cp -a` would leave out the permission bits that it
/// believes to be in them.
const LINUX_ACL: &[u8] = b"system.posix_acl_";

/// Returns the prefix of a name space, if there is one with this number.
#[must_use]
pub fn prefix(space: u8) -> Option<&'static [u8]> {
    SPACES.iter().find(|&&(known, _)| known == space).map(|&(_, prefix)| prefix)
}

/// Splits a name into its name space and the rest.
#[must_use]
pub fn split(name: &[u8]) -> Option<(u8, &[u8])> {
    if name.starts_with(LINUX_ACL) {
        return None;
    }
    SPACES.iter().find_map(|&(space, prefix)| name.strip_prefix(prefix).map(|rest| (space, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: names of the two name spaces are distinguished, and what Linux would take for an
    /// access control list is nobody's.
    #[test]
    fn names_have_a_space() {
        assert_eq!(split(b"user.x"), Some((1, &b"x"[..])));
        assert_eq!(split(b"system.posix1e.acl_access"), Some((2, &b"posix1e.acl_access"[..])));
        assert_eq!(split(b"system.posix_acl_access"), None);
        assert_eq!(split(b"trusted.x"), None);
    }
}
