// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The recorder's half in the kernel.
 *
 * It sits on the typed tracepoints of system calls and processes, and keeps for every open file the run that is going on
 * (state.h). Reads and writes only lengthen a run; what ends one sends it. So what goes to user space is the volume
 * of the no-read-write method of 1985, and the bytes are exact.
 *
 * `scripts/build-bpf` makes recorder.bpf.o of this, which is kept beside it: building Spindle needs no clang.
 *
 * files.h: open files. uses.h: what is done with them. requests.h: what io_uring and libaio do. names.h: their names. paths.h: calls that
 * take paths. latency.h: how long calls take. state.h: maps. wire.h: what is sent.
 */
#include "paths.h"
#include "requests.h"
#include "latency.h"

/* The kernel lends some of its functions only to programs that say this. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum call {
	READ = 0, WRITE = 1, CALL_OPEN = 2, CALL_CLOSE = 3, STAT_CALL = 4, FSTAT = 5, LSTAT = 6, LSEEK = 8, MMAP = 9, PREAD = 17,
	PWRITE = 18, READV = 19, WRITEV = 20, ACCESS_CALL = 21, MSYNC = 26, DUP = 32, DUP2 = 33, SENDFILE = 40, FCNTL = 72, FSYNC = 74, FDATASYNC = 75, TRUNCATE_PATH = 76, FTRUNCATE = 77,
	GETDENTS = 78, CHDIR_CALL = 80, FCHDIR = 81, SYNC_CALL = 162, IO_SUBMIT = 209, SYNCFS = 306, RENAME_CALL = 82, MKDIR_CALL = 83, RMDIR_CALL = 84, CREAT = 85, LINK_CALL = 86, UNLINK_CALL = 87,
	SYMLINK_CALL = 88, READLINK_CALL = 89, CHMOD_CALL = 90, FCHMOD = 91, CHOWN_CALL = 92, FCHOWN = 93, LCHOWN = 94,
	UTIME_CALL = 132, GETDENTS64 = 217, UTIMES = 235, OPENAT = 257, MKDIRAT = 258, FCHOWNAT = 260, FUTIMESAT = 261,
	NEWFSTATAT = 262, UNLINKAT = 263, RENAMEAT = 264, LINKAT = 265, SYMLINKAT = 266, READLINKAT = 267, FCHMODAT = 268,
	FACCESSAT = 269, SPLICE = 275, SYNC_FILE_RANGE = 277, UTIMENSAT = 280, DUP3 = 292, PREADV = 295, PWRITEV = 296,
	RENAMEAT2 = 316, COPY_FILE_RANGE = 326, PREADV2 = 327, PWRITEV2 = 328, STATX = 332,
	CLOSE_RANGE = 436,
	OPENAT2 = 437, PIDFD_GETFD = 438, FACCESSAT2 = 439, FCHMODAT2 = 452,
};

#define F_DUPFD 0
#define F_DUPFD_CLOEXEC 1030
#define F_SETFL 4
#define MS_SYNC 4
#define MAP_SHARED 1
#define MAP_ANONYMOUS 0x20
#define PROT_WRITE 2
#define AT_REMOVEDIR 0x200
#define RENAME_EXCHANGE 2
#define CLOSE_RANGE_CLOEXEC 4
#define USER32_CS 0x23

/* A table of descriptors that is gone through. */
struct walk {
	u64 files;    /* array of struct file * */
	u64 open;     /* its bits */
	u64 chosen;   /* only those with these bits, too; 0 for all */
	u32 first;
	u32 last;
	u32 flags;    /* of the closes */
	enum { GOING, ARRIVING, SYNCED } what; /* descriptors go, or come, or all of their files are written out */
	u64 super;    /* synced only on this file system; 0 for all */
};

