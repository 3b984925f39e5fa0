/* What system calls and requests of io_uring and libaio do with an open file. */
#pragma once
#include "files.h"

#define O_TRUNC 01000
#define O_TMPFILE 020000000
#define RWF_DSYNC 2
#define RWF_SYNC 4
#define SYNC_FILE_RANGE_WRITE 2

/* Ends a run of an open file, so that a sync or a truncation stands between what came before it and what comes after it. */
ALWAYS void end_run(struct open_file *open, struct run *run)
{
	struct run ended = {};
	lock(&open->lock);
	ended.start = run->start;
	ended.bytes = run->bytes;
	ended.calls = run->calls;
	ended.flags = run->flags;
	run->start += run->bytes;
	run->bytes = 0;
	run->calls = 0;
	unlock(&open->lock);
	if (ended.bytes)
		tell_run(open, &ended);
}

/* Ends both runs of an open file. */
ONCE int end_runs(u64 key)
{
	struct open_file *open = known(key);
	if (!open)
		return 0;
	end_run(open, &open->other);
	end_run(open, &open->here);
	return 0;
}

/* Something was done with an open file that moves no bytes. */
APART int noted(struct open_file *open, u8 kind)
{
	if (!open)
		return 0;
	if (kind == SYNC || kind == TRUNCATE)
		end_runs(open->file);
	struct wire *event = begin(open, kind, 0);
	if (event) {
		if (kind == TRUNCATE || kind == STAT)
			event->size = AS(struct inode, open->address)->i_size;
		end(event);
	}
	return 0;
}

APART int changed(struct file *file, u8 kind)
{
	return noted(open_of(file, 0), kind);
}

/* Bytes moved at the file's own position. */
APART int moved(struct file *file, s64 bytes, u32 flags)
{
	struct open_file *open = open_of(file, bytes);
	if (!open || bytes == 0)
		return 0;
	u64 start = -1;
	if (open->flags & F_APPEND && flags & F_WRITTEN)
		start = GET(file, f_pos) - bytes;
	here(open, bytes, flags, start);
	if (flags & F_WRITTEN && GET(file, f_flags) & O_DSYNC)
		noted(open, SYNC);
	return 0;
}

/* Bytes moved at a position of the call's own. */
APART int moved_at(struct file *file, u64 position, s64 bytes, u32 flags)
{
	struct open_file *open = open_of(file, 0);
	if (!open || bytes == 0)
		return 0;
	/* Linux appends even then. */
	if (open->flags & F_APPEND && flags & F_WRITTEN)
		position = AS(struct inode, open->address)->i_size - bytes;
	elsewhere(open, position, bytes, flags | F_POSITIONAL);
	if (flags & F_WRITTEN && GET(file, f_flags) & O_DSYNC)
		noted(open, SYNC);
	return 0;
}

/* After a write that asked by its own flags to be written out; with O_DSYNC that is recorded already. */
ALWAYS void written_out(struct file *file, u32 flags)
{
	if (flags & (RWF_DSYNC | RWF_SYNC) && !(GET(file, f_flags) & O_DSYNC))
		noted(known(number(file)), SYNC);
}

/* A file got a descriptor; `flags` are those of the call that opened it. */
APART int opened(struct file *file, u64 flags)
{
	if (!file || !is_wanted())
		return 0;
	u32 more = 0;
	if ((flags & O_TMPFILE) == O_TMPFILE)
		more = F_NAMELESS;
	else if (flags & O_TRUNC)
		more = F_TRUNCATED;
	enter(number(file), more, 0, 1);
	return 0;
}
