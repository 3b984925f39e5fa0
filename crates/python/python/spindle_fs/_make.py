"""Making file systems, and filling them with trees."""

from __future__ import annotations

import dataclasses
import os
import warnings
from typing import List, Optional, Tuple, Union

from . import _native
from ._paths import ImageName, image_name
from .errors import LossWarning

#: A path of this machine.
LocalPath = Union[str, "os.PathLike[str]"]


@dataclasses.dataclass(frozen=True)
class Parameters:
    """The parameters of a new file system: those of ``spindle newfs``. None is its default."""

    #: ``ffs``, or an old file system: ``v7``, ``32v``, ``bsd``, ``sysv``, ``sysv16``, with block
    #: size and byte order if they are not the usual ones (``sysv-2048-be``). An old file system has
    #: no other parameters than a label of six bytes and the owner of its root.
    kind: str = "ffs"
    #: 2 for UFS2, 1 for UFS1, 0 for UFS1 with the inodes and directories of 4.3BSD.
    format: int = 2
    #: ``freebsd``, ``netbsd``, ``openbsd``, ``sun``, ``sunx86``, ``43bsd``, ``44bsd`` or ``apple``.
    dialect: Optional[str] = None
    #: ``little`` or ``big``.
    endian: Optional[str] = None
    block_size: Optional[int] = None
    fragment_size: Optional[int] = None
    #: Bytes of space for each inode.
    density: Optional[int] = None
    #: Space that only root may use, in percent.
    minfree: Optional[int] = None
    #: ``time`` or ``space``.
    optimization: Optional[str] = None
    #: Name of the volume: letters, digits, ``-`` and ``_``.
    label: Optional[str] = None
    sector_size: int = 512
    #: Use soft updates when BSD mounts it.
    soft_updates: bool = False
    #: Make the directory ``.snap`` (FreeBSD): ``newfs`` does, ``import_tree`` does not.
    snap_dir: Optional[bool] = None
    #: Protect structures with check-hashes (UFS2 of FreeBSD).
    check_hashes: bool = True
    #: Owner and group of the root directory: who runs the program. An import keeps those of the
    #: tree, unless they are given.
    root_owner: Optional[Tuple[int, int]] = None


@dataclasses.dataclass(frozen=True)
class _Importing:
    """How a tree is imported, as the native part wants it."""

    source: str
    uid: Optional[int]
    gid: Optional[int]
    timestamp: Optional[int]
    all_times: bool
    manifest: Optional[str]
    only_listed: bool
    user_db: Optional[str]


@dataclasses.dataclass(frozen=True)
class _Size:
    """How large a new image is, as the native part wants it."""

    bytes: Optional[int]
    free_bytes: int
    free_percent: int
    free_inodes: Optional[int]
    least: int
    most: Optional[int]
    multiple_of: int


def source_date_epoch() -> Optional[int]:
    """Return the time of reproducible builds in the environment, in seconds since 1970.

    It is an error if ``SOURCE_DATE_EPOCH`` is no number: an image that is not reproducible must not
    pass for one that is.
    """
    text = os.environ.get("SOURCE_DATE_EPOCH")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"SOURCE_DATE_EPOCH is {text}: give seconds since 1970")
    return int(text)


def importing(
    source: LocalPath,
    uid: Optional[int],
    gid: Optional[int],
    timestamp: Optional[int],
    *,
    manifest: Optional[LocalPath],
    only_listed: bool,
    user_db: Optional[LocalPath],
) -> _Importing:
    """Return how a tree is imported; the time may be that of the environment."""
    return _Importing(
        source=os.fspath(source),
        uid=uid,
        gid=gid,
        timestamp=source_date_epoch() if timestamp is None else timestamp,
        all_times=timestamp is not None,
        manifest=None if manifest is None else os.fspath(manifest),
        only_listed=only_listed,
        user_db=None if user_db is None else os.fspath(user_db),
    )


def newfs(
    image: ImageName,
    size: Optional[int] = None,
    parameters: Parameters = Parameters(),
    *,
    timestamp: Optional[int] = None,
    force: bool = False,
    log: bool = False,
    log_size: Optional[int] = None,
) -> None:
    """Make a file system of ``size`` bytes in a new file, or in an existing file or device.

    Without a size it is as large as what is there. What has a file system or a partition table is
    refused without ``force``. With ``log`` it has a log from the beginning, of ``log_size`` bytes
    if they are given; otherwise the first mount that writes creates one. ``timestamp`` is the time
    of the file system in seconds since 1970 and the seed of its random numbers (default: that of
    ``SOURCE_DATE_EPOCH``, if it is set): the same parameters give the same image.
    """
    _native.newfs(
        image_name(image),
        size,
        parameters,
        timestamp=source_date_epoch() if timestamp is None else timestamp,
        force=force,
        log=log,
        log_size=log_size,
    )


def import_tree(
    source: LocalPath,
    image: ImageName,
    *,
    size: Optional[int] = None,
    parameters: Parameters = Parameters(),
    uid: Optional[int] = None,
    gid: Optional[int] = None,
    timestamp: Optional[int] = None,
    manifest: Optional[LocalPath] = None,
    only_listed: bool = False,
    user_db: Optional[LocalPath] = None,
    free_bytes: int = 0,
    free_percent: int = 0,
    free_inodes: Optional[int] = None,
    min_size: int = 0,
    max_size: Optional[int] = None,
    multiple_of: int = 1,
    force: bool = False,
) -> List[Tuple[str, str]]:
    """Make a new image with the contents of a directory or a tar file, as ``spindle import`` does.

    Without a size it is the smallest one that holds everything and has its reserve free, with
    ``free_bytes``, ``free_percent`` and ``free_inodes`` beyond that, of at least ``min_size`` and
    at most ``max_size`` bytes, in a ``multiple_of`` so many. It is tried out in memory first: what
    the format cannot store is a ``MisfitError`` before anything is written.

    ``uid`` and ``gid`` become the owner of everything. With ``timestamp`` all times are that
    second, and the same tree gives the same image to the byte; so it is with ``SOURCE_DATE_EPOCH``
    in the environment, which replaces only the times that are later. ``manifest`` is a file of
    mtree(5) with the attributes of what it lists; with ``only_listed`` there is nothing else;
    ``user_db`` is the directory with the ``passwd`` and ``group`` of its names.

    Return what was left out or changed on the way, each path and why; each is also a
    ``LossWarning``. For a tree in an image that exists, see ``Image.import_tree``.
    """
    failures = _native.import_new(
        image_name(image),
        importing(
            source, uid, gid, timestamp, manifest=manifest, only_listed=only_listed, user_db=user_db
        ),
        _Size(size, free_bytes, free_percent, free_inodes, min_size, max_size, multiple_of),
        parameters,
        force,
    )
    for path, why in failures:
        warnings.warn(f"{path}: {why}", LossWarning, 2)
    return failures
