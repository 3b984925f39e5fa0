"""What goes wrong: the exceptions and the warning of this package.

Everything that fails in a file system is an ``OSError``. Where the system has an error number it is
there, so a missing file is a ``FileNotFoundError`` and a full image has ``errno.ENOSPC``.
"""

from __future__ import annotations

from typing import List, Optional, Tuple

__all__ = [
    "BusyError",
    "CorruptError",
    "Error",
    "InternalError",
    "LossWarning",
    "MisfitError",
    "UnsupportedError",
]


class Error(OSError):
    """A failure that the system has no class for. ``errno`` may be None."""


class CorruptError(Error):
    """The image contradicts itself or its format; ``errno`` is EUCLEAN."""


class BusyError(Error):
    """Another program uses the image in a way that excludes this one; ``errno`` is EBUSY."""


class UnsupportedError(Error):
    """Something that cannot be done, or is not safe; ``remedy`` is what you can do about it."""

    remedy: str

    def __init__(self, errno: int, text: str, remedy: str) -> None:
        super().__init__(errno, text)
        self.remedy = remedy

    def __reduce__(self) -> Tuple[object, ...]:
        return type(self), (self.errno, self.strerror, self.remedy)


class MisfitError(UnsupportedError):
    """Files do not fit into the format; nothing was written.

    ``misfits`` has the path of each, and why.
    """

    misfits: List[Tuple[str, str]]

    def __init__(
        self, errno: int, text: str, remedy: str, misfits: Optional[List[Tuple[str, str]]] = None
    ) -> None:
        super().__init__(errno, text, remedy)
        self.misfits = misfits or []

    def __reduce__(self) -> Tuple[object, ...]:
        return type(self), (self.errno, self.strerror, self.remedy, self.misfits)


class InternalError(RuntimeError):
    """An error in Spindle itself, whatever the image is. Please report it."""


class LossWarning(UserWarning):
    """Something could not be read or kept, and the work went on; see ``Image.losses``."""