static long walk_word(u32 index, struct walk *walk)
{
	u64 word = 0, chosen = ~0ull;
	read_kernel(&word, sizeof(word), (void *)(walk->open + index * 8ull));
	if (walk->chosen)
		read_kernel(&chosen, sizeof(chosen), (void *)(walk->chosen + index * 8ull));
	word &= chosen;
	for (u32 bit = 0; bit < 64; bit++) {
		u32 descriptor = index * 64 + bit;
		if (!(word >> bit))
			break;
		if (!(word >> bit & 1) || descriptor < walk->first || descriptor > walk->last)
			continue;
		struct file *file = file_at(walk->files + descriptor * 8ull);
		struct open_file *open;
		switch (walk->what) {
		case GOING:
			leave(number(file), walk->flags);
			break;
		case ARRIVING:
			open = known(number(file));
			if (open)
				__sync_fetch_and_add(&open->descriptors, 1);
			break;
		case SYNCED:
			if (!walk->super || walk->super == number(file->f_inode->i_sb))
				end_runs(number(file));
			break;
		}
	}
	return 0;
}

ALWAYS void walk_all(struct fdtable *table, struct walk *walk)
{
	walk->files = (u64)table->fd;
	walk->open = (u64)table->open_fds;
	u32 words = (table->max_fds + 63) / 64;
	loop(words, walk_word, walk, 0);
}

/*
 * Everything was written out, or what the file system of a file has: a sync of no file, on its device or none. Of the runs that it ends
 * only those of this process are told before it: no other's may be touched (is_own).
 */
APART int all_synced(struct file *file)
{
	if (!is_wanted() || (file && is_elsewhere(GET(file, f_inode))))
		return 0;
	struct open_file none = { .device = file ? device_of(GET(file, f_inode)) : 0 };
	struct walk walk = { .last = ~0u, .what = SYNCED, .super = file ? number(GET(GET(file, f_inode), i_sb)) : 0 };
	walk_all(self()->files->fdt, &walk);
	struct wire *event = begin(&none, SYNC, 0);
	if (event)
		end(event);
	return 0;
}

/* Tells of a file that is in use without a descriptor. */
ONCE int tell_file(u8 kind, u64 key)
{
	struct file *file = AS(struct file, key);
	struct inode *inode = file->f_inode;
	struct dentry *dentry = file->f_path.dentry;
	if (!is_wanted() || is_elsewhere(inode))
		return 0;
	u64 base = place_of(file->f_path.mnt, dentry->d_parent);
	struct told *told = scratch();
	if (!told)
		return 0;
	__builtin_memset(&told->event, 0, sizeof(told->event));
	who(&told->event, kind);
	told->event.device = device_of(inode);
	told->event.inode = inode->i_ino;
	told->event.size = kind == EXEC ? inode->i_size : 0;
	told->event.base = base;
	put_name(told, dentry);
	send(told);
	return 0;
}

static long take_file(struct task_struct *task, struct vm_area_struct *area, u64 *file)
{
	*file = number(AS(struct vm_area_struct, number(area))->vm_file);
	return 0;
}

/* What was written to a mapping was written out. Of its file there may be no descriptor any more. */
APART int mapping_synced(u64 address)
{
	u64 key = 0;
	if (!may_matter())
		return 0;
	find_mapping(current_task(), address, take_file, &key, 0);
	if (!key)
		return 0;
	struct open_file *open = known(key);
	if (!open) {
		if (is_data(AS(struct file, key)->f_inode))
			tell_file(SYNC, key);
		return 0;
	}
	end_runs(key);
	struct wire *event = begin(open, SYNC, 0);
	if (event)
		end(event);
	return 0;
}

/* Bytes moved at a position that the call takes from memory, and has moved on, if it is given one. */
ALWAYS void moved_by(u64 descriptor, u64 position_at, s64 bytes, u32 flags)
{
	u64 position = 0;
	if (!position_at) {
		moved(file_of(descriptor), bytes, flags);
		return;
	}
	read_user(&position, sizeof(position), (void *)position_at);
	moved_at(file_of(descriptor), position - bytes, bytes, flags);
}

