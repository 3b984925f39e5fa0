"""BSD and old UNIX file systems in image files and on devices, without root and without a mount.

UFS1 and UFS2 of FreeBSD, NetBSD, OpenBSD and Solaris, 4.2BSD to 4.4BSD, V7, 32V, 4.1BSD and System
V: opened, read (also past damage), made, filled and checked. ::

    import spindle_fs

    with spindle_fs.open("disk.img@s1a") as image:
        for node in image.walk("/etc"):
            print(node.path, node.stat().st_size)
        print(image.read_bytes("/etc/passwd").decode())

Names of the library's logger: ``logging.getLogger("spindle_fs")``.
"""

from ._file import RawFile
from ._image import Image, Node, info, open
from ._look import (
    CheckReport,
    Deleted,
    DeletedInode,
    DeletedName,
    Finding,
    Partition,
    Remains,
    check,
    partitions,
)
from ._make import Parameters, import_tree, newfs
from ._stat import Extent, Objection, Space, Stat
from .errors import (
    BusyError,
    CorruptError,
    Error,
    InternalError,
    LossWarning,
    MisfitError,
    UnsupportedError,
)

__all__ = [
    "BusyError",
    "CheckReport",
    "CorruptError",
    "Deleted",
    "DeletedInode",
    "DeletedName",
    "Error",
    "Extent",
    "Finding",
    "Image",
    "InternalError",
    "LossWarning",
    "MisfitError",
    "Node",
    "Objection",
    "Parameters",
    "Partition",
    "RawFile",
    "Remains",
    "Space",
    "Stat",
    "UnsupportedError",
    "check",
    "import_tree",
    "info",
    "newfs",
    "open",
    "partitions",
]
