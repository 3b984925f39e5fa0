/* What goes to user space: crates/record/src/wire.rs declares the same. */
#pragma once
#include "kernel.h"

#define NAME_MAX 255
#define TEXT_MAX 4096

enum kind {
	OPEN, CREATE, CLOSE, SEEK, RUN, UNLINK, TRUNCATE, RENAME, EXEC, MKDIR, RMDIR, SYNC, STAT, ACCESS, READLINK, LIST, CHDIR,
	CHMOD, CHOWN, UTIME, LINK, SYMLINK,
	DIRECTORY, /* no event: `base` stands for the directory in `text`, whose components come last first, on `device` */
};

/* Flags of docs/SPEC-trace.md, and ours above them. */
enum flag {
	F_READ = 1, F_WRITE = 1 << 1, F_APPEND = 1 << 2, F_TRUNCATED = 1 << 3, F_DIRECTORY = 1 << 4, F_NAMELESS = 1 << 5,
	F_MAPPED = 1 << 6, F_POSITIONAL = 1 << 7, F_IMPLICIT = 1 << 8, F_LAST = 1 << 9, F_REPLACED = 1 << 10,
	F_BEFORE = 1 << 11, F_DIRECT = 1 << 12, F_FAILED = 1 << 13,
	F_WRITTEN = 1 << 30, /* the bytes of the run were written, not read */
	F_SWAPPED = 1 << 28, /* of a rename: both names were there, and changed places */
	F_CUT = 1 << 27,     /* of a directory: its name is too long, and lacks its beginning */
};

struct wire {
	u64 time;
	u64 open;
	u64 inode;
	u64 size;
	u64 position;
	u64 bytes;
	u64 base;  /* the directory that the first name in the text begins at, or the root for a whole one; 0 for the system's root, or none */
	u64 other; /* new position of a seek; links of the file at a close; the directory that the second name begins at */
	u32 device;
	u32 user;
	u32 process;
	u32 calls;
	u32 flags;
	u16 length; /* of the text */
	u8 kind;
	u8 spare;
	u64 command[2]; /* its bytes */
};

/* An event with names behind it: one, or two with a 0 between them. */
struct told {
	struct wire event;
	char text[2 * TEXT_MAX];
};