APART int sought(u64 descriptor, u64 position)
{
	struct run ended = {};
	struct open_file *open = open_of(file_of(descriptor), 0);
	if (!open)
		return 0;
	lock(&open->lock);
	struct run *run = &open->here;
	ended.start = run->start;
	ended.bytes = run->bytes;
	ended.calls = run->calls;
	ended.flags = run->flags;
	int stays = ended.start + ended.bytes == position;
	if (!stays) {
		run->start = position;
		run->bytes = 0;
		run->calls = 0;
	}
	unlock(&open->lock);
	if (stays || open->flags & F_DIRECTORY)
		return 0;
	struct wire *event = begin(open, SEEK, 0);
	if (event) {
		put_run(event, &ended);
		event->other = position;
		end(event);
	}
	return 0;
}

APART int mapped(struct pt_regs *regs)
{
	u64 length = regs->si, flags = regs->r10, offset = regs->r9;
	if (flags & MAP_ANONYMOUS)
		return 0;
	struct open_file *open = open_of(file_of(regs->r8), 0);
	if (!open)
		return 0;
	/* Behind the end of the file there is nothing to reach. */
	u64 size = AS(struct inode, open->address)->i_size;
	if (offset >= size)
		return 0;
	if (length > size - offset)
		length = size - offset;
	u32 written = flags & MAP_SHARED && regs->dx & PROT_WRITE ? F_WRITTEN : 0;
	elsewhere(open, offset, length, F_MAPPED | written);
	return 0;
}

/* A call on a file that is named, or is open if the name is empty or missing. */
ALWAYS void named_or_open(u8 kind, struct named *names)
{
	char c = 0;
	if (names->first)
		read_user(&c, 1, (const char *)names->first);
	if (c)
		tell_paths(kind, names);
	else if (!(names->flags & F_FAILED))
		changed(file_of(names->at), kind);
}

ALWAYS void on_name(u8 kind, u32 flags, s64 at, u64 path)
{
	struct named names = { .at = at, .first = path, .flags = flags };
	named_or_open(kind, &names);
}

/* The beginning of `struct stat`. */
struct stat_head {
	u64 device;
	u64 inode;
	u64 links;
	u32 mode;
	u32 user;
	u64 group_and_padding;
	u64 special;
	u64 size;
};

/* The same of `struct statx`. */
struct statx_head {
	u64 mask_and_block;
	u64 attributes;
	u64 links_and_user;
	u32 group;
	u16 mode;
	u16 spare;
	u64 inode;
	u64 size;
	u64 others[10];
	u32 special[2];
	u32 major;
	u32 minor;
};

/* Device numbers as `stat` has them, and as the kernel counts. */
#define MAJOR_OF(device) ((device) >> 8 & 0xfff)
#define MINOR_OF(device) (((device) & 0xff) | ((device) >> 12 & 0xfff00))

/* Enters which file it is. */
ALWAYS void identify(struct named *names, u32 mode, u64 inode, u64 size, u32 major, u32 minor)
{
	names->inode = inode;
	names->size = size;
	names->device = major << 20 | minor;
	if ((mode & S_IFMT) == S_IFDIR)
		names->flags |= F_DIRECTORY;
}

ALWAYS void stat_by_name(u32 flags, s64 at, u64 path, u64 found)
{
	struct named names = { .at = at, .first = path, .flags = flags };
	struct stat_head head = {};
	if (!flags && !read_user(&head, sizeof(head), (void *)found))
		identify(&names, head.mode, head.inode, head.size, MAJOR_OF(head.device), MINOR_OF(head.device));
	named_or_open(STAT, &names);
}

ALWAYS void statx_by_name(u32 flags, s64 at, u64 path, u64 found)
{
	struct named names = { .at = at, .first = path, .flags = flags };
	struct statx_head head = {};
	if (!flags && !read_user(&head, sizeof(head), (void *)found))
		identify(&names, head.mode, head.inode, head.size, head.major, head.minor);
	named_or_open(STAT, &names);
}

