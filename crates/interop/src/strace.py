"""Counts opens, bytes read, bytes written and deletions by file in the output of `strace -ff -yy`.

Calls that only look at files, or change attributes or names, are counted by kind under a name in parentheses: those that
succeeded, and those that failed if they only look.

Regular files and directories only: names that -yy shows without a kind in brackets. What went through mappings cannot be seen.
"""
import collections
import os
import re
import sys

counts = collections.defaultdict(lambda: [0, 0, 0, 0])
OPENS = ("open", "openat", "openat2", "creat")
READS = ("read", "readv", "pread64", "preadv", "preadv2")
WRITES = ("write", "writev", "pwrite64", "pwritev", "pwritev2")
CALL = re.compile(r"^(\w+)\((.*)\)\s+= (-?\d+)(.*)$")
KINDS = {
    "stat": "stat lstat newfstatat statx fstat",
    "access": "access faccessat faccessat2",
    "readlink": "readlink readlinkat",
    "list": "getdents getdents64",
    "chdir": "chdir fchdir",
    "chmod": "chmod fchmod fchmodat fchmodat2",
    "chown": "chown fchown lchown fchownat",
    "utime": "utime utimes futimesat utimensat",
    "link": "link linkat",
    "symlink": "symlink symlinkat",
}
KIND = {call: kind for kind, calls in KINDS.items() for call in calls.split()}
FILE = re.compile(r"\d+<(/(?:[^<>\\]|\\.)*)(<[^>]*>)?>(\(deleted\))?")
WHERE = re.compile(r"(?:AT_FDCWD|\d+)<((?:[^<>\\]|\\.)*)>")


def plain(text):
    """The name of a file, or None if it is none of those that are recorded."""
    name, kind = text.group(1), text.group(2)
    return None if kind else name.removesuffix(" (deleted)")


def files(text):
    return [plain(found) for found in FILE.finditer(text)]


def add(name, column, amount):
    if name:
        counts[name][column] += amount


def named(arguments, here):
    """The whole name of the first path among the arguments."""
    path = re.search(r'"((?:[^"\\]|\\.)*)"', arguments).group(1)
    start = WHERE.match(arguments)
    return os.path.normpath(os.path.join(start.group(1) if start else here, path))


def is_recorded(name, arguments):
    """Whether the call names a file, or is about one that is open and is no device or pipe."""
    if name in ("getdents", "getdents64", "fchdir") or name.startswith("f") and "at" not in name:
        return plain_open(arguments)
    if ("at" in name[4:] or name == "statx") and re.match(r"[^,]*, (\"\"|NULL)", arguments):
        return plain_open(arguments)
    return True


def plain_open(arguments):
    found = FILE.match(arguments)
    return bool(found and plain(found) and found.group(0).split("<")[0] not in places)


for log in sorted(os.listdir(sys.argv[1])):
    here = sys.argv[2]
    places = set()  # descriptors of O_PATH, through which no file is open
    for line in open(os.path.join(sys.argv[1], log), encoding="utf-8", errors="replace"):
        call = CALL.match(line.rstrip("\n"))
        if not call:
            continue
        name, arguments, result, rest = call[1], call[2], int(call[3]), call[4]
        kind = KIND.get(name)
        if kind and is_recorded(name, arguments) and (result >= 0 or kind in ("stat", "access", "readlink")):
            add(f"({kind})", int(result < 0), 1)
        if result < 0:
            continue
        if name in OPENS and "O_PATH" in arguments:
            places.add(call[3])
        elif name in OPENS:
            places.discard(call[3])
            opened = FILE.match(call[3] + rest)
            add(opened and plain(opened), 0, 1)
        elif name in READS:
            add((files(arguments) or [None])[0] if FILE.match(arguments) else None, 1, result)
        elif name in WRITES:
            add((files(arguments) or [None])[0] if FILE.match(arguments) else None, 2, result)
        elif name in ("copy_file_range", "splice"):
            first, second = re.match(r"(\d+<.*>(?:\(deleted\))?), (?:NULL|\[[^]]*\]), (\d+<.*)", arguments).groups()
            for part, column in ((first, 1), (second, 2)):
                found = FILE.match(part)
                add(found and plain(found), column, result)
        elif name == "sendfile":
            parts = re.match(r"(\d+<.*>(?:\(deleted\))?), (\d+<.*)", arguments).groups()
            for part, column in zip(parts, (2, 1)):
                found = FILE.match(part)
                add(found and plain(found), column, result)
        elif name == "unlink" or name == "unlinkat" and "AT_REMOVEDIR" not in arguments:
            add(named(arguments, here), 3, 1)
        elif name == "getcwd":
            here = re.search(r'"(.*)"', arguments).group(1)
        elif name == "chdir":
            here = os.path.normpath(os.path.join(here, re.search(r'"(.*)"', arguments).group(1)))

for name, numbers in sorted(counts.items()):
    if any(numbers):
        print(name, *numbers, sep="\t")
