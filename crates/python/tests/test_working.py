"""Building, importing, checking, recovering; damage, locks, signals, threads; the examples."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import unittest
import warnings
from pathlib import Path
from types import FrameType
from typing import Callable, Optional

import spindle_fs
from common import EXAMPLES, MIB, Case, spindle

EPOCH = "1700000000"


class Building(Case):
    def test_changes(self) -> None:
        """Promise: files are made, changed, renamed and removed as on a mount, refusals are the
        exceptions of `os`, and a check finds nothing afterwards.
        """
        name = self.newfs()
        with spindle_fs.open(name, writable=True) as image:
            image.mkdir("/a/b/c", parents=True)
            image.mkdir("/a/b", exist_ok=True)
            self.assertRaises(FileExistsError, image.mkdir, "/a")
            self.assertRaises(FileNotFoundError, image.mkdir, "/x/y")
            node = image.write_bytes("/a/file", b"one")
            self.assertRaises(NotADirectoryError, image.mkdir, "/a/file/b")
            self.assertRaises(IsADirectoryError, image.open, "/a", "r+b")
            with image.open("/a/file", "ab") as file:
                file.write(b"two")
            node.truncate(5)
            self.assertEqual(node.read_bytes(), b"onetw")
            image.rename("/a/file", "/a/b/file")
            image.unlink("/gone", missing_ok=True)
            with self.assertRaises(OSError) as raised:
                image.rmdir("/a")
            self.assertEqual(raised.exception.errno, 39)
            with self.assertRaises(OSError) as raised, image.open("/full", "wb", 0) as raw:
                for _ in range(20):
                    raw.write(bytes(MIB))
            self.assertEqual(raised.exception.errno, 28)
            image.rmtree("/a")
            self.assertFalse(image.exists("/a"))
        self.assertTrue(spindle_fs.check(name).clean)

    def test_import_is_that_of_the_command_line(self) -> None:
        """Promise: an imported tree gives the bytes of `spindle import`, of each format, by a time
        of its own or that of the environment.
        """
        tree = str(self.tree())
        # System V has no symbolic links.
        os.unlink(Path(tree, "bin/link"))
        for number, words in enumerate([[], ["-O", "1"], ["-t", "sysv"], ["-s", "24m"]]):
            with self.subTest(words=words):
                parameters = spindle_fs.Parameters(
                    format=1 if "-O" in words else 2, kind="sysv" if "-t" in words else "ffs"
                )
                size = 24 * MIB if "-s" in words else None
                ours, theirs = self.place(f"{number}.img"), self.place(f"{number}.cli")
                spindle("import", *words, "--timestamp", "5", tree, theirs)
                spindle_fs.import_tree(tree, ours, size=size, parameters=parameters, timestamp=5)
                self.assertEqual(digest(ours), digest(theirs))
                self.assertTrue(spindle_fs.check(ours).clean)

    def test_import_into(self) -> None:
        """Promise: a tree is imported into a directory of an open image."""
        tree = self.tree()
        with spindle_fs.open(self.newfs(), writable=True) as image:
            image.mkdir("/usr")
            self.assertEqual(image.import_tree(tree, "/usr", uid=0, gid=0), [])
            self.assertEqual(image.read_bytes("/usr/bin/link"), b"welcome\n")
            self.assertEqual(image.path("/usr/etc/motd").stat().st_nlink, 2)
            self.assertTrue(image.path("/usr/sparse").extents()[0].is_hole)

    def test_misfits(self) -> None:
        """Promise: what a format cannot store is listed, and nothing is written."""
        tree = self.tree()
        (tree / "a name that is too long").write_text("")
        with self.assertRaises(spindle_fs.MisfitError) as raised:
            spindle_fs.import_tree(
                tree, self.place(), parameters=spindle_fs.Parameters(kind="v7")
            )
        self.assertTrue(any("too long" in path for path, _ in raised.exception.misfits))
        self.assertFalse(os.path.exists(self.place()))

    def test_builder_example(self) -> None:
        """Promise: the example for builders makes the image of `spindle import`, twice the same."""
        tree = str(self.tree())
        spindle(
            "import", "--uid", "0", "--gid", "0", tree, self.place("cli"), SOURCE_DATE_EPOCH=EPOCH
        )
        for words in ([], ["--version", "1.2"]):
            images = [self.place(f"{number}{len(words)}.img") for number in range(2)]
            for image in images:
                run_example("builder.py", *words, tree, image)
            self.assertEqual(digest(images[0]), digest(images[1]))
            if not words:
                self.assertEqual(digest(images[0]), digest(self.place("cli")))
        with spindle_fs.open(images[0]) as opened:
            self.assertEqual(opened.read_bytes("/version"), b"1.2\n")


class Damage(Case):
    def delete(self, name: str, path: str) -> None:
        """Delete a file as a system does that keeps the pointers of its inode."""
        info = spindle_fs.info(name)
        with spindle_fs.open(name, writable=True) as image:
            group, index = divmod(image.path(path).ino, info["fs_ipg"])
            frag = group * info["fs_fpg"] + info["fs_iblkno"]
            at = frag * info["fs_fsize"] + index * 256
            image.sync()
            with open(name, "rb") as disk:
                disk.seek(at)
                inode = disk.read(256)
            image.unlink(path)
        with open(name, "r+b") as disk:
            disk.seek(at)
            disk.write(inode)

    def test_forensics_example(self) -> None:
        """Promise: the example for forensics lists hashes of files, and recovers a deleted one."""
        name = self.newfs()
        content = os.urandom(200_000)
        with spindle_fs.open(name, writable=True) as image:
            image.write_bytes("/kept", b"kept")
            image.write_bytes("/secret", content)
        self.delete(name, "/secret")
        listed = run_example("forensics.py", "--save", self.place("saved"), name)
        self.assertIn(hashlib.sha256(b"kept").hexdigest(), listed)
        [saved] = Path(self.place("saved")).iterdir()
        self.assertEqual(saved.read_bytes(), content)
        with spindle_fs.open(name) as image, image.deleted() as deleted:
            [inode] = deleted.inodes
            self.assertTrue(inode.is_whole)
            self.assertEqual((inode.size, inode.kind), (200_000, "file"))
            self.assertEqual(inode.read_bytes(), content)

    def test_past_damage(self) -> None:
        """Promise: what cannot be read of a file is an error, or zeros and a loss; the rest comes.

        The image is cut off in the middle of the file.
        """
        name = self.newfs()
        content = os.urandom(4 * MIB)
        with spindle_fs.open(name, writable=True) as image:
            node = image.write_bytes("/big", content)
            extent = max(node.extents(), key=lambda one: one.device_offset or 0)
            image.sync()
        assert extent.device_offset is not None
        os.truncate(name, extent.device_offset)
        with spindle_fs.open(name) as image:
            self.assertRaises(OSError, image.read_bytes, "/big")
            with self.assertWarns(spindle_fs.LossWarning):
                found = image.read_bytes("/big", past_damage=True)
            self.assertEqual(len(found), len(content))
            self.assertEqual(found[: extent.offset], content[: extent.offset])
            self.assertEqual(found[extent.offset :][: extent.length], bytes(extent.length))
            self.assertTrue(any("zeros stand in their place" in loss for loss in image.losses))
        self.assertRaises(spindle_fs.UnsupportedError, spindle_fs.open, name, writable=True)

    def test_check_and_remedies(self) -> None:
        """Promise: a check changes nothing, and names each finding with its repair; what is not
        safe to write is refused with a remedy.
        """
        name = self.newfs()
        with open(name, "r+b") as disk:
            disk.seek(spindle_fs.info(name)["fs_cblkno"] * 4096 + 24)
            disk.write(b"\xff\xff")
        before = digest(name)
        report = spindle_fs.check(name)
        self.assertFalse(report.clean)
        self.assertTrue(report.findings and all(one.message for one in report.findings))
        self.assertTrue(any(one.repair for one in report.findings))
        self.assertEqual(digest(name), before)
        Path(self.place("text")).write_text("no file system")
        with self.assertRaises(spindle_fs.UnsupportedError) as raised:
            spindle_fs.open(self.place("text"))
        self.assertTrue(raised.exception.remedy)
        self.assertRaises(FileNotFoundError, spindle_fs.open, self.place("missing"))
        self.assertRaises(ValueError, spindle_fs.open, name, dialect="plan9")

    def test_hostile_images(self) -> None:
        """Promise: whatever is in an image, an OSError or a loss comes of it, and no panic."""
        name = self.newfs(size=2 * MIB)
        with spindle_fs.open(name, writable=True) as image:
            image.mkdir("/a/b", parents=True)
            image.write_bytes("/a/file", os.urandom(120_000))
            image.symlink("a/file", "/link")
        original = Path(name).read_bytes()
        used = [at for at in range(0, len(original), 512) if any(original[at : at + 512])]
        seed = int(os.environ.get("SPINDLE_SEED", random.randrange(1 << 32)))
        print(f"SPINDLE_SEED={seed}", file=sys.stderr)
        chance = random.Random(seed)
        warnings.simplefilter("ignore", spindle_fs.LossWarning)
        for _ in range(int(os.environ.get("SPINDLE_CASES", 150))):
            damaged = bytearray(original)
            for _ in range(chance.choice([1, 5, 50])):
                damaged[chance.choice(used) + chance.randrange(512)] = chance.randrange(256)
            Path(name).write_bytes(damaged)
            for use in (self.use, spindle_fs.check, spindle_fs.info, spindle_fs.partitions):
                try:
                    use(name)
                except OSError as error:
                    self.assertTrue(str(error))

    def use(self, name: str) -> None:
        with spindle_fs.open(name) as image:
            for node in image.walk():
                for one in (node.stat, node.extents, node.xattrs, node.readlink):
                    attempt(one)
                if node.is_file() and node.stat().st_size < MIB:
                    attempt(lambda: node.read_bytes(past_damage=True))
            with image.deleted() as deleted:
                for inode in deleted.inodes:
                    for _ in zip(range(100), inode.pieces()):
                        pass


class Sharing(Case):
    def test_locks(self) -> None:
        """Promise: the locks are those of the command line: one writer, or several readers."""
        name = self.newfs()
        with spindle_fs.open(name), spindle_fs.open(name):
            self.assertRaises(spindle_fs.BusyError, spindle_fs.open, name, writable=True)
        with spindle_fs.open(name, writable=True):
            self.assertRaises(spindle_fs.BusyError, spindle_fs.open, name)
            self.assertRaises(spindle_fs.BusyError, spindle_fs.check, name)
            self.assertEqual(spindle_fs.info(name)["kind"], "UFS2")
            self.assertRaises(subprocess.CalledProcessError, spindle, "mkdir", f"{name}:/x")
        spindle("mkdir", f"{name}:/x")

    def test_threads(self) -> None:
        """Promise: threads use an image, a node and a file at the same time, also while one of them
        closes it: then they get a ValueError.
        """
        name = self.newfs()
        content = os.urandom(MIB)
        with spindle_fs.open(name, writable=True) as image:
            image.write_bytes("/file", content)
            wrong = []
            node = image.path("/file")
            raw = node.open(buffering=0)
            assert isinstance(raw, spindle_fs.RawFile)

            def read(number: int) -> None:
                try:
                    for step in range(10_000):
                        at = (number * 7919 + step * 4099) % MIB
                        if raw.read_at(at, 100) != content[at : at + 100]:
                            wrong.append(at)
                        image.write_bytes(f"/{number}", content[:at])
                        node.stat()
                except ValueError:
                    return

            threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            threads[0].join(0.5)
        for thread in threads:
            thread.join()
        raw.close()
        self.assertEqual(wrong, [])
        self.assertTrue(spindle_fs.check(name).clean)

    def test_signals(self) -> None:
        """Promise: a handler of a signal that raises ends long work, which leaves no half image."""

        class Stop(Exception):
            pass

        def stop(_number: int, _frame: Optional[FrameType]) -> None:
            raise Stop

        before = signal.signal(signal.SIGALRM, stop)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        parameters = spindle_fs.Parameters(format=1, density=2048)
        with self.assertRaises(Stop):
            spindle_fs.newfs(self.place(), 200 << 30, parameters)
        self.assertFalse(os.path.exists(self.place()))


def attempt(use: Callable[[], object]) -> None:
    """Call a function whose OSError is nothing."""
    try:
        use()
    except OSError:
        pass


def digest(name: str) -> str:
    """Return the hash of a file."""
    return hashlib.sha256(Path(name).read_bytes()).hexdigest()


def run_example(name: str, *words: str) -> str:
    """Run an example, and return what it prints."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},
        timeout=120,
    )
    return done.stdout


if __name__ == "__main__":
    unittest.main()