/* Calls that only look at a file; they are told of when they fail, too. */
ALWAYS void looked(struct pt_regs *regs, u32 flags)
{
	s64 first = regs->di;
	u64 second = regs->si;
	switch (regs->orig_ax) {
	case STAT_CALL:
	case LSTAT:
		stat_by_name(flags, AT_FDCWD, first, second);
		break;
	case NEWFSTATAT:
		stat_by_name(flags, first, second, regs->dx);
		break;
	case STATX:
		statx_by_name(flags, first, second, regs->r8);
		break;
	case ACCESS_CALL:
		on_name(ACCESS, flags, AT_FDCWD, first);
		break;
	case FACCESSAT:
	case FACCESSAT2:
		on_name(ACCESS, flags, first, second);
		break;
	case READLINK_CALL:
		on_name(READLINK, flags, AT_FDCWD, first);
		break;
	case READLINKAT:
		on_name(READLINK, flags, first, second);
		break;
	}
}

/* A descriptor came that is not the first of its file. */
APART int doubled(u64 descriptor)
{
	if (!may_matter())
		return 0;
	struct open_file *open = known(number(file_of(descriptor)));
	if (open)
		__sync_fetch_and_add(&open->descriptors, 1);
	return 0;
}

/* The flags of an open file may have changed, for what is done with it from now on. */
APART int ways_changed(u64 descriptor)
{
	struct file *file = file_of(descriptor);
	if (!file || !may_matter())
		return 0;
	struct open_file *open = known(number(file));
	if (open)
		open->flags = (open->flags & ~(u32)(F_APPEND | F_DIRECT)) | ways(file->f_flags);
	return 0;
}

/* Programs of 32 bits have other numbers for their calls; they are only counted. */
ALWAYS int is_foreign(struct pt_regs *regs)
{
	return regs->cs == USER32_CS;
}

/* What it had begun to take away is not gone. */
ALWAYS void call_failed(u64 call)
{
	if (call == UNLINK_CALL || call == UNLINKAT || call == RENAME_CALL || call == RENAMEAT || call == RENAMEAT2) {
		u32 thread = current_pid_tgid();
		map_delete(&PENDING, &thread);
	}
}

/* The call as one whose time is measured, or TIMED_CALLS. */
ALWAYS u32 timed(u64 call)
{
	switch (call) {
	case CALL_OPEN:
	case CREAT:
	case OPENAT:
	case OPENAT2:
		return TIMED_OPEN;
	case READ:
	case READV:
	case PREAD:
	case PREADV:
	case PREADV2:
		return TIMED_READ;
	case WRITE:
	case WRITEV:
	case PWRITE:
	case PWRITEV:
	case PWRITEV2:
		return TIMED_WRITE;
	case FSYNC:
	case FDATASYNC:
	case SYNC_FILE_RANGE:
		return TIMED_SYNC;
	}
	return TIMED_CALLS;
}

const volatile u32 LOOKS = 1; /* calls are recorded that look at a file, or change only its attributes */

ALWAYS int is_look(u64 call)
{
	switch (call) {
	case STAT_CALL:
	case FSTAT:
	case LSTAT:
	case NEWFSTATAT:
	case STATX:
	case ACCESS_CALL:
	case FACCESSAT:
	case FACCESSAT2:
	case READLINK_CALL:
	case READLINKAT:
	case GETDENTS:
	case GETDENTS64:
	case CHDIR_CALL:
	case FCHDIR:
	case CHMOD_CALL:
	case FCHMOD:
	case FCHMODAT:
	case FCHMODAT2:
	case CHOWN_CALL:
	case FCHOWN:
	case LCHOWN:
	case FCHOWNAT:
	case UTIME_CALL:
	case UTIMES:
	case FUTIMESAT:
	case UTIMENSAT:
		return 1;
	}
	return 0;
}

