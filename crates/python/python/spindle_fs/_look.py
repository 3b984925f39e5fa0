"""Looking at disks without opening a file system: partitions, checks, what was deleted."""

from __future__ import annotations

import dataclasses
import json
from types import TracebackType
from typing import Any, Dict, Iterator, List, Optional, Tuple, Type

from . import _native
from ._paths import ImageName, decode, image_name
from ._stat import kind_of


@dataclasses.dataclass(frozen=True)
class Partition:
    """A partition of a disk."""

    #: Its name for ``spindle_fs.open``, behind the name of the disk and an ``@``.
    name: str
    #: The label that defines it: ``MBR``, ``GPT``, ``BSD disklabel``, …
    scheme: str
    #: First byte on the disk.
    start: int
    #: Bytes.
    size: int
    #: Content according to the label.
    kind: str
    #: The name that its creator gave it.
    label: Optional[str]
    #: Why it cannot be opened.
    problem: Optional[str]
    #: The file system that is there: ``UFS2``, …; None if it is none of ours.
    file_system: Optional[str]
    #: Why the file system that is there cannot be used.
    damage: Optional[str]


def partitions(image: ImageName) -> List[Partition]:
    """Return the partitions of a disk, those of a slice behind it; none of a bare file system."""
    table = json.loads(_native.partitions(image_name(image)))
    return [Partition(**one) for one in table["partitions"]]


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that a check has found."""

    #: The problem and its place.
    message: str
    #: ``note``, ``harmless`` (damage whose repair loses nothing) or ``damage``.
    severity: str
    #: ``setup``, ``inodes``, ``names``, ``connectivity``, ``links``, ``groups`` or ``free_list``.
    phase: str
    #: The path where it is, if one leads there.
    path: Optional[str]
    #: What ``spindle fsck -y`` does about it, if that is known.
    repair: Optional[str]
    #: What may be lost by that.
    lost: Optional[str]
    #: The fields of the finding, as ``spindle fsck --json`` has them.
    details: Dict[str, Any]


@dataclasses.dataclass(frozen=True)
class CheckReport:
    """The result of a check."""

    #: True if there is no damage; notes do not count.
    clean: bool
    findings: List[Finding]
    #: Findings beyond the limit, which are not listed.
    unlisted: int
    #: All damage, listed or not.
    damages: int
    #: The damage whose repair may lose something.
    serious: int
    #: True if the file system says of itself that it is clean.
    marked_clean: bool
    #: What the log did to the check.
    log: Optional[str]
    #: The contents, as the check has counted them.
    usage: Dict[str, Any]


def check(
    image: ImageName,
    *,
    superblock: Optional[int] = None,
    format: Optional[str] = None,
    limit: int = 10_000,
) -> CheckReport:
    """Check a file system in all phases of the classic checker; change nothing.

    A log that is to be replayed is replayed in memory. Damage is not an exception, but a finding.
    An image that another program is writing is refused. ``superblock`` names a copy of the
    superblock of a UFS, ``format`` the format of an old file system that is not recognised.
    """
    text = _native.check(image_name(image), superblock=superblock, format=format, limit=limit)
    report = json.loads(text)
    findings = []
    for found in report["findings"]:
        remedy = found.pop("remedy", None) or {}
        findings.append(
            Finding(
                message=found.pop("message"),
                severity=found.pop("severity"),
                phase=found.pop("phase"),
                path=found.pop("path"),
                repair=remedy.get("repair"),
                lost=remedy.get("lost"),
                details=found,
            )
        )
    names = ("clean", "unlisted", "damages", "serious", "marked_clean", "log", "usage")
    return CheckReport(findings=findings, **{name: report[name] for name in names})


@dataclasses.dataclass(frozen=True)
class DeletedName:
    """A name that was removed from a directory, and whose bytes are still there."""

    name: str
    #: Path of the directory, if it has one.
    directory: Optional[str]
    #: Inode of the directory.
    directory_ino: int
    #: Byte of the entry in the directory.
    offset: int
    #: The inode that it named; None if that was cleared.
    ino: Optional[int]
    #: What that inode is now: ``unknown``, ``cleared``, ``deleted`` (free, with pointers),
    #: ``in_use``, or ``used_again`` (by a file of another kind).
    inode_now: str

    @property
    def path(self) -> str:
        """The path that it had, with the number of the directory if that has none now."""
        directory = f"<{self.directory_ino}>" if self.directory is None else self.directory
        return f"{directory.rstrip('/')}/{self.name}"


@dataclasses.dataclass(frozen=True)
class Remains:
    """What is left of the data of a deleted inode, in bytes."""

    #: In free blocks that no other deleted inode claims.
    free: int
    #: In free blocks that others claim as well: one at the most is right.
    shared: int
    #: In blocks that are in use again; they are not read.
    used_again: int
    #: Number of indirect blocks that are lost, with what they led to.
    lost_indirect_blocks: int
    #: Number of pointers to where no block of a file can be.
    bad_pointers: int


class DeletedInode:
    """An inode that is free, and still has pointers to its blocks."""

    __slots__ = (
        "_native", "_index", "ino", "mode", "uid", "gid", "size", "mtime_ns", "ctime_ns", "remains",
        "is_whole",
    )

    def __init__(self, native: _native.Deleted, index: int, values: Tuple[Any, ...]) -> None:
        self._native = native
        self._index = index
        ino, mode, uid, gid, size, times, remains, whole = values
        #: Its number.
        self.ino: int = ino
        #: Kind and permissions; 0 if that was cleared.
        self.mode: int = mode
        self.uid: int = uid
        self.gid: int = gid
        #: Bytes; None if that was cleared.
        self.size: Optional[int] = size
        #: When its data was changed.
        self.mtime_ns: int = times[0]
        #: When it was changed, perhaps by the deletion.
        self.ctime_ns: int = times[1]
        unit = native.fragment_size
        #: What is left of it.
        self.remains = Remains(*(frags * unit for frags in remains[:3]), *remains[3:])
        #: True if all of it is in free blocks that nothing else claims.
        self.is_whole: bool = whole

    def __repr__(self) -> str:
        return f"<spindle_fs.DeletedInode {self.ino}, {self.size} bytes, whole: {self.is_whole}>"

    @property
    def kind(self) -> str:
        """What it was: ``file``, ``directory``, …; ``unknown`` if that was cleared."""
        return kind_of(self.mode)

    def pieces(self) -> Iterator[Tuple[int, bytes]]:
        """Yield the bytes that stand in free blocks, each with where in the file they stood.

        What is in between is in use again, cannot be read, or was a hole.
        """
        start = 0
        while True:
            found, _ = self._native.read(self._index, start, 1 << 22)
            yield from found
            if not found:
                return
            start = found[-1][0] + len(found[-1][1])

    def read_bytes(self) -> bytes:
        """Return the content, with zeros where nothing is left.

        A damaged inode may claim a size that no memory holds: ``pieces`` is for those.
        """
        content = bytearray()
        for offset, data in self.pieces():
            if offset > len(content):
                content.extend(bytes(offset - len(content)))
            content[offset : offset + len(data)] = data
        if self.size is not None and self.size > len(content):
            content.extend(bytes(self.size - len(content)))
        return bytes(content)


class Deleted:
    """What was deleted in a UFS and is still there; it keeps the image open until ``close``."""

    def __init__(self, native: _native.Deleted) -> None:
        self._native = native
        #: Names whose bytes are still in directories.
        self.names: List[DeletedName] = [
            DeletedName(
                name=decode(name),
                directory=None if path is None else decode(path),
                directory_ino=directory,
                offset=offset,
                ino=ino or None,
                inode_now=now,
            )
            for directory, path, offset, name, ino, now in native.names()
        ]
        #: Inodes that are free and have pointers.
        self.inodes: List[DeletedInode] = [
            DeletedInode(native, index, values) for index, values in enumerate(native.inodes())
        ]
        #: Inodes in use that have no name by their own count.
        self.unlinked: List[int] = native.unlinked()
        #: Groups whose map cannot be read: nothing is known of them.
        self.unreadable_groups: int = native.unreadable_groups()

    def names_of(self, inode: DeletedInode) -> List[DeletedName]:
        """Return the old names that speak of an inode; they may be older than it."""
        return [name for name in self.names if name.ino == inode.ino]

    def close(self) -> None:
        """Give up the image; the contents of inodes cannot be read any more."""
        self._native.close()

    def __enter__(self) -> Deleted:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


def find_deleted(
    image: ImageName, *, superblock: Optional[int] = None, dialect: Optional[str] = None
) -> Deleted:
    """Find what was deleted in a UFS; see ``Image.deleted``."""
    native = _native.deleted(image_name(image), superblock=superblock, dialect=dialect)
    return Deleted(native)
