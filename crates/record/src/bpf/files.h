/* Open files: when they come, when they go, and the runs between. */
#pragma once
#include "names.h"

#define FMODE_READ 1
#define FMODE_WRITE 2
#define FMODE_PATH 0x4000
#define FMODE_CREATED 0x100000
#define O_APPEND 02000
#define O_DIRECT 040000
#define S_IFMT 0170000
#define S_IFDIR 0040000
#define S_IFREG 0100000
#define SB_KERNMOUNT (1 << 22)
#define SB_NOUSER (1ul << 31)

/* The file behind a descriptor of the current process. */
ALWAYS struct file *file_of(u64 descriptor)
{
	struct fdtable *table = current_task()->files->fdt;
	u32 number = descriptor;
	if (number >= table->max_fds)
		return 0;
	struct file *file = 0;
	read_kernel(&file, sizeof(file), table->fd + number);
	return file;
}

ALWAYS struct open_file *known(struct file *file)
{
	u64 key = (u64)file;
	return file ? map_get(&FILES, &key) : 0;
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

/* Bytes moved at the file's own position. `start` is where, if that is not where the run ended (O_APPEND), else -1. */
ALWAYS void here(struct open_file *open, u64 bytes, u32 flags, u64 start)
{
	struct run ended = {};
	lock(&open->lock);
	struct run *run = &open->here;
	u64 position = run->start + run->bytes;
	int broken = start != (u64)-1 && start != position;
	if (broken || (run->flags != flags && run->bytes)) {
		ended.start = run->start;
		ended.bytes = run->bytes;
		ended.calls = run->calls;
		ended.flags = run->flags;
		run->start = broken ? start : position;
		run->bytes = 0;
		run->calls = 0;
	}
	run->flags = flags;
	run->bytes += bytes;
	run->calls += 1;
	unlock(&open->lock);
	if (ended.bytes)
		tell_run(open, &ended);
}

/* Bytes moved elsewhere. */
ALWAYS void elsewhere(struct open_file *open, u64 start, u64 bytes, u32 flags)
{
	struct run ended = {};
	lock(&open->lock);
	struct run *run = &open->other;
	if (run->bytes && (run->flags != flags || run->start + run->bytes != start)) {
		ended.start = run->start;
		ended.bytes = run->bytes;
		ended.calls = run->calls;
		ended.flags = run->flags;
		run->bytes = 0;
		run->calls = 0;
	}
	if (!run->bytes)
		run->start = start;
	run->flags = flags;
	run->bytes += bytes;
	run->calls += 1;
	unlock(&open->lock);
	if (ended.bytes)
		tell_run(open, &ended);
}

/* A descriptor of the file goes; with the last one the file is closed. */
ONCE int leave(u64 key, u32 flags)
{
	struct open_file *open = map_get(&FILES, &key);
	if (!open || __sync_fetch_and_sub(&open->descriptors, 1) > 1)
		return 0;
	if (open->other.bytes)
		tell_run(open, &open->other);
	struct wire *event = begin(open, CLOSE, flags);
	if (event) {
		put_run(event, &open->here);
		event->size = GET(open->address, i_size);
		event->other = GET(open->address, i_nlink);
		end(event);
	}
	map_delete(&FILES, &key);
	return 0;
}

/* Begins to follow a file: enters it, and tells of it. */
ONCE int enter(u64 key, u32 more, u64 position, u32 descriptors)
{
	struct file *file = (struct file *)key;
	u32 mode = GET(file, f_mode);
	if (mode & FMODE_PATH)
		return 0;
	struct inode *inode = GET(file, f_inode);
	u32 type = GET(inode, i_mode) & S_IFMT;
	if (type != S_IFREG && type != S_IFDIR)
		return 0;
	struct super_block *super = GET(inode, i_sb);
	u32 device = GET(super, s_dev);
	if (BY_DEVICE && device != DEVICE)
		return 0;
	if (GET(super, s_flags) & (SB_KERNMOUNT | SB_NOUSER))
		return 0;
	u32 how = GET(file, f_flags);
	struct open_file open = {
		.descriptors = descriptors,
		.open = __sync_fetch_and_add(&last_open, 1) + 1,
		.inode = GET(inode, i_ino),
		.address = inode,
		.device = device,
		.flags = more | (mode & (FMODE_READ | FMODE_WRITE)),
	};
	if (how & O_APPEND)
		open.flags |= F_APPEND;
	if (how & O_DIRECT)
		open.flags |= F_DIRECT;
	if (type == S_IFDIR)
		open.flags |= F_DIRECTORY;
	if (mode & FMODE_CREATED)
		open.flags &= ~(u32)F_TRUNCATED;
	u64 size = GET(inode, i_size);
	/* Where access starts; a file that is read and appended to is read from its start. */
	int at_end = open.flags & F_APPEND && !(mode & FMODE_READ) && !(more & F_BEFORE);
	open.here.start = at_end ? size : position;

	struct path path = GET(file, f_path);
	u64 base;
	struct qstr name = {};
	if (type == S_IFDIR) {
		base = place_of(path.mnt, path.dentry);
	} else {
		base = place_of(path.mnt, GET(path.dentry, d_parent));
		name = GET(path.dentry, d_name);
	}
	/* An entry that is still there is of a file whose end was not seen. */
	struct open_file *old = map_get(&FILES, &key);
	if (old) {
		old->descriptors = 1;
		leave(key, F_IMPLICIT);
	}
	struct told *told = scratch();
	if (!told)
		return 0;
	__builtin_memset(&told->event, 0, sizeof(told->event));
	int is_new = more & F_NAMELESS || (mode & FMODE_CREATED && !(more & F_BEFORE));
	who(&told->event, is_new ? CREATE : OPEN);
	told->event.open = open.open;
	told->event.inode = open.inode;
	told->event.device = device;
	told->event.flags = open.flags;
	told->event.size = size;
	told->event.position = open.here.start;
	told->event.base = base;
	u32 length = (name.hash_len >> 32) & NAME_MAX;
	if (length && read_kernel(told->text, length, name.name))
		length = 0;
	told->event.length = length;
	if (map_set(&FILES, &key, &open, 0))
		count(LOST);
	send(told);
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

#define HAS(type, field) __builtin_preserve_field_info(((type *)0)->field, 2)

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

/* The open file behind a descriptor; one that was open before anybody looked is entered now, at `back` before its position. */
APART struct open_file *open_of(u64 descriptor, u64 back)
{
	if (!may_matter())
		return 0;
	struct file *file = file_of(descriptor);
	struct open_file *open = known(file);
	if (open || !file || !is_wanted())
		return open;
	enter((u64)file, F_BEFORE, GET(file, f_pos) - back, references(file));
	return known(file);
}
