"""What all tests of the Python module use."""

from __future__ import annotations

import logging
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

import spindle_fs

#: The command line of the same sources.
SPINDLE = os.environ.get("SPINDLE", "spindle")

#: The examples, which the tests run.
EXAMPLES = Path(__file__).parent.parent / "examples"

MIB = 1 << 20

# What is said of damaged images is not looked at here.
logging.getLogger("spindle_fs").setLevel(logging.CRITICAL)


def spindle(*words: str, **variables: str) -> str:
    """Run the command line, and return what it prints."""
    done = subprocess.run(
        [SPINDLE, *words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
        timeout=120,
    )
    return done.stdout


class Case(unittest.TestCase):
    """A test with a directory of its own."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def place(self, name: str = "disk.img") -> str:
        """Return the path of a file in the directory."""
        return str(self.directory / name)

    def newfs(self, name: str = "disk.img", size: int = 16 * MIB, **parameters: Any) -> str:
        """Make a file system, and return its path."""
        spindle_fs.newfs(
            self.place(name), size, spindle_fs.Parameters(**parameters), timestamp=1_000_000_000
        )
        return self.place(name)

    def tree(self) -> Path:
        """Make a directory with files of all kinds that an unprivileged user can make."""
        root = self.directory / "tree"
        (root / "bin").mkdir(parents=True)
        (root / "etc").mkdir()
        (root / "bin/tool").write_bytes(bytes(range(256)) * 300)
        (root / "etc/motd").write_text("welcome\n")
        os.symlink("../etc/motd", root / "bin/link")
        os.link(root / "etc/motd", root / "etc/motd.2")
        with open(root / "sparse", "wb") as file:
            file.seek(3 * MIB)
            file.write(b"end")
        for directory, _, files in os.walk(root):
            for name in files:
                times = (10**18, 1_234_567_890_123_456_789)
                os.utime(Path(directory, name), ns=times, follow_symlinks=False)
            os.utime(directory, ns=(10**18, 10**18))
        return root
