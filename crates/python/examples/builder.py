"""Make an image from a directory: the same directory gives the same image, to the byte.

    SOURCE_DATE_EPOCH=1700000000 python builder.py root/ disk.img
    SOURCE_DATE_EPOCH=1700000000 python builder.py --version 1.2.3 root/ disk.img

Without --version it is the image of ``spindle import --uid 0 --gid 0 root/ disk.img``; with it, a
file that is made here is added.
"""

from __future__ import annotations

import argparse
import os
import sys

import spindle_fs


def build(tree: str, image: str, version: str | None) -> None:
    """Make the image."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    added = 0 if version is None else 1 << 16
    spindle_fs.import_tree(tree, image, uid=0, gid=0, free_bytes=added)
    if version is None:
        return
    timestamp = None if epoch is None else int(epoch)
    with spindle_fs.open(image, writable=True, timestamp=timestamp) as opened:
        opened.mkdir("/etc", parents=True, exist_ok=True)
        opened.write_bytes("/etc/version", f"{version}\n".encode())
        opened.symlink("etc/version", "/version")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version")
    parser.add_argument("tree")
    parser.add_argument("image")
    arguments = parser.parse_args()
    try:
        build(arguments.tree, arguments.image, arguments.version)
    except spindle_fs.MisfitError as error:
        for path, why in error.misfits:
            print(f"{path}: {why}", file=sys.stderr)
        return 1
    report = spindle_fs.check(arguments.image)
    for finding in report.findings:
        print(f"{finding.severity}: {finding.message}", file=sys.stderr)
    return 0 if report.clean else 1


if __name__ == "__main__":
    sys.exit(main())
