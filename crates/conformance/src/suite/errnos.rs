//! Error numbers, by which refusals are compared.

use spindle_vfs::Result;

/// Returns the error number, or 0 for success.
#[must_use]
pub fn errno<T>(result: &Result<T>) -> i32 {
    result.as_ref().err().map_or(0, spindle_vfs::Error::errno)
}

pub(crate) const EPERM: i32 = 1;
pub(crate) const ENOENT: i32 = 2;
pub(crate) const ENXIO: i32 = 6;
pub(crate) const EBUSY: i32 = 16;
pub(crate) const EEXIST: i32 = 17;
pub(crate) const ENOTDIR: i32 = 20;
pub(crate) const EISDIR: i32 = 21;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const EFBIG: i32 = 27;
pub(crate) const ENOSPC: i32 = 28;
pub(crate) const EROFS: i32 = 30;
pub(crate) const EMLINK: i32 = 31;
pub(crate) const ERANGE: i32 = 34;
pub(crate) const ENAMETOOLONG: i32 = 36;
pub(crate) const ENOTEMPTY: i32 = 39;
pub(crate) const ENODATA: i32 = 61;
pub(crate) const EOVERFLOW: i32 = 75;
pub(crate) const ENOTSUP: i32 = 95;
pub(crate) const ESTALE: i32 = 116;
