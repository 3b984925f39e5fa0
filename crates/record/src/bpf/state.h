/* What is remembered between two calls. */
#pragma once
#include "wire.h"

/* A run: bytes one after the other, in one direction. */
struct run {
	u64 start;
	u64 bytes;
	u32 calls;
	u32 flags;
};

/*
 * An open file, by the address of its `struct file`. crates/record/src/wire.rs declares the same. When it is closed its entry stays,
 * without descriptors: the kernel soon takes the same memory for another, and changing an entry is much cheaper than making one.
 */
struct open_file {
	struct bpf_spin_lock lock;
	u32 descriptors;
	u64 open;
	u64 inode;
	u64 address; /* of the inode */
	u32 device;
	u32 flags;
	struct run here;  /* the run at the file's own position; its end is the position */
	struct run other; /* the run that goes on elsewhere: positional or mapped */
	u64 file;         /* the key */
};

/* The file whose name a call has taken away, to be told when the call returns; by thread. */
struct pending {
	u64 inode;
	u64 size;
	u32 device;
	u32 flags;
	u32 renames; /* the call is a rename, so it may free what had the new name */
	u32 spare;
};

/* A directory whose name has been sent: addresses, and its name's hash. */
struct place {
	u64 mount;
	u64 dentry;
	u64 parent;
	u64 name;
};

/* The one that was asked for last on a processor. */
struct last {
	struct place place;
	u64 number;
};

struct {
	NUMBER(type, MAP_RINGBUF);
	NUMBER(max_entries, 1 << 26);
} EVENTS SEC(".maps");

struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, 1 << 20);
	NUMBER(map_flags, NO_PREALLOC);
	TYPE(key, u64);
	TYPE(value, struct open_file);
} FILES SEC(".maps");

/* The processes that are followed; while the recorder is one of them, those that it starts. */
struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, 1 << 18);
	NUMBER(map_flags, NO_PREALLOC);
	TYPE(key, u32);
	TYPE(value, u32);
} TREE SEC(".maps");

/* Tables of descriptors that more than one process uses: how many others. */
struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, 1 << 16);
	NUMBER(map_flags, NO_PREALLOC);
	TYPE(key, u64);
	TYPE(value, u32);
} SHARED SEC(".maps");

struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, 1 << 16);
	NUMBER(map_flags, NO_PREALLOC);
	TYPE(key, u32);
	TYPE(value, struct pending);
} PENDING SEC(".maps");

/* The files that requests of io_uring are about to close, by the address of the request. */
struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 1 << 12);
	TYPE(key, u64);
	TYPE(value, u64);
} CLOSING SEC(".maps");

struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 1 << 14);
	TYPE(key, struct place);
	TYPE(value, u64);
} PLACES SEC(".maps");

struct {
	NUMBER(type, MAP_PERCPU_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct last);
} LAST SEC(".maps");

/* Programs on tracepoints are not interrupted by each other on one processor, so this is theirs alone. */
struct {
	NUMBER(type, MAP_PERCPU_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct told);
} SCRATCH SEC(".maps");

/* What could not be recorded, and requests of libaio, of which only the beginning is known. */
enum count { LOST, URING, FOREIGN, AIO, COUNTS };
struct {
	NUMBER(type, MAP_PERCPU_ARRAY);
	NUMBER(max_entries, COUNTS);
	TYPE(key, u32);
	TYPE(value, u64);
} MISSED SEC(".maps");

/* What is wanted; the loader sets it before the programs are looked at, so that what is not wanted costs nothing. */
const volatile u32 OWN = 0;          /* the recorder's process */
const volatile u32 BY_TREE = 0;      /* follow the processes in TREE, and those it starts */
const volatile u32 BY_USER = 0;
const volatile u32 USER = 0;
const volatile u32 BY_DEVICE = 0;
const volatile u32 DEVICE = 0;       /* as the kernel counts it */
const volatile u32 BY_CGROUP = 0;
const volatile u32 CGROUP_LEVEL = 0;
const volatile u64 CGROUP = 0;

u64 last_open = 0;
/* Entries of FILES; beyond so many, those of closed files go. */
#define KEPT (1 << 14)
s64 entries = 0;
u64 last_place = 0;

ALWAYS void count_all(u32 what, u64 number)
{
	u64 *value = map_get(&MISSED, &what);
	if (value)
		*value += number;
}

ALWAYS void count(u32 what)
{
	count_all(what, 1);
}

/* Whether what the current process does with files not yet known is to be told. */
ALWAYS int is_wanted(void)
{
	u32 process = current_pid_tgid() >> 32;
	if (process == OWN)
		return 0;
	if (BY_TREE && !map_get(&TREE, &process))
		return 0;
	if (BY_USER && (u32)current_uid_gid() != USER)
		return 0;
	if (BY_CGROUP && current_ancestor_cgroup(CGROUP_LEVEL) != CGROUP)
		return 0;
	return 1;
}

/* Whether what the current process does may concern a file that is known: cheaper, and true more often. */
ALWAYS int may_matter(void)
{
	u32 process = current_pid_tgid() >> 32;
	return process != OWN && (!BY_TREE || map_get(&TREE, &process));
}