SEC("tp_btf/sys_exit")
int call_ends(u64 *context)
{
	struct pt_regs *regs = (struct pt_regs *)context[0];
	s64 result = context[1];
	if (is_foreign(regs)) {
		if (is_wanted())
			count(FOREIGN);
		return 0;
	}
	if (TIMED) {
		u32 what = timed(regs->orig_ax);
		if (what < TIMED_CALLS)
			call_took(what, regs->orig_ax, file_of(what == TIMED_OPEN ? result : regs->di), result);
	}
	if (!LOOKS && is_look(regs->orig_ax))
		return 0;
	looked(regs, result < 0 ? F_FAILED : 0);
	if (result < 0) {
		call_failed(regs->orig_ax);
		return 0;
	}
	u64 first = regs->di;
	switch (regs->orig_ax) {
	case READ:
	case READV:
		moved(file_of(first), result, 0);
		break;
	case WRITE:
	case WRITEV:
		moved(file_of(first), result, F_WRITTEN);
		break;
	case PREAD:
	case PREADV:
		moved_at(file_of(first), regs->r10, result, 0);
		break;
	case PWRITE:
	case PWRITEV:
		moved_at(file_of(first), regs->r10, result, F_WRITTEN);
		break;
	case PREADV2:
		if ((s64)regs->r10 == -1)
			moved(file_of(first), result, 0);
		else
			moved_at(file_of(first), regs->r10, result, 0);
		break;
	case PWRITEV2:
		if ((s64)regs->r10 == -1)
			moved(file_of(first), result, F_WRITTEN);
		else
			moved_at(file_of(first), regs->r10, result, F_WRITTEN);
		if (result)
			written_out(file_of(first), regs->r9);
		break;
	case SENDFILE:
		moved_by(regs->si, regs->dx, result, 0);
		moved(file_of(first), result, F_WRITTEN);
		break;
	case COPY_FILE_RANGE:
	case SPLICE:
		moved_by(first, regs->si, result, 0);
		moved_by(regs->dx, regs->r10, result, F_WRITTEN);
		break;
	case CALL_OPEN:
		opened(file_of(result), regs->si);
		break;
	case CREAT:
		opened(file_of(result), O_TRUNC);
		break;
	case OPENAT:
		opened(file_of(result), regs->dx);
		break;
	case OPENAT2: {
		u64 flags = 0;
		read_user(&flags, sizeof(flags), (void *)regs->dx);
		opened(file_of(result), flags);
		break;
	}
	case LSEEK:
		sought(first, result);
		break;
	case MMAP:
		mapped(regs);
		break;
	case FTRUNCATE:
		changed(file_of(first), TRUNCATE);
		break;
	case FSTAT:
		changed(file_of(first), STAT);
		break;
	case GETDENTS:
	case GETDENTS64:
		changed(file_of(first), LIST);
		break;
	case CHDIR_CALL:
	case FCHDIR:
		moved_to(CHDIR);
		break;
	case FCHMOD:
		changed(file_of(first), CHMOD);
		break;
	case CHMOD_CALL:
		on_name(CHMOD, 0, AT_FDCWD, first);
		break;
	case FCHMODAT:
	case FCHMODAT2:
		on_name(CHMOD, 0, first, regs->si);
		break;
	case FCHOWN:
		changed(file_of(first), CHOWN);
		break;
	case CHOWN_CALL:
	case LCHOWN:
		on_name(CHOWN, 0, AT_FDCWD, first);
		break;
	case FCHOWNAT:
		on_name(CHOWN, 0, first, regs->si);
		break;
	case UTIME_CALL:
	case UTIMES:
		on_name(UTIME, 0, AT_FDCWD, first);
		break;
	case FUTIMESAT:
	case UTIMENSAT:
		on_name(UTIME, 0, first, regs->si);
		break;
	case SYMLINK_CALL:
		one_path(SYMLINK, 0, AT_FDCWD, regs->si, 0);
		break;
	case SYMLINKAT:
		one_path(SYMLINK, 0, regs->si, regs->dx, 0);
		break;
	case FSYNC:
	case FDATASYNC:
		changed(file_of(first), SYNC);
		break;
	case SYNC_CALL:
		all_synced(0);
		break;
	case SYNCFS:
		all_synced(file_of(first));
		break;
	case SYNC_FILE_RANGE:
		if (regs->r10 & SYNC_FILE_RANGE_WRITE)
			changed(file_of(first), SYNC);
		break;
	case FCNTL:
		if (regs->si == F_DUPFD || regs->si == F_DUPFD_CLOEXEC)
			doubled(result);
		else if (regs->si == F_SETFL)
			ways_changed(first);
		break;
	case DUP:
	case DUP3:
	case PIDFD_GETFD:
		doubled(result);
		break;
	case DUP2:
		if (first != regs->si)
			doubled(result);
		break;
	case UNLINK_CALL:
		one_path(UNLINK, 0, AT_FDCWD, first, 0);
		break;
	case UNLINKAT:
		if (regs->dx & AT_REMOVEDIR)
			one_path(RMDIR, F_DIRECTORY, first, regs->si, 0);
		else
			one_path(UNLINK, 0, first, regs->si, 0);
		break;
	case RMDIR_CALL:
		one_path(RMDIR, F_DIRECTORY, AT_FDCWD, first, 0);
		break;
	case MKDIR_CALL:
		one_path(MKDIR, F_DIRECTORY, AT_FDCWD, first, 0);
		break;
	case MKDIRAT:
		one_path(MKDIR, F_DIRECTORY, first, regs->si, 0);
		break;
	case TRUNCATE_PATH:
		one_path(TRUNCATE, 0, AT_FDCWD, first, regs->si);
		break;
	case RENAME_CALL:
		two_paths(RENAME, 0, AT_FDCWD, first, AT_FDCWD, regs->si);
		break;
	case RENAMEAT:
		two_paths(RENAME, 0, first, regs->si, regs->dx, regs->r10);
		break;
	case RENAMEAT2:
		two_paths(RENAME, regs->r8 & RENAME_EXCHANGE ? F_SWAPPED : 0, first, regs->si, regs->dx, regs->r10);
		break;
	case LINK_CALL:
		two_paths(LINK, 0, AT_FDCWD, first, AT_FDCWD, regs->si);
		break;
	case LINKAT:
		two_paths(LINK, 0, first, regs->si, regs->dx, regs->r10);
		break;
	case IO_SUBMIT:
		submitted(regs->dx, result);
		break;
	case MSYNC:
		if (regs->dx & MS_SYNC)
			mapping_synced(first);
		break;
	}
	return 0;
}

