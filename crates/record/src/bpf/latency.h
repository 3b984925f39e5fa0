/* How long calls take, counted by call, size of the file and time: crates/trace/src/latency.rs declares the same. */
#pragma once
#include "files.h"

enum timed_call { TIMED_OPEN, TIMED_READ, TIMED_WRITE, TIMED_SYNC, TIMED_CALLS };
/* Directories, and files of less than 4 KiB, 64 KiB, 1 MiB, 16 MiB, 1 GiB, and more. */
#define SIZE_CLASSES 7
/* Four for each doubling. */
#define BUCKETS (4 * 48)

const volatile u32 TIMED = 0; /* calls are measured */

/* A call under way, by thread. */
struct started {
	u64 time;
	u64 call;
};

struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, 1 << 16);
	NUMBER(map_flags, NO_PREALLOC);
	TYPE(key, u32);
	TYPE(value, struct started);
} STARTED SEC(".maps");

struct counts {
	u64 calls[BUCKETS];
};

struct {
	NUMBER(type, MAP_PERCPU_ARRAY);
	NUMBER(max_entries, TIMED_CALLS * SIZE_CLASSES);
	TYPE(key, u32);
	TYPE(value, struct counts);
} LATENCIES SEC(".maps");

ALWAYS u32 size_class(struct inode *inode)
{
	u64 size = inode->i_size;
	if ((inode->i_mode & S_IFMT) == S_IFDIR)
		return 0;
	return 1 + (size >= 4 << 10) + (size >= 64 << 10) + (size >= 1 << 20) + (size >= 16 << 20) + (size >= 1 << 30);
}

ALWAYS u32 bucket_of(u64 ns)
{
	u64 rest = ns;
	u32 log = 0;
	for (u32 step = 32; step; step /= 2) {
		if (rest >> step) {
			rest >>= step;
			log += step;
		}
	}
	u32 bucket = 4 * log + (log < 2 ? 0 : ns >> (log - 2) & 3);
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

ALWAYS void call_started(u64 call)
{
	struct started started = { .time = now(), .call = call };
	u32 thread = current_pid_tgid();
	if (is_wanted())
		map_set(&STARTED, &thread, &started, 0);
}

/* Counts a call on a file that has succeeded. */
APART int call_took(u32 what, u64 call, struct file *file, s64 result)
{
	u32 thread = current_pid_tgid();
	struct started *started = map_get(&STARTED, &thread);
	if (!started)
		return 0;
	u64 ns = now() - started->time;
	int is_same = started->call == call;
	map_delete(&STARTED, &thread);
	if (!is_same || result < 0 || !file || GET(file, f_mode) & FMODE_PATH)
		return 0;
	struct inode *inode = GET(file, f_inode);
	if (!is_data(inode) || is_elsewhere(inode) || GET(GET(inode, i_sb), s_flags) & (SB_KERNMOUNT | SB_NOUSER))
		return 0;
	u32 at = what * SIZE_CLASSES + size_class(AS(struct inode, inode)), bucket = bucket_of(ns);
	struct counts *counts = map_get(&LATENCIES, &at);
	if (counts && bucket < BUCKETS)
		counts->calls[bucket] += 1;
	return 0;
}
