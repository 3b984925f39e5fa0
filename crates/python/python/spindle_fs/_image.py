"""Open images, and the files in them."""

from __future__ import annotations

import io
import json
import os
import stat
import warnings
from types import TracebackType
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Tuple, Type, Union, cast

from . import _native
from ._file import BUFFER, RawFile
from ._look import Deleted, find_deleted
from ._make import _Importing, importing
from ._paths import ImageName, PathInImage, decode, encode, image_name, join
from ._stat import Extent, Objection, Space, Stat, kind_of
from .errors import LossWarning, UnsupportedError

_MODES = {
    # read, write, append, truncate
    "r": (True, False, False, False),
    "r+": (True, True, False, False),
    "w": (False, True, False, True),
    "w+": (True, True, False, True),
    "a": (False, True, True, False),
    "a+": (True, True, True, False),
    "x": (False, True, False, False),
    "x+": (True, True, False, False),
}


def _mode_of(mode: str) -> str:
    plain = mode.replace("b", "", 1)
    if "b" not in mode or plain not in _MODES:
        raise ValueError(f"mode is {mode!r}, and can be 'rb', 'r+b', 'wb', 'w+b', 'ab' or 'xb'")
    return plain


class Node:
    """A file of any kind in an image: the file itself, also if it is a symbolic link.

    It stays the same file when its name changes or goes. ``node / "name"`` is a file below a
    directory.
    """

    __slots__ = ("_image", "_native", "_path")

    def __init__(self, image: Image, native: _native.Node, path: bytes) -> None:
        self._image = image
        self._native = native
        self._path = path

    def __repr__(self) -> str:
        return f"<spindle_fs.Node {self.path!r} of {self._image.name!r}>"

    @property
    def image(self) -> Image:
        """The image that it is in."""
        return self._image

    @property
    def path(self) -> str:
        """Its path from the root when it was found."""
        return decode(self._path)

    @property
    def path_bytes(self) -> bytes:
        """The same, as the image has it."""
        return self._path

    @property
    def name(self) -> str:
        """The last name of its path; nothing for the root."""
        return decode(self._path.rstrip(b"/").rpartition(b"/")[2])

    @property
    def ino(self) -> int:
        """The number of its inode."""
        return self._native.ino

    def stat(self) -> Stat:
        """Return its attributes as they are now."""
        first, times, rest, device = self._native.stat()
        return Stat(*first, *times, *rest, device)

    @property
    def kind(self) -> str:
        """``file``, ``directory``, ``symlink``, ``block device``, …"""
        return self.stat().kind

    def is_file(self) -> bool:
        """Return True for a regular file."""
        return stat.S_ISREG(self.stat().st_mode)

    def is_dir(self) -> bool:
        """Return True for a directory."""
        return stat.S_ISDIR(self.stat().st_mode)

    def is_symlink(self) -> bool:
        """Return True for a symbolic link."""
        return stat.S_ISLNK(self.stat().st_mode)

    def __truediv__(self, path: PathInImage) -> Node:
        below = encode(path)
        native = self._native.resolve(below.lstrip(b"/"), False)
        return Node(self._image, native, join(self._path, below.strip(b"/")))

    def follow(self) -> Node:
        """Return the file that a symbolic link leads to; of other files, the same one."""
        if not self.is_symlink():
            return self
        return self._image.path(self._path, follow_symlinks=True)

    def iterdir(self) -> Iterator[Node]:
        """Yield the files in a directory, in the order of the bytes of their names.

        What cannot be read is left out, and is one of ``Image.losses``.
        """
        names, damage = self._native.names()
        if damage is not None:
            self._image._lose(f"{self.path}: {damage}")
        for name in names:
            path = join(self._path, name)
            try:
                found = self._native.child(name)
            except OSError as error:
                self._image._lose(f"{decode(path)}: {error.strerror or error}")
            else:
                yield Node(self._image, found, path)

    def walk(self) -> Iterator[Node]:
        """Yield everything below a directory, each directory before what is in it.

        It ends, whatever the image is: no directory is entered twice. What cannot be read is left
        out, and is one of ``Image.losses``. The file of the log of a UFS is left out, too: a copy
        of it would be of no use.
        """
        seen = {self.ino}
        levels = [self.iterdir()]
        while levels:
            node = next(levels[-1], None)
            if node is None:
                levels.pop()
                continue
            if node.ino == self._image._native.log:
                continue
            is_dir = node.is_dir()
            if is_dir and node.ino in seen:
                self._image._lose(f"{node.path}: a directory has two names (inode {node.ino})")
                continue
            yield node
            if is_dir:
                seen.add(node.ino)
                levels.append(node.iterdir())

    def open(
        self, mode: str = "rb", buffering: int = -1, *, past_damage: bool = False
    ) -> BinaryIO:
        """Open a regular file, or the one that a symbolic link leads to.

        With ``past_damage``, zeros stand in place of what cannot be read, and each range of them is
        one of ``Image.losses`` when the file is closed. With ``buffering=0`` the result is a
        ``RawFile``.
        """
        read, write, append, truncate = _MODES[_mode_of(mode)]
        file = self.follow()
        native = _native.File(file._native, read, write, append, truncate)
        image = self._image
        raw = RawFile(native, file.path, (read, write, append), past_damage, image._lose)
        if buffering == 0:
            return cast(BinaryIO, raw)
        size = buffering if buffering > 1 else BUFFER
        if read and write:
            return cast(BinaryIO, io.BufferedRandom(raw, size))
        if write:
            return cast(BinaryIO, io.BufferedWriter(raw, size))
        return cast(BinaryIO, io.BufferedReader(raw, size))

    def read_bytes(self, *, past_damage: bool = False) -> bytes:
        """Return the content of a regular file."""
        with self.open(buffering=0, past_damage=past_damage) as file:
            return file.read()

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the content of a regular file as text."""
        return self.read_bytes().decode(encoding, errors)

    def readlink(self) -> str:
        """Return the target of a symbolic link."""
        return decode(self._native.readlink())

    def extents(self) -> List[Extent]:
        """Return where the data of a regular file lies, in its order, with its holes.

        ``device_offset`` counts the bytes of ``Image.filename``.
        """
        found = self._native.extents()
        if found is None:
            remedy = "read the file itself"
            what = "the data of a set of devices does not lie on one of them as it is"
            raise UnsupportedError(95, f"{self.path}: {what}; {remedy}", remedy)
        start, end, extents = self._image._start, 0, []
        for offset, at, length in found:
            if offset > end:
                extents.append(Extent(end, offset - end, None))
            extents.append(Extent(offset, length, start + at))
            end = offset + length
        size = self.stat().st_size
        if size > end:
            extents.append(Extent(end, size - end, None))
        return extents

    def xattrs(self) -> Dict[str, bytes]:
        """Return the extended attributes; names begin with ``user.`` or ``system.``."""
        return {decode(name): self._native.xattr(name) for name in self._native.xattr_names()}

    def set_xattr(self, name: str, value: bytes) -> None:
        """Set an extended attribute."""
        self._native.set_xattr(encode(name), value)

    def remove_xattr(self, name: str) -> None:
        """Remove an extended attribute."""
        self._native.remove_xattr(encode(name))

    def chmod(self, mode: int) -> None:
        """Set the permissions."""
        self._native.set(perm=mode)

    def chown(self, uid: Optional[int] = None, gid: Optional[int] = None) -> None:
        """Set owner and group; None leaves one as it is."""
        self._native.set(uid=uid, gid=gid)

    def chflags(self, flags: int) -> None:
        """Set the file flags."""
        self._native.set(flags=flags)

    def utime(
        self,
        *,
        atime_ns: Optional[int] = None,
        mtime_ns: Optional[int] = None,
        birthtime_ns: Optional[int] = None,
    ) -> None:
        """Set times in nanoseconds since 1970; None leaves one as it is."""
        self._native.set(atime_ns=atime_ns, mtime_ns=mtime_ns, birthtime_ns=birthtime_ns)

    def truncate(self, size: int) -> None:
        """Set the size of a regular file."""
        self._native.set(size=size)


class Image:
    """An open file system. ``spindle_fs.open`` returns it.

    Use it in a ``with`` statement, or call ``close``: that writes everything and marks the file
    system clean. It may be used by several threads at the same time, but not by a process that was
    forked from this one.
    """

    def __init__(
        self, native: _native.Image, superblock: Optional[int], dialect: Optional[str]
    ) -> None:
        self._native = native
        self._superblock = superblock
        self._dialect = dialect
        self._losses: List[str] = []
        #: Its name, with the partition.
        self.name: str = native.name
        #: The file or block device that it is in.
        self.filename: str = native.place[0]
        self._start = native.place[1]
        #: ``UFS2``, ``UFS1``, ``v7-512-pdp``, ``sysv-1024-le``, ``mfs``, …
        self.kind: str = native.kind
        #: The system whose rules a UFS follows: ``FreeBSD``, ``NetBSD``, …; None for others.
        self.dialect: Optional[str] = native.dialect
        #: True if it was opened for writing.
        self.writable: bool = native.writable
        #: What opening it did with its log.
        self.notes: List[str] = native.notes
        #: Reasons not to write that ``force`` has overridden.
        self.objections: List[Objection] = [Objection(*one) for one in native.objections]

    def __repr__(self) -> str:
        state = "closed" if self.closed else "writable" if self.writable else "read-only"
        return f"<spindle_fs.Image {self.name!r}, {self.kind}, {state}>"

    def __enter__(self) -> Image:
        if self.closed:
            raise ValueError("the image is closed")
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __del__(self) -> None:
        native = getattr(self, "_native", None)
        if native is not None and not native.closed:
            warnings.warn(f"unclosed image {self.name!r}", ResourceWarning, 2, source=self)

    def close(self) -> None:
        """Write everything and mark the file system clean; do nothing if it is closed."""
        self._native.close()

    @property
    def closed(self) -> bool:
        """True after ``close``."""
        return self._native.closed

    @property
    def losses(self) -> List[str]:
        """What could not be read, and was passed over: damage of the image, as far as it was met.

        Each was also a ``LossWarning``, except damage that the file system passed over itself.
        """
        return self._losses + self._native.passed_over()

    def _lose(self, text: str) -> None:
        if text not in self._losses:
            self._losses.append(text)
            warnings.warn(f"{self.name}: {text}", LossWarning, 3)

    def info(self) -> Dict[str, Any]:
        """Return what the file system says of itself; see ``spindle_fs.info``."""
        if self.writable and not self.closed:
            self.sync()
        return info(self.name, superblock=self._superblock, dialect=self._dialect)

    def statvfs(self) -> Space:
        """Return space and inodes."""
        return Space(*self._native.statfs())

    def sync(self) -> None:
        """Make everything durable."""
        self._native.sync()

    def deleted(self) -> Deleted:
        """Find what was deleted and is still there, in a UFS that is open for reading.

        Nothing of it is certain: a block that is free now may have been used for something else
        since. ``Deleted`` says what is known.
        """
        if self.writable:
            remedy = "open it for reading"
            what = "an image that is open for writing is not searched for what was deleted"
            raise UnsupportedError(95, f"{self.name}: {what}; {remedy}", remedy)
        return find_deleted(self.name, superblock=self._superblock, dialect=self._dialect)

    @property
    def root(self) -> Node:
        """The root directory."""
        return self.path(b"/")

    def path(self, path: PathInImage, *, follow_symlinks: bool = False) -> Node:
        """Return the file at a path from the root.

        Symbolic links in the middle of the path are followed, within the image; one at its end only
        with ``follow_symlinks``.
        """
        bytes_ = encode(path)
        absolute = b"/" + bytes_.lstrip(b"/")
        return Node(self, self._native.resolve(bytes_, follow_symlinks), absolute)

    def exists(self, path: PathInImage) -> bool:
        """Return True if there is a file at a path, also a symbolic link that leads nowhere."""
        try:
            self.path(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def walk(self, top: PathInImage = "/") -> Iterator[Node]:
        """Yield everything below a directory; see ``Node.walk``."""
        return self.path(top, follow_symlinks=True).walk()

    def _parent(self, path: PathInImage) -> Tuple[_native.Node, bytes, bytes]:
        """Return the directory of the last name of a path, the name, and the whole path."""
        bytes_ = encode(path)
        directory, name = self._native.resolve_parent(bytes_)
        return directory, name, b"/" + bytes_.strip(b"/")

    def _create(
        self,
        path: PathInImage,
        mode: int,
        owner: Tuple[int, int],
        device: Tuple[int, int] = (0, 0),
        target: bytes = b"",
    ) -> Node:
        directory, name, whole = self._parent(path)
        native = directory.create(name, mode, owner[0], owner[1], device, target)
        return Node(self, native, whole)

    def open(
        self,
        path: PathInImage,
        mode: str = "rb",
        buffering: int = -1,
        *,
        perm: int = 0o644,
        uid: int = 0,
        gid: int = 0,
        past_damage: bool = False,
    ) -> BinaryIO:
        """Open a regular file as ``open`` does, always with bytes; see ``Node.open``.

        A file that is created gets these permissions, whatever the umask is, and this owner.
        """
        plain = _mode_of(mode)
        if plain[0] == "r":
            node = self.path(path, follow_symlinks=True)
        else:
            try:
                node = self._create(path, stat.S_IFREG | stat.S_IMODE(perm), (uid, gid))
            except FileExistsError:
                if plain[0] == "x":
                    raise
                node = self.path(path, follow_symlinks=True)
        return node.open(mode, buffering, past_damage=past_damage)

    def read_bytes(self, path: PathInImage, *, past_damage: bool = False) -> bytes:
        """Return the content of a regular file."""
        return self.path(path, follow_symlinks=True).read_bytes(past_damage=past_damage)

    def write_bytes(
        self,
        path: PathInImage,
        data: Union[bytes, bytearray, memoryview],
        *,
        perm: int = 0o644,
        uid: int = 0,
        gid: int = 0,
    ) -> Node:
        """Write a regular file; one that exists is replaced, and keeps its attributes."""
        with self.open(path, "wb", perm=perm, uid=uid, gid=gid) as file:
            file.write(data)
        return self.path(path, follow_symlinks=True)

    def mkdir(
        self,
        path: PathInImage,
        mode: int = 0o755,
        *,
        uid: int = 0,
        gid: int = 0,
        parents: bool = False,
        exist_ok: bool = False,
    ) -> Node:
        """Make a directory; with ``parents`` also those above it."""
        full = stat.S_IFDIR | stat.S_IMODE(mode)
        if parents:
            above, _, _ = encode(path).rstrip(b"/").rpartition(b"/")
            if above.strip(b"/"):
                self.mkdir(above, mode, uid=uid, gid=gid, parents=True, exist_ok=True)
        try:
            return self._create(path, full, (uid, gid))
        except FileExistsError:
            if not exist_ok:
                raise
            found = self.path(path, follow_symlinks=True)
            if not found.is_dir():
                raise
            return found

    def symlink(
        self, target: PathInImage, path: PathInImage, *, uid: int = 0, gid: int = 0
    ) -> Node:
        """Make a symbolic link to ``target`` at ``path``, as ``os.symlink`` does."""
        mode = stat.S_IFLNK | 0o777
        return self._create(path, mode, (uid, gid), target=encode(target))

    def link(self, existing: PathInImage, path: PathInImage) -> None:
        """Give an existing file another name, as ``os.link`` does."""
        directory, name, _ = self._parent(path)
        directory.link(self.path(existing)._native, name)

    def mknod(
        self,
        path: PathInImage,
        mode: int,
        device: Tuple[int, int] = (0, 0),
        *,
        uid: int = 0,
        gid: int = 0,
    ) -> Node:
        """Make a file of the kind that ``mode`` says: a device node, a fifo, a socket."""
        if kind_of(mode) == "unknown":
            raise ValueError(f"mode {mode:o} has no kind of file, such as stat.S_IFCHR")
        return self._create(path, mode, (uid, gid), device=device)

    def unlink(self, path: PathInImage, *, missing_ok: bool = False) -> None:
        """Remove a name of a file that is no directory."""
        try:
            directory, name, _ = self._parent(path)
            directory.unlink(name)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rmdir(self, path: PathInImage) -> None:
        """Remove an empty directory."""
        directory, name, _ = self._parent(path)
        directory.rmdir(name)

    def rmtree(self, path: PathInImage) -> None:
        """Remove a file, or a directory with everything below it."""
        node = self.path(path)
        if not node.is_dir():
            self.unlink(path)
            return
        # Directories come before what is in them, so the other way round they are empty.
        for below in reversed(list(node.walk())):
            if below.is_dir():
                self.rmdir(below.path_bytes)
            else:
                self.unlink(below.path_bytes)
        self.rmdir(path)

    def rename(self, path: PathInImage, new: PathInImage) -> None:
        """Give a file a new name, atomically; what has that name is replaced."""
        directory, name, _ = self._parent(path)
        to, new_name, _ = self._parent(new)
        directory.rename(name, to, new_name)

    def import_tree(
        self,
        source: Union[str, "os.PathLike[str]"],
        path: PathInImage = "/",
        *,
        uid: Optional[int] = None,
        gid: Optional[int] = None,
        timestamp: Optional[int] = None,
        manifest: Optional[Union[str, "os.PathLike[str]"]] = None,
        only_listed: bool = False,
        user_db: Optional[Union[str, "os.PathLike[str]"]] = None,
    ) -> List[Tuple[str, str]]:
        """Import a directory or a tar file into a directory, as ``spindle import`` does.

        See ``spindle_fs.import_tree``. ``timestamp`` is for files; directories and files that are
        changed on the way have the clock of the image (``spindle_fs.open``). Return what was left
        out: each path, and why.
        """
        how: _Importing = importing(
            source, uid, gid, timestamp, manifest=manifest, only_listed=only_listed, user_db=user_db
        )
        failures = _native.import_into(self._native, encode(path), how)
        for place, why in failures:
            self._lose(f"{place}: {why}")
        return failures


def open(
    image: ImageName,
    *,
    superblock: Optional[int] = None,
    dialect: Optional[str] = None,
    writable: bool = False,
    force: bool = False,
    lost: bool = False,
    timestamp: Optional[int] = None,
) -> Image:
    """Open the file system in an image, a block device or a partition.

    ``image`` is a path, ``disk.img@s1a`` for a partition, or ``disk.img@offset=32256``. If a whole
    disk is named and one partition has a file system, it is that one.

    ``superblock`` names the copy of the superblock of a UFS to read with: its sector of 512 bytes,
    or its byte; without it one is searched for if the superblock cannot be used. ``dialect`` is
    ``freebsd``, ``netbsd``, … or the format of an old file system (``v7``, ``sysv``, …), if that is
    in doubt. With ``lost`` the root directory has what no directory names any more.

    An image that is open for reading is not changed, not even its access times or its log. With
    ``writable`` the image is locked, and a file system that is not safe to write is refused
    (``UnsupportedError``); ``force`` overrides what can be overridden. ``timestamp`` is the second
    since 1970 at which the clock of the file system stands then, and the seed of its random
    numbers: the same changes give the same image.
    """
    native = _native.open(
        image_name(image),
        superblock=superblock,
        dialect=dialect,
        writable=writable,
        force=force,
        unnamed=lost,
        timestamp=timestamp,
    )
    return Image(native, superblock, dialect)


def info(
    image: ImageName, *, superblock: Optional[int] = None, dialect: Optional[str] = None
) -> Dict[str, Any]:
    """Return what a file system says of itself, also if it is mounted.

    The names are those of ``spindle info --json``: ``kind``, ``clean``, ``volume_name``,
    ``fs_bsize``, …; ``objections`` are the reasons not to write to it.
    """
    report = _native.info(image_name(image), superblock=superblock, dialect=dialect)
    found: Dict[str, Any] = json.loads(report)
    found["objections"] = [Objection(*one) for one in found.get("objections", [])]
    return found
