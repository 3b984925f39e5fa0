"""What is known of a file."""

from __future__ import annotations

import dataclasses
import os
import stat
from typing import Optional, Tuple

_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFBLK: "block device",
    stat.S_IFCHR: "character device",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
}


def kind_of(mode: int) -> str:
    """Return the kind of file that a mode says."""
    return _KINDS.get(stat.S_IFMT(mode), "unknown")


@dataclasses.dataclass(frozen=True)
class Stat:
    """The attributes of a file, with the names of ``os.stat_result`` on a BSD.

    Times are in nanoseconds since 1970; damaged images can have any.
    """

    #: Kind and permissions: for ``stat.S_ISDIR``, ``stat.filemode`` and others.
    st_mode: int
    st_ino: int
    st_nlink: int
    st_uid: int
    st_gid: int
    #: Bytes.
    st_size: int
    st_atime_ns: int
    st_mtime_ns: int
    st_ctime_ns: int
    #: None if the format does not store it.
    st_birthtime_ns: Optional[int]
    #: Allocated space in units of 512 bytes.
    st_blocks: int
    st_blksize: int
    #: The flags of ``chflags``: ``stat.UF_IMMUTABLE`` and others.
    st_flags: int
    #: The generation; number and generation name one file for the life of the file system.
    st_gen: int
    #: Major and minor number of a device node, independent of any encoding.
    device: Tuple[int, int]

    @property
    def st_rdev(self) -> int:
        """The number of a device node as this system encodes it."""
        return os.makedev(*self.device)

    @property
    def kind(self) -> str:
        """``file``, ``directory``, ``symlink``, ``block device``, …"""
        return kind_of(self.st_mode)

    @property
    def st_atime(self) -> float:
        """The time of the last read in seconds."""
        return self.st_atime_ns / 1e9

    @property
    def st_mtime(self) -> float:
        """The time of the last change of the data in seconds."""
        return self.st_mtime_ns / 1e9

    @property
    def st_ctime(self) -> float:
        """The time of the last change of the inode in seconds."""
        return self.st_ctime_ns / 1e9


@dataclasses.dataclass(frozen=True)
class Extent:
    """A run of bytes of a file that are contiguous on the device, or a hole."""

    #: First byte in the file.
    offset: int
    #: Bytes.
    length: int
    #: First byte in ``Image.filename``; None for a hole.
    device_offset: Optional[int]

    @property
    def is_hole(self) -> bool:
        """True if nothing is stored."""
        return self.device_offset is None


@dataclasses.dataclass(frozen=True)
class Space:
    """Space and inodes of a file system, with the names of ``os.statvfs_result``."""

    f_bsize: int
    #: The unit of the counts of blocks in bytes.
    f_frsize: int
    f_blocks: int
    f_bfree: int
    #: Free units for users other than root.
    f_bavail: int
    f_files: int
    f_ffree: int
    f_namemax: int


@dataclasses.dataclass(frozen=True)
class Objection:
    """A reason not to write to a file system."""

    reason: str
    #: What you can do about it.
    remedy: str
    #: True if ``force`` overrides it.
    overridable: bool
