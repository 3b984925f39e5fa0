# Requests of io_uring from Python, one at a time: the structures are those of <linux/io_uring.h>.
import ctypes
import mmap
import os
import struct

libc = ctypes.CDLL(None, use_errno=True)
SETUP, ENTER = 425, 426
SQPOLL, IOPOLL_WAKE, GETEVENTS = 2, 2, 1
SKIP = 1 << 6
READV, WRITEV, FSYNC, OPENAT, CLOSE, STATX, READ, WRITE, FTRUNCATE = 1, 2, 3, 18, 19, 21, 22, 23, 55


class Ring:
    def __init__(self, flags=0):
        params = bytearray(120)
        struct.pack_into("5I", params, 0, 0, 0, flags, 0, 1000)
        self.fd = libc.syscall(SETUP, 8, (ctypes.c_char * 120).from_buffer(params))
        assert self.fd >= 0, os.strerror(ctypes.get_errno())
        sq, cq = struct.unpack_from("7I", params, 40), struct.unpack_from("7I", params, 80)
        self.tail, self.mask, self.array = sq[1], sq[2], sq[6]
        self.heads, self.done, self.done_mask, self.results = cq[0], cq[1], cq[2], cq[5]
        size = max(self.array + 8 * 4, self.results + 16 * 16)
        self.ring = mmap.mmap(self.fd, size, flags=mmap.MAP_SHARED | 0x8000)
        self.requests = mmap.mmap(self.fd, 8 * 64, flags=mmap.MAP_SHARED | 0x8000, offset=0x10000000)
        self.flags = flags

    def word(self, at):
        return struct.unpack_from("I", self.ring, at)[0]

    def __call__(self, code, fd, offset=0, address=0, length=0, flags=0, how=0):
        """Returns the result of one request; None if it does not say one."""
        tail = self.word(self.tail)
        slot = tail & self.word(self.mask)
        request = struct.pack("BBHiQQIIQQQQ", code, how, 0, fd, offset % 2**64, address, length, flags, 0, 0, 0, 0)
        self.requests[slot * 64 : slot * 64 + 64] = request
        struct.pack_into("I", self.ring, self.array + slot * 4, slot)
        struct.pack_into("I", self.ring, self.tail, tail + 1)
        wait = 0 if how & SKIP else 1
        enter = GETEVENTS | (IOPOLL_WAKE if self.flags & SQPOLL else 0)
        assert libc.syscall(ENTER, self.fd, 1, wait, enter, 0, 0) >= 0, os.strerror(ctypes.get_errno())
        if not wait:
            return None
        head = self.word(self.heads)
        at = self.results + (head & self.word(self.done_mask)) * 16
        result = struct.unpack_from("i", self.ring, at + 8)[0]
        struct.pack_into("I", self.ring, self.heads, head + 1)
        return result

    def open(self, name, flags):
        name = ctypes.create_string_buffer(name.encode())
        return self(OPENAT, -100, address=ctypes.addressof(name), length=0o644, flags=flags)

    def read(self, fd, length, offset=-1):
        bytes = ctypes.create_string_buffer(length)
        return self(READ, fd, offset, ctypes.addressof(bytes), length)

    def write(self, fd, length, offset=-1, flags=0, how=0):
        bytes = ctypes.create_string_buffer(length)
        return self(WRITE, fd, offset, ctypes.addressof(bytes), length, flags, how)

    def stat(self, name):
        name, found = ctypes.create_string_buffer(name.encode()), ctypes.create_string_buffer(256)
        return self(STATX, -100, ctypes.addressof(found), ctypes.addressof(name), 0x7FF)
