"""NetBSD's log (WAPBL), written and carried out the way its kernel does it (sys/kern/vfs_wapbl.c, sys/sys/wapbl_replay.h).

Shares nothing with Spindle: it is the other side of the test.

    wapbl.py replay IMAGE AT BYTES ORDER          carry out the log of IMAGE; prints the inodes on its list with their modes
    wapbl.py write IMAGE AT BYTES ORDER < PLAN    write a log with the transactions of PLAN

ORDER is < or >, the byte order of the machine. A plan has a line for each thing that a transaction does, `block DADDR HEX`,
`revoke DADDR BYTES` or `inode NUMBER MODE`, and `commit` at its end; addresses count blocks of 512 bytes.
"""

import struct
import sys

DEV_BSIZE = 512
HEADER, INODES, REVOCATIONS, BLOCKS = 0x5741424C, 0x5741424D, 0x5741424E, 0x5741424F
HEADER_FORMAT = "IiII2iQIIIIqqqq"


class Log:
    """The log of an image: where it is, and the shape of its ring."""

    def __init__(self, image, at, size, order):
        self.file, self.at, self.order = open(image, "r+b"), at, order
        self.circ_off = 2 * DEV_BSIZE
        self.circ_size = (size - self.circ_off) // DEV_BSIZE * DEV_BSIZE

    def pread(self, at, size):
        self.file.seek(at)
        return self.file.read(size)

    def pwrite(self, at, data):
        self.file.seek(at)
        self.file.write(data)

    def circ_read(self, size, off):
        off = max(off, self.circ_off)
        first = min(size, self.circ_off + self.circ_size - off)
        data = self.pread(self.at + off, first)
        return data + self.pread(self.at + self.circ_off, size - first)

    def circ_write(self, data, off):
        off = max(off, self.circ_off)
        first = min(len(data), self.circ_off + self.circ_size - off)
        self.pwrite(self.at + off, data[:first])
        self.pwrite(self.at + self.circ_off, data[first:])
        return self.advance(len(data), off)

    def advance(self, size, off):
        off = max(off, self.circ_off)
        left = self.circ_off + self.circ_size - off
        if left < size:
            size -= left
            off = self.circ_off
        off += size
        return self.circ_off if off >= self.circ_off + self.circ_size else off

    def unpack(self, form, data):
        return struct.unpack_from(self.order + form, data)


def replay(log):
    """What wapbl_replay_start, wapbl_replay_write and the end of the replay do."""
    headers = [log.unpack(HEADER_FORMAT, log.pread(log.at + n * DEV_BSIZE, DEV_BSIZE)) for n in (0, 1)]
    if headers[0][0] != HEADER:
        sys.exit("no log")
    header = headers[1] if headers[1][3] > headers[0][3] else headers[0]
    log_shift, fs_shift, head, tail, log.circ_off, log.circ_size = header[9:15]
    if (log_shift, fs_shift) != (9, 9):
        sys.exit(f"shifts {log_shift}, {fs_shift}")
    found, inodes, off = {}, [], tail
    while off != head:
        start = off
        record = log.circ_read(DEV_BSIZE, off)
        off = log.advance(DEV_BSIZE, off)
        kind, size, count, word = log.unpack("IiiI", record)
        if kind in (BLOCKS, REVOCATIONS):
            for n in range(count):
                daddr, _, dlen = struct.unpack_from(log.order + "qii", record, 16 + n * 16)
                for block in range(daddr, daddr + dlen // DEV_BSIZE):
                    if kind == REVOCATIONS:
                        found.pop(block, None)
                    else:
                        found[block] = off
                        off = log.advance(DEV_BSIZE, off)
        elif kind == INODES:
            inodes = [] if word else inodes
            inodes += [struct.unpack_from(log.order + "II", record, 16 + n * 8) for n in range(count)]
        else:
            sys.exit(f"unrecognized type {kind:#x}")
        if off != log.advance(size, start):
            sys.exit("corrupted records")
    for block, place in found.items():
        log.pwrite(block * DEV_BSIZE, log.circ_read(DEV_BSIZE, place))
    for number, mode in inodes:
        print(number, mode)


def write(log, plan):
    """What wapbl_start and a wapbl_flush for each transaction write; the tail stays, as if nothing had gone home."""
    generation = 0

    def commit(head, tail):
        nonlocal generation
        while True:
            fields = (HEADER, DEV_BSIZE, 0, generation, 0, 0, 0, 0, 1, 9, 9, head, tail, log.circ_off, log.circ_size)
            header = struct.pack(log.order + HEADER_FORMAT, *fields).ljust(DEV_BSIZE, b"\0")
            log.pwrite(log.at + generation % 2 * DEV_BSIZE, header)
            generation += 1
            if generation != 1:
                return

    def lists(kind, entries, most):
        for n in range(0, max(len(entries), 1) if kind == INODES else len(entries), most):
            some = entries[n : n + most]
            yield some, struct.pack(log.order + "III", kind, DEV_BSIZE, len(some)), n == 0

    commit(0, 0)
    # Not far from the end of the ring, so that it is gone around.
    head = tail = log.circ_off + log.circ_size - 3 * DEV_BSIZE
    blocks, revoked, inodes = [], [], []
    for line in plan:
        what, *words = line.split()
        if what == "block":
            blocks.append((int(words[0]), bytes.fromhex(words[1])))
        elif what == "revoke":
            revoked.append((int(words[0]), int(words[1])))
        elif what == "inode":
            inodes.append((int(words[0]), int(words[1])))
        if what != "commit":
            continue
        for some, _, _ in lists(BLOCKS, blocks, 31):
            size = DEV_BSIZE + sum(len(data) for _, data in some)
            record = struct.pack(log.order + "IIII", BLOCKS, size, len(some), 0)
            record += b"".join(struct.pack(log.order + "qii", daddr, 0, len(data)) for daddr, data in some)
            head = log.circ_write(record.ljust(DEV_BSIZE, b"\0"), head)
            for _, data in some:
                head = log.circ_write(data, head)
        for some, start, _ in lists(REVOCATIONS, revoked, 31):
            record = start + bytes(4) + b"".join(struct.pack(log.order + "qii", daddr, 0, size) for daddr, size in some)
            head = log.circ_write(record.ljust(DEV_BSIZE, b"\0"), head)
        for some, start, first in lists(INODES, inodes, 62):
            record = start + struct.pack(log.order + "I", first)
            record += b"".join(struct.pack(log.order + "II", *entry) for entry in some)
            head = log.circ_write(record.ljust(DEV_BSIZE, b"\0"), head)
        commit(head, tail)
        blocks, revoked, inodes = [], [], []


def main():
    what, image, at, size, order = sys.argv[1:]
    log = Log(image, int(at), int(size), order)
    replay(log) if what == "replay" else write(log, sys.stdin)
    log.file.close()


main()
