"""Lists an image of the old UNIX file system in the form that table.rs describes: oldunix.py FORMAT IMAGE.

FORMAT is as Spindle names them (v7-512-pdp, bsd-1024-le, sysv-2048-be). Written from the manual pages filsys(5) and dir(5)
for these tests, because no packaged program reads these formats; it shares nothing with Spindle. Besides listing, it accounts
for every block: each is in one file or in the free list.
"""

import hashlib
import sys

family, bsize, order = sys.argv[1].split("-")
bsize = int(bsize)
aligned = family in ("bsd", "sysv")
image = open(sys.argv[2], "rb").read()
claimed = set()


def short(at):
    return int.from_bytes(image[at : at + 2], "big" if order == "be" else "little")


def long(at):
    if order == "pdp":
        return short(at) << 16 | short(at + 2)
    return int.from_bytes(image[at : at + 4], "big" if order == "be" else "little")


def signed(n):
    return n - (1 << 32) if n >> 31 else n


def address(at):
    a, b, c = image[at : at + 3]
    return {"le": c << 16 | b << 8 | a, "be": a << 16 | b << 8 | c, "pdp": a << 16 | c << 8 | b}[order]


def claim(block):
    assert isize <= block < fsize, f"block {block} is outside the data"
    assert block not in claimed, f"block {block} is used twice"
    claimed.add(block)
    return block * bsize


superblock = 512 if family.startswith("sysv") else bsize
isize = short(superblock)
fsize = long(superblock + (4 if aligned else 2))


def blocks(ino):
    """The places of a file's blocks in the image, None for those that are missing."""

    def behind(block, levels):
        span = (bsize // 4) ** levels
        if block == 0:
            return [None] * span
        at = claim(block)
        if levels == 0:
            return [at]
        return [place for n in range(bsize // 4) for place in behind(long(at + 4 * n), levels - 1)]

    at = inode(ino)
    count = -(-long(at + 8) // bsize)
    places = []
    for n in range(13):
        if n < 10 or len(places) < count or address(at + 12 + 3 * n):
            places += behind(address(at + 12 + 3 * n), max(0, n - 9))
    assert not any(places[count:]), f"inode {ino} holds blocks beyond its size"
    return places[:count]


def inode(ino):
    return 2 * bsize + 64 * (ino - 1)


contents = {}


def content(ino):
    if ino not in contents:
        data = b"".join(bytes(bsize) if at is None else image[at : at + bsize] for at in blocks(ino))
        contents[ino] = data[: long(inode(ino) + 8)]
    return contents[ino]


def escape(raw):
    return "".join(chr(b) if 0x20 < b < 0x7F and b != 0x5C else f"\\x{b:02x}" for b in raw)


def walk(ino, path):
    at = inode(ino)
    mode, nlink, uid, gid = (short(at + 2 * n) for n in range(4))
    size, mtime = long(at + 8), signed(long(at + 56))
    letter = {0o10: "-", 0o04: "d", 0o02: "c", 0o06: "b", 0o01: "p"}[mode >> 12]
    device = digest = "-"
    if letter in "bc":
        number = address(at + 12)
        device = f"{number >> 8},{number & 255}"
    if letter == "-":
        digest = hashlib.sha256(content(ino)).hexdigest()
    fields = [letter, f"{mode & 0o7777:04o}", uid, gid, size, nlink, f"{mtime}.000000000", device, digest]
    print(*fields, escape(path) or ".", sep="\t")
    if letter == "d":
        names = content(ino)
        for n in range(0, len(names), 16):
            child = int.from_bytes(names[n : n + 2], "big" if order == "be" else "little")
            name = names[n + 2 : n + 16].rstrip(b"\0")
            if child and name not in (b".", b".."):
                walk(child, path + b"/" + name if path else name)


print("type", "mode", "uid", "gid", "size", "nlink", "mtime", "rdev", "sha256", "path", sep="\t")
walk(2, b"")

count, first = superblock + (8 if aligned else 6), superblock + (12 if aligned else 8)
while short(count):
    free = [long(first + 4 * n) for n in range(short(count))]
    places = [claim(block) for block in free if block]
    if free[0] == 0:
        break
    count, first = places[0], places[0] + (4 if aligned else 2)
assert len(claimed) == fsize - isize, f"{fsize - isize - len(claimed)} blocks are nowhere"
