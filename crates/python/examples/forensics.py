"""List all files of an image with their hashes, and recover what was deleted.

    python forensics.py disk.img@s1a
    python forensics.py --save recovered disk.img

Damaged images are read as far as possible: zeros stand in place of what cannot be read, and the
losses are listed at the end.
"""

from __future__ import annotations

import argparse
import hashlib
import stat
import sys
import warnings
from pathlib import Path

import spindle_fs


def hash_of(node: spindle_fs.Node) -> str:
    """Return the SHA-256 of a regular file."""
    found = hashlib.sha256()
    with node.open(past_damage=True) as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.hexdigest()


def list_files(image: spindle_fs.Image) -> None:
    """Print a line for each file."""
    for node in image.walk():
        attributes = node.stat()
        content = "-"
        if node.is_file():
            content = hash_of(node)
        elif node.is_symlink():
            content = "-> " + node.readlink()
        mode = stat.filemode(attributes.st_mode)
        # A name may have bytes that are no text.
        path = node.path.encode("utf-8", "backslashreplace").decode()
        print(mode, attributes.st_size, attributes.st_mtime_ns, path, content, sep="\t")


def recover(image: spindle_fs.Image, save: Path) -> None:
    """Save what is left of deleted files, and say how sure each is."""
    save.mkdir(parents=True, exist_ok=True)
    with image.deleted() as deleted:
        for name in deleted.names:
            print("deleted", name.path, f"inode {name.ino}, now {name.inode_now}", sep="\t")
        for inode in deleted.inodes:
            with open(save / f"inode-{inode.ino}", "wb") as file:
                for offset, piece in inode.pieces():
                    file.seek(offset)
                    file.write(piece)
                if inode.size is not None:
                    file.truncate(inode.size)
            sure = "whole" if inode.is_whole else "in part"
            print("recovered", file.name, sure, sep="\t")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--save", type=Path, help="a directory for what was deleted")
    parser.add_argument("image")
    arguments = parser.parse_args()
    # The losses are listed together.
    warnings.simplefilter("ignore", spindle_fs.LossWarning)
    with spindle_fs.open(arguments.image) as image:
        list_files(image)
        if arguments.save is not None:
            recover(image, arguments.save)
        for loss in image.losses:
            print(f"lost: {loss}", file=sys.stderr)
        return 1 if image.losses else 0


if __name__ == "__main__":
    sys.exit(main())