/* Descriptors go while the file still says what it is. */
SEC("tp_btf/sys_enter")
int call_begins(u64 *context)
{
	struct pt_regs *regs = (struct pt_regs *)context[0];
	if (is_foreign(regs))
		return 0;
	if (TIMED && timed(context[1]) < TIMED_CALLS)
		call_started(context[1]);
	switch (context[1]) {
	case CALL_CLOSE:
		if (may_matter())
			leave(number(file_of(regs->di)), 0);
		break;
	case DUP2:
	case DUP3:
		/* A target that is open is closed, if the call is not in vain. */
		if (regs->di != regs->si && may_matter() && file_of(regs->di))
			leave(number(file_of(regs->si)), F_IMPLICIT);
		break;
	case RENAME_CALL:
	case RENAMEAT:
	case RENAMEAT2:
		if (is_wanted()) {
			struct pending pending = { .renames = 1 };
			u32 thread = current_pid_tgid();
			map_set(&PENDING, &thread, &pending, 0);
		}
		break;
	case CLOSE_RANGE:
		if (!(regs->dx & CLOSE_RANGE_CLOEXEC) && may_matter()) {
			struct walk walk = { .first = regs->di, .last = regs->si };
			walk_all(self()->files->fdt, &walk);
		}
		break;
	}
	return 0;
}

