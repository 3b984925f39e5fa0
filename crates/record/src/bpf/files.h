/* Open files: when they come, when they go, and the runs between. */
#pragma once
#include "names.h"

#define FMODE_READ 1
#define FMODE_WRITE 2
#define FMODE_PATH 0x4000
#define FMODE_CREATED 0x100000
#define O_APPEND 02000
#define O_DSYNC 010000
#define O_DIRECT 040000
#define S_IFMT 0170000
#define S_IFCHR 0020000
#define S_IFDIR 0040000
#define S_IFREG 0100000
#define SB_KERNMOUNT (1 << 22)
#define SB_NOUSER (1ul << 31)

/* The file that an entry of a table of descriptors points at: the entry is read as if it were the field of a structure with such a field. */
ALWAYS struct file *file_at(u64 entry)
{
	u64 offset = __builtin_preserve_field_info(((struct linux_binprm *)0)->file, 0);
	return AS(struct linux_binprm, entry - offset)->file;
}

/* The file behind a descriptor of the current process. */
ALWAYS struct file *file_of(u64 descriptor)
{
	struct fdtable *table = self()->files->fdt;
	u32 number = descriptor;
	if (number >= table->max_fds)
		return 0;
	return file_at((u64)(table->fd + number));
}

ALWAYS struct open_file *known(u64 key)
{
	struct open_file *open = map_get(&FILES, &key);
	return open && open->descriptors ? open : 0;
}

/* Of other files nothing is told. */
ALWAYS int is_data(struct inode *inode)
{
	u32 type = GET(inode, i_mode) & S_IFMT;
	return type == S_IFREG || type == S_IFDIR;
}

/* Starts an event of an open file that needs no name. */
ALWAYS struct wire *begin(struct open_file *open, u8 kind, u32 flags)
{
	struct wire *event = ring_reserve(&EVENTS, sizeof(*event), 0);
	if (!event) {
		count(LOST);
		return 0;
	}
	who(event, kind);
	event->open = open->open;
	event->inode = open->inode;
	event->device = open->device;
	event->flags = (open->flags & ~(u32)(F_BEFORE | F_TRUNCATED | F_NAMELESS)) | flags;
	event->size = 0;
	event->position = 0;
	event->bytes = 0;
	event->base = 0;
	event->other = 0;
	event->calls = 0;
	event->length = 0;
	return event;
}

/* 1: wake nobody. */
ALWAYS void end(struct wire *event)
{
	ring_submit(event, 1);
}

ALWAYS void put_run(struct wire *event, const struct run *run)
{
	event->position = run->start;
	event->bytes = run->bytes;
	event->calls = run->calls;
	event->flags |= run->flags;
}

APART int tell_run(struct open_file *open, const struct run *run)
{
	if (!open || !run)
		return 0;
	struct wire *event = begin(open, RUN, 0);
	if (!event)
		return 0;
	put_run(event, run);
	end(event);
	return 0;
}

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct file___counted {
	struct {
		s64 counter;
	} f_count;
};
struct file___referenced {
	struct {
		struct {
			s64 counter;
		} refcnt;
	} f_ref;
};
#pragma clang attribute pop

/* How many references there are to a file: as many as descriptors, or a few more. */
ALWAYS u32 references(struct file *file)
{
	s64 count = 1;
	if (HAS(struct file___referenced, f_ref))
		count = GET((struct file___referenced *)file, f_ref.refcnt.counter) + 1; /* 0 stands for one */
	else if (HAS(struct file___counted, f_count))
		count = GET((struct file___counted *)file, f_count.counter);
	return count < 1 ? 1 : count;
}

/*
 * Nobody else can be at the file: there is one reference to it, in a table that one thread uses. (So does the kernel, too, decide whether
 * to lock positions.)
 */
ALWAYS int is_own(struct open_file *open)
{
	return self()->files->count.counter == 1 && references(AS(struct file, open->file)) == 1;
}

/* Makes a run longer, or begins it anew at `start`; then the one that this ends is in `ended`. */
ALWAYS void lengthen(struct run *run, int is_broken, u64 start, u64 bytes, u32 flags, struct run *ended)
{
	if (is_broken || (run->flags != flags && run->bytes)) {
		*ended = *run;
		run->bytes = 0;
		run->calls = 0;
	}
	if (!run->bytes)
		run->start = start;
	run->flags = flags;
	run->bytes += bytes;
	run->calls += 1;
}

/* Bytes moved at the file's own position. `start` is where, if that is not where the run ended (O_APPEND), else -1. */
ALWAYS void lengthen_here(struct open_file *open, u64 start, u64 bytes, u32 flags, struct run *ended)
{
	u64 position = open->here.start + open->here.bytes;
	int is_broken = start != (u64)-1 && start != position;
	lengthen(&open->here, is_broken, is_broken ? start : position, bytes, flags, ended);
}

