"""Paths and names: text for people, bytes in the image."""

from __future__ import annotations

import os
from typing import Union

#: A path in an image, absolute or from its root. Names in images are bytes; as text, bytes that are
#: not UTF-8 are kept by surrogates, as ``os.fsdecode`` does.
PathInImage = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

#: The name of an image: a path, ``disk.img@s1a`` for a partition, ``disk.img@offset=32256``.
ImageName = Union[str, "os.PathLike[str]"]


def encode(path: PathInImage) -> bytes:
    """Return the bytes of a path or name in an image."""
    plain = os.fspath(path)
    return plain if isinstance(plain, bytes) else plain.encode("utf-8", "surrogateescape")


def decode(path: bytes) -> str:
    """Return a path or name in an image as text."""
    return path.decode("utf-8", "surrogateescape")


def join(directory: bytes, name: bytes) -> bytes:
    """Return the path of a name in a directory."""
    return directory.rstrip(b"/") + b"/" + name


def image_name(image: ImageName) -> str:
    """Return the name of an image."""
    return os.fspath(image)