SEC("tp_btf/sched_process_fork")
int process_starts(u64 *context)
{
	struct task_struct *parent = AS(struct task_struct, context[0]), *child = AS(struct task_struct, context[1]);
	u32 from = parent->tgid, to = child->tgid, one = 1;
	if (from == to)
		return 0;
	if (BY_TREE) {
		if (!map_get(&TREE, &from))
			return 0;
		map_set(&TREE, &to, &one, 0);
	}
	struct files_struct *files = child->files;
	if (files == parent->files) {
		u64 key = (u64)files;
		u32 *others = map_get(&SHARED, &key);
		if (others)
			__sync_fetch_and_add(others, 1);
		else
			map_set(&SHARED, &key, &one, 0);
		return 0;
	}
	struct walk walk = { .last = ~0u, .what = ARRIVING };
	walk_all(files->fdt, &walk);
	return 0;
}

SEC("tp_btf/sched_prepare_exec")
int program_replaced(u64 *context)
{
	if (!may_matter())
		return 0;
	struct fdtable *table = self()->files->fdt;
	struct walk walk = { .last = ~0u, .flags = F_IMPLICIT, .chosen = (u64)table->close_on_exec };
	walk_all(table, &walk);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int program_loaded(u64 *context)
{
	return tell_file(EXEC, number(AS(struct linux_binprm, context[2])->file));
}

SEC("tp_btf/sched_process_exit")
int process_ends(u64 *context)
{
	struct task_struct *task = AS(struct task_struct, context[0]);
	/* Only with the last thread; and only if no other process has the same table. */
	if (task->signal->live.counter != 0 || !may_matter())
		return 0;
	u32 process = task->tgid;
	struct files_struct *files = task->files;
	u64 key = (u64)files;
	u32 *others = map_get(&SHARED, &key);
	if (others) {
		if (__sync_fetch_and_sub(others, 1) == 1)
			map_delete(&SHARED, &key);
	} else if (files) {
		struct walk walk = { .last = ~0u, .flags = F_IMPLICIT };
		walk_all(files->fdt, &walk);
	}
	if (BY_TREE)
		map_delete(&TREE, &process);
	return 0;
}

/* ext4 tells what it unlinks, with the size and the number that the call does not know. */
SEC("tp_btf/ext4_unlink_enter")
int name_goes(u64 *context)
{
	struct dentry *dentry = AS(struct dentry, context[1]);
	if (!is_wanted())
		return 0;
	struct inode *inode = dentry->d_inode;
	/* Overlayfs removes the devices by which it had hidden files. */
	if (!inode || (inode->i_mode & S_IFMT) == S_IFCHR)
		return 0;
	struct pending pending = { .inode = inode->i_ino, .size = inode->i_size, .device = device_of(inode) };
	if (inode->i_nlink == 1)
		pending.flags = F_LAST;
	u32 thread = current_pid_tgid();
	map_set(&PENDING, &thread, &pending, 0);
	return 0;
}

/* And what it frees, which is how the file that a rename replaces is known. */
SEC("tp_btf/ext4_evict_inode")
int data_goes(u64 *context)
{
	struct inode *inode = AS(struct inode, context[0]);
	u32 thread = current_pid_tgid();
	if (inode->i_nlink || (inode->i_mode & S_IFMT) != S_IFREG)
		return 0;
	struct pending *pending = map_get(&PENDING, &thread);
	if (!pending || !pending->renames)
		return 0;
	pending->inode = inode->i_ino;
	pending->size = inode->i_size;
	pending->device = inode->i_sb->s_dev;
	pending->flags = F_LAST;
	return 0;
}
