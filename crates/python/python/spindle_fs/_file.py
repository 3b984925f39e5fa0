"""Open files."""

from __future__ import annotations

import errno
import io
import os
from typing import TYPE_CHECKING, Callable, List, Optional, Tuple

from . import _native

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

#: Bytes in the buffer of a file.
BUFFER = 1 << 16


class RawFile(io.RawIOBase):
    """A regular file in an image, without a buffer: a raw file as ``io`` has them.

    Several threads may use ``read_at`` and ``write_at`` of one file at the same time. The others
    share its position.
    """

    def __init__(
        self,
        native: _native.File,
        path: str,
        access: Tuple[bool, bool, bool],
        past_damage: bool,
        lose: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._native = native
        self._readable, self._writable, self._append = access
        self._past_damage = past_damage
        self._lose = lose
        self._lost: Optional[Tuple[int, int, str]] = None
        self._position = native.size() if self._append else 0
        #: The path of the file in the image.
        self.name = path

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def readable(self) -> bool:
        """Return True if it is open for reading."""
        self._check()
        return self._readable

    def writable(self) -> bool:
        """Return True if it is open for writing."""
        self._check()
        return self._writable

    def seekable(self) -> bool:
        """Return True."""
        self._check()
        return True

    def read_at(self, offset: int, size: int) -> bytes:
        """Return at most ``size`` bytes at ``offset``, and none only at the end of the file."""
        self._check()
        if not self._readable:
            raise io.UnsupportedOperation("not readable")
        data, lost = self._native.read_at(offset, size, self._past_damage)
        if lost is not None:
            self._add_lost(*lost)
        return data

    def write_at(self, offset: int, data: ReadableBuffer) -> int:
        """Write at ``offset``, or at the end of a file that is open for appending.

        Return the number of bytes, which is less than asked for only if space runs out.
        """
        self._check()
        if not self._writable:
            raise io.UnsupportedOperation("not writable")
        return self._native.write_at(offset, bytes(data))

    def _add_lost(self, start: int, end: int, why: str) -> None:
        known = self._lost
        if known is not None and known[0] <= start <= known[1]:
            self._lost = (known[0], max(end, known[1]), known[2])
            return
        self._report_lost()
        self._lost = (start, end, why)

    def _report_lost(self) -> None:
        if self._lost is not None:
            start, end, why = self._lost
            self._lost = None
            what = f"{end - start} bytes at byte {start} cannot be read, zeros stand in their place"
            self._lose(f"{self.name}: {what}: {why}")

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read into a buffer, and return the number of bytes."""
        view = memoryview(buffer).cast("B")
        data = self.read_at(self._position, len(view))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def readall(self) -> bytes:
        """Return all bytes up to the end."""
        pieces: List[bytes] = []
        while True:
            data = self.read_at(self._position, 1 << 22)
            if not data:
                return b"".join(pieces)
            pieces.append(data)
            self._position += len(data)

    def write(self, data: ReadableBuffer) -> int:
        """Write, and return the number of bytes."""
        wrote = self.write_at(self._position, data)
        self._position = self._native.size() if self._append else self._position + wrote
        return wrote

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position; ``os.SEEK_DATA`` and ``os.SEEK_HOLE`` work as well."""
        self._check()
        if whence in (os.SEEK_DATA, os.SEEK_HOLE):
            found = self._native.seek_sparse(offset, whence == os.SEEK_DATA)
            if found is None:
                raise OSError(errno.ENXIO, "no data or hole at or after this offset")
            self._position = found
            return found
        if whence == os.SEEK_CUR:
            offset += self._position
        elif whence == os.SEEK_END:
            offset += self._native.size()
        elif whence != os.SEEK_SET:
            raise ValueError(f"invalid whence ({whence})")
        if offset < 0:
            raise OSError(errno.EINVAL, "negative seek position")
        self._position = offset
        return offset

    def tell(self) -> int:
        """Return the position."""
        self._check()
        return self._position

    def truncate(self, size: Optional[int] = None) -> int:
        """Set the size of the file: to the position, if none is given."""
        self._check()
        if not self._writable:
            raise io.UnsupportedOperation("not writable")
        size = self._position if size is None else size
        self._native.truncate(size)
        return size

    def sync(self) -> None:
        """Make what was written to it durable, as ``os.fsync`` does."""
        self._check()
        self._native.sync()

    def close(self) -> None:
        """Close it; what was lost while it was read is reported."""
        if not self.closed:
            try:
                super().close()
            finally:
                self._native.close()
            self._report_lost()
