"""Lists a UFS image as dissect.ffs reads it, in the form that table.rs describes."""

import hashlib
import os
import stat
import sys

from dissect.ffs import FFS

CONTENT_LIMIT_BYTES = 256 << 20
LETTERS = {0o10: "-", 0o04: "d", 0o12: "l", 0o02: "c", 0o06: "b", 0o01: "p", 0o14: "s"}


def escape(text):
    raw = os.fsencode(text)
    return "".join(chr(b) if 0x20 < b < 0x7F and b != 0x5C else f"\\x{b:02x}" for b in raw)


def digest(node):
    hasher = hashlib.sha256()
    left = node.size
    stream = node.open()
    while left > 0:
        data = stream.read(min(left, 1 << 20))
        if not data:
            raise EOFError(f"inode {node.inum} ends {left} bytes early")
        hasher.update(data)
        left -= len(data)
    return hasher.hexdigest()


def walk(node, path, seen):
    inode = node.inode
    letter = LETTERS[inode.di_mode >> 12]
    content = target = "-"
    if letter == "-" and node.size <= CONTENT_LIMIT_BYTES:
        content = seen.get(node.inum) or seen.setdefault(node.inum, digest(node))
    if letter == "l":
        target = escape(node.link)
    seconds, nanos = divmod(node.mtime_ns, 10**9)
    print(
        letter,
        f"{stat.S_IMODE(inode.di_mode):04o}",
        inode.di_uid,
        inode.di_gid,
        node.size,
        inode.di_nlink,
        f"{seconds}.{nanos:09}",
        content,
        escape(path) or ".",
        target,
        sep="\t",
    )
    if letter == "d":
        for child in node.iterdir():
            if child.inum != 0 and child.name not in (".", ".."):
                walk(child, f"{path}/{child.name}" if path else child.name, seen)


print("type", "mode", "uid", "gid", "size", "nlink", "mtime", "sha256", "path", "target", sep="\t")
with open(sys.argv[1], "rb") as image:
    walk(FFS(image).root, "", {})
