"""Reading images: nodes, files, places on the device, partitions."""

from __future__ import annotations

import io
import os
import stat
import struct
import unittest
from typing import Any, Dict, List, Tuple

import spindle_fs
from common import MIB, Case, spindle

#: A parameter set of each family, and the name of its kind.
FORMATS: List[Tuple[Dict[str, Any], str]] = [
    ({}, "UFS2"),
    ({"format": 1, "dialect": "netbsd", "endian": "big"}, "UFS1"),
    ({"format": 0}, "UFS1 (old inodes)"),
    ({"kind": "v7"}, "v7-512-pdp"),
    ({"kind": "sysv-1024-be"}, "sysv-1024-be"),
]

#: Directories that newfs makes.
EMPTY = (".snap", "lost+found")


class Reading(Case):
    def test_every_format(self) -> None:
        """Promise: what was written to an image of each family is read again, by name and walk."""
        for number, (parameters, kind) in enumerate(FORMATS):
            with self.subTest(kind=kind):
                name = self.newfs(f"{number}.img", 2 * MIB, **parameters)
                with spindle_fs.open(name, writable=True) as image:
                    image.mkdir("/etc/rc", parents=True)
                    image.write_bytes("etc/rc/one", b"1" * 5000, perm=0o600, uid=7, gid=8)
                    image.link("/etc/rc/one", "/etc/two")
                with spindle_fs.open(name) as image:
                    self.assertEqual((image.kind, image.writable), (kind, False))
                    found = [node.path for node in image.walk() if node.name not in EMPTY]
                    self.assertEqual(found, ["/etc", "/etc/rc", "/etc/rc/one", "/etc/two"])
                    node = image.root / "etc" / "two"
                    self.assertEqual(node.read_bytes(), b"1" * 5000)
                    one = node.stat()
                    self.assertEqual(stat.filemode(one.st_mode), "-rw-------")
                    self.assertEqual((one.st_nlink, one.st_uid, one.st_gid), (2, 7, 8))
                    self.assertEqual(one, image.path("/etc/rc/one").stat())
                    self.assertEqual(image.info()["kind"], kind)
                self.assertTrue(spindle_fs.check(name).clean)

    def test_attributes(self) -> None:
        """Promise: all attributes come as they were set, times to the nanosecond."""
        name = self.newfs()
        with spindle_fs.open(name, writable=True, timestamp=1_500_000_000) as image:
            node = image.mknod("/tty", stat.S_IFCHR | 0o620, (5, 17), uid=3, gid=4)
            node.utime(atime_ns=-1, mtime_ns=1_234_567_890_123_456_789, birthtime_ns=10**18)
            node.chflags(stat.UF_NODUMP)
            image.root.set_xattr("user.mark", b"\x00\xff")
        with spindle_fs.open(name) as image:
            found = image.path("/tty").stat()
            self.assertEqual((found.kind, found.device), ("character device", (5, 17)))
            self.assertEqual(found.st_rdev, os.makedev(5, 17))
            self.assertEqual((found.st_atime_ns, found.st_birthtime_ns), (-1, 10**18))
            self.assertEqual(found.st_mtime_ns, 1_234_567_890_123_456_789)
            self.assertEqual(found.st_ctime_ns, 1_500_000_000 * 10**9)
            self.assertEqual(found.st_flags, stat.UF_NODUMP)
            self.assertGreater(found.st_gen, 0)
            self.assertEqual(image.root.xattrs(), {"user.mark": b"\x00\xff"})
            self.assertEqual(image.path("/tty").xattrs(), {})

    def test_links(self) -> None:
        """Promise: a node is the link itself; to open it follows, and never leaves the image."""
        name = self.newfs()
        with spindle_fs.open(name, writable=True) as image:
            image.write_bytes("/passwd", b"inside")
            image.symlink("/../../passwd", "/link")
            image.symlink("nowhere", "/broken")
            image.symlink("loop", "/loop")
            link = image.path("/link")
            self.assertTrue(link.is_symlink() and not link.is_file())
            self.assertEqual((link.readlink(), link.read_bytes()), ("/../../passwd", b"inside"))
            self.assertEqual(link.follow().ino, image.path("/passwd").ino)
            self.assertTrue(image.exists("/broken"))
            self.assertRaises(FileNotFoundError, image.read_bytes, "/broken")
            with self.assertRaises(OSError) as raised:
                image.read_bytes("/loop")
            self.assertEqual(raised.exception.errno, 40)

    def test_names_are_bytes(self) -> None:
        """Promise: names that are not UTF-8 are found, as bytes and as text with surrogates."""
        name = self.newfs()
        with spindle_fs.open(name, writable=True) as image:
            image.write_bytes(b"/caf\xe9", b"latin")
            image.write_bytes("/café", b"utf")
            found = {node.path_bytes: node for node in image.root.iterdir()}
            latin = found[b"/caf\xe9"]
            self.assertEqual((latin.read_bytes(), latin.name), (b"latin", "caf\udce9"))
            self.assertEqual(image.read_bytes(latin.path), b"latin")
            self.assertEqual(image.read_bytes("/café"), b"utf")

    def test_files_are_raw_files(self) -> None:
        """Promise: a file works as io has raw files: seek, readinto, buffers, text, holes."""
        name = self.newfs()
        content = os.urandom(300_000)
        with spindle_fs.open(name, writable=True) as image:
            with image.open("/file", "xb") as file:
                file.write(content[:100_000])
                file.seek(2 * MIB)
                file.write(content)
            node = image.path("/file")
            with node.open() as file:
                self.assertIsInstance(file, io.BufferedReader)
                self.assertEqual(file.read(10), content[:10])
                self.assertEqual(file.seek(-5, os.SEEK_END), 2 * MIB + 299_995)
                self.assertEqual(file.read(), content[-5:])
                self.assertEqual(file.read(), b"")
            with node.open(buffering=0) as raw:
                assert isinstance(raw, spindle_fs.RawFile)
                buffer = bytearray(100)
                self.assertEqual(raw.readinto(buffer), 100)
                self.assertEqual((bytes(buffer), raw.tell()), (content[:100], 100))
                self.assertEqual(raw.seek(200_000, os.SEEK_DATA), 2 * MIB)
                self.assertEqual(raw.seek(0, os.SEEK_HOLE), 131_072)
                self.assertRaises(OSError, raw.seek, 1 << 40, os.SEEK_DATA)
                self.assertEqual(raw.read_at(2 * MIB + 7, 5), content[7:12])
                self.assertRaises(io.UnsupportedOperation, raw.write, b"x")
                self.assertRaises(OSError, raw.seek, -1)
            self.assertRaises(ValueError, raw.read)
            image.write_bytes("/text", "größe\nzwei\n".encode())
            with io.TextIOWrapper(image.open("/text"), encoding="utf-8") as lines:
                self.assertEqual(lines.readlines(), ["größe\n", "zwei\n"])
            self.assertRaises(ValueError, image.open, "/text", "r")

    def test_extents(self) -> None:
        """Promise: the bytes of a file stand in the file that `filename` names where its extents
        say, also in a partition; what is left out is a hole, and all together are the file.
        """
        start = 3 * MIB
        with open(self.place(), "wb") as disk:
            disk.truncate(start)
        name = f"{self.place()}@offset={start}"
        spindle_fs.newfs(name, 16 * MIB)
        with spindle_fs.open(name, writable=True) as image:
            with image.open("/file", "xb") as file:
                file.seek(500_000)
                file.write(os.urandom(700_000))
                file.truncate(3_000_000)
            self.check_extents(image)
        with spindle_fs.open(name) as image:
            self.check_extents(image)
            self.assertRaises(IsADirectoryError, image.root.extents)

    def check_extents(self, image: spindle_fs.Image) -> None:
        node = image.path("/file")
        whole = b""
        with open(image.filename, "rb") as disk:
            for extent in node.extents():
                self.assertEqual(extent.offset, len(whole))
                if extent.device_offset is None:
                    whole += bytes(extent.length)
                else:
                    self.assertGreater(extent.device_offset, 3 * MIB)
                    disk.seek(extent.device_offset)
                    whole += disk.read(extent.length)
        self.assertEqual(whole, node.read_bytes())
        self.assertTrue(node.extents()[0].is_hole)

    def test_partitions(self) -> None:
        """Promise: partitions are listed with what they hold, and opened by their names; a disk
        with one file system needs none.
        """
        entry = struct.pack("<B3sB3sII", 0, b"\0\0\0", 0xA5, b"\0\0\0", 2048, 32768)
        with open(self.place(), "wb") as disk:
            disk.write(bytes(446) + entry + bytes(48) + b"\x55\xaa")
            disk.truncate(32 * MIB)
        spindle_fs.newfs(self.place() + "@s1")
        [partition] = spindle_fs.partitions(self.place())
        self.assertEqual((partition.name, partition.start, partition.size), ("s1", MIB, 16 * MIB))
        self.assertEqual((partition.scheme, partition.file_system), ("MBR", "UFS2"))
        for name in [self.place(), self.place() + "@s1"]:
            with spindle_fs.open(name) as image:
                self.assertEqual(image.filename, self.place())
                self.assertEqual(image.name, self.place() + "@s1")
        with self.assertRaisesRegex(spindle_fs.Error, "s7"):
            spindle_fs.open(self.place() + "@s7")
        self.assertEqual(spindle_fs.partitions(self.newfs("bare.img")), [])

    def test_reading_changes_nothing(self) -> None:
        """Promise: an image that is open for reading is not changed, whatever is read, and changes
        of it are refused as on a read-only file system.
        """
        name = self.newfs()
        with spindle_fs.open(name, writable=True) as image:
            image.write_bytes("/file", b"content")
        before = self.bytes_of(name)
        with spindle_fs.open(name) as image:
            for node in image.walk():
                node.stat()
                if node.is_file():
                    node.read_bytes()
            image.deleted().close()
            for change in (
                lambda: image.mkdir("/new"),
                lambda: image.unlink("/file"),
                lambda: image.path("/file").chmod(0),
                lambda: image.open("/file", "r+b"),
                lambda: image.import_tree(self.directory),
            ):
                with self.assertRaises(OSError) as raised:
                    change()
                self.assertEqual(raised.exception.errno, 30)
        spindle_fs.check(name)
        spindle_fs.info(name)
        self.assertEqual(self.bytes_of(name), before)

    def bytes_of(self, name: str) -> bytes:
        with open(name, "rb") as file:
            return file.read()

    def test_snapshots_are_no_objection(self) -> None:
        """Promise: info says of a file system with snapshots what opening it to write finds."""
        path = self.newfs(size=64 * MIB)
        spindle("snapshot", "make", path, "/.snap/monday")
        found = spindle_fs.info(path)
        self.assertEqual((found["writable"], found["objections"]), (True, []))
        with spindle_fs.open(path, writable=True) as image:
            self.assertEqual(image.objections, [])

    def test_space(self) -> None:
        """Promise: space and inodes are those of `spindle df`."""
        name = self.newfs()
        with spindle_fs.open(name) as image:
            space = image.statvfs()
        row = spindle("df", "-k", name).splitlines()[1].split()
        self.assertEqual(int(row[1]), space.f_blocks * space.f_frsize // 1024)
        self.assertEqual(int(row[3]), space.f_bavail * space.f_frsize // 1024)

    def test_closed(self) -> None:
        """Promise: after `close` everything of an image is a ValueError, and closing again is
        nothing; an image that is forgotten warns.
        """
        name = self.newfs()
        with spindle_fs.open(name, writable=True) as image:
            node = image.write_bytes("/file", b"content")
            file = node.open()
        image.close()
        self.assertTrue(image.closed)
        for use in (image.sync, node.stat, file.read, lambda: image.path("/"), image.__enter__):
            self.assertRaises(ValueError, use)
        file.close()
        self.assertEqual(image.losses, [])
        with self.assertWarns(ResourceWarning):
            spindle_fs.open(name)
        self.assertTrue(spindle_fs.info(name)["clean"])


if __name__ == "__main__":
    unittest.main()