ALWAYS void here(struct open_file *open, u64 bytes, u32 flags, u64 start)
{
	struct run ended = {};
	if (is_own(open)) {
		lengthen_here(open, start, bytes, flags, &ended);
	} else {
		lock(&open->lock);
		lengthen_here(open, start, bytes, flags, &ended);
		unlock(&open->lock);
	}
	if (ended.bytes)
		tell_run(open, &ended);
}

/* Bytes moved elsewhere. */
ALWAYS void lengthen_other(struct open_file *open, u64 start, u64 bytes, u32 flags, struct run *ended)
{
	int is_broken = open->other.bytes && open->other.start + open->other.bytes != start;
	lengthen(&open->other, is_broken, start, bytes, flags, ended);
}

ALWAYS void elsewhere(struct open_file *open, u64 start, u64 bytes, u32 flags)
{
	struct run ended = {};
	if (is_own(open)) {
		lengthen_other(open, start, bytes, flags, &ended);
	} else {
		lock(&open->lock);
		lengthen_other(open, start, bytes, flags, &ended);
		unlock(&open->lock);
	}
	if (ended.bytes)
		tell_run(open, &ended);
}

/* A descriptor of the file goes; with the last one the file is closed. */
ONCE int leave(u64 key, u32 flags)
{
	struct open_file *open = known(key);
	if (!open || __sync_fetch_and_sub(&open->descriptors, 1) > 1)
		return 0;
	if (open->other.bytes)
		tell_run(open, &open->other);
	struct wire *event = begin(open, CLOSE, flags);
	if (event) {
		put_run(event, &open->here);
		event->size = AS(struct inode, open->address)->i_size;
		event->other = AS(struct inode, open->address)->i_nlink;
		end(event);
	}
	if (entries > KEPT && !map_delete(&FILES, &key))
		__sync_fetch_and_add(&entries, -1);
	return 0;
}

/* How bytes are moved, which a program may change while a file is open. */
ALWAYS u32 ways(u32 flags)
{
	return (flags & O_APPEND ? F_APPEND : 0) | (flags & O_DIRECT ? F_DIRECT : 0);
}

/* Begins to follow a file: enters it, and tells of it. */
ONCE int enter(u64 key, u32 more, u64 position, u32 descriptors)
{
	struct file *file = AS(struct file, key);
	struct inode *inode = file->f_inode;
	u32 mode = file->f_mode, how = file->f_flags, device = device_of(inode);
	if (mode & FMODE_PATH || !is_data(inode) || is_elsewhere(inode))
		return 0;
	if (inode->i_sb->s_flags & (SB_KERNMOUNT | SB_NOUSER))
		return 0;
	u32 is_directory = (inode->i_mode & S_IFMT) == S_IFDIR;
	u32 flags = more | (mode & (FMODE_READ | FMODE_WRITE)) | ways(how);
	if (is_directory)
		flags |= F_DIRECTORY;
	if (mode & FMODE_CREATED)
		flags &= ~(u32)F_TRUNCATED;
	u64 size = inode->i_size;
	/* Where access starts; a file that is read and appended to is read from its start. */
	if (flags & F_APPEND && !(mode & FMODE_READ) && !(more & F_BEFORE))
		position = size;

	/* An entry that has descriptors is of a file whose end was not seen. */
	struct open_file *open = map_get(&FILES, &key);
	if (open && open->descriptors) {
		open->descriptors = 1;
		leave(key, F_IMPLICIT);
		open = map_get(&FILES, &key);
	}
	if (!open) {
		struct open_file none = {};
		if (map_set(&FILES, &key, &none, 0)) {
			count(LOST);
			return 0;
		}
		__sync_fetch_and_add(&entries, 1);
		open = map_get(&FILES, &key);
		if (!open)
			return 0;
	}
	open->open = __sync_fetch_and_add(&last_open, 1) + 1;
	open->inode = inode->i_ino;
	open->address = number(inode);
	open->file = key;
	open->device = device;
	open->flags = flags;
	open->here = (struct run){ .start = position };
	open->other = (struct run){};
	open->descriptors = descriptors;

	struct dentry *dentry = file->f_path.dentry;
	u64 base = place_of(file->f_path.mnt, is_directory ? dentry : dentry->d_parent);
	struct told *told = scratch();
	if (!told)
		return 0;
	__builtin_memset(&told->event, 0, sizeof(told->event));
	int is_new = more & F_NAMELESS || (mode & FMODE_CREATED && !(more & F_BEFORE));
	who(&told->event, is_new ? CREATE : OPEN);
	told->event.open = open->open;
	told->event.inode = open->inode;
	told->event.device = device;
	told->event.flags = flags;
	told->event.size = size;
	told->event.position = position;
	told->event.base = base;
	if (!is_directory)
		put_name(told, dentry);
	send(told);
	return 0;
}

/* What is known of a file; one that was open before anybody looked is entered now, at `back` before its position. */
APART struct open_file *open_of(struct file *file, u64 back)
{
	if (!file || !is_data(file->f_inode) || !may_matter())
		return 0;
	u64 key = number(file);
	struct open_file *open = known(key);
	if (open || !is_wanted())
		return open;
	enter(key, F_BEFORE, file->f_pos - back, references(file));
	return known(key);
}
