/* Calls that name files by path: told as the program said it, with the directory that it starts at. */
#pragma once
#include "files.h"

#define AT_FDCWD -100

/* Where a relative path starts. */
ALWAYS u64 start_of(s64 descriptor)
{
	if ((int)descriptor == AT_FDCWD) {
		struct fs_struct *fs = self()->fs;
		return place_of(fs->pwd.mnt, fs->pwd.dentry);
	}
	struct file *file = file_of(descriptor);
	return file ? place_of(file->f_path.mnt, file->f_path.dentry) : 0;
}

/* Where an absolute path starts: 0, unless the process has a root of its own (chroot). */
ALWAYS u64 root(void)
{
	struct fs_struct *fs = self()->fs;
	struct vfsmount *mount = fs->root.mnt;
	struct dentry *dentry = fs->root.dentry;
	if (dentry == GET(mount, mnt_root)) {
		/* The root of all mounts, or what is mounted on it. */
		struct mount *under = GET(mount_of(mount), mnt_parent);
		if (under == GET(under, mnt_parent) && GET(mount_of(mount), mnt_mountpoint) == GET(under, mnt.mnt_root))
			return 0;
	}
	return place_of(mount, dentry);
}

/* What a call on one or two names says; each name with the directory that it starts at. */
struct named {
	s64 at;
	u64 first;
	s64 second_at;
	u64 second; /* 0 if there is one name */
	/* Of the file, if the call knows it. */
	u64 size;
	u64 inode;
	u32 device;
	u32 flags;
};

/* Tells of a call with its names as the program gave them. */
APART int tell_paths(u8 kind, struct named *names)
{
	if (!names || !is_wanted())
		return 0;
	s64 at = names->at, second_at = names->second_at;
	const char *first = (const char *)names->first, *second = (const char *)names->second;
	char c = 0;
	u64 base = 0, second_base = 0;
	read_user(&c, 1, first);
	base = c == '/' ? root() : start_of(at);
	if (second) {
		read_user(&c, 1, second);
		second_base = c == '/' ? root() : start_of(second_at);
	}
	struct told *told = scratch();
	if (!told)
		return 0;
	__builtin_memset(&told->event, 0, sizeof(told->event));
	who(&told->event, kind);
	told->event.flags = names->flags;
	told->event.base = base;
	told->event.other = second_base;
	told->event.size = names->size;
	told->event.inode = names->inode;
	told->event.device = names->device;
	s64 got = read_user_text(told->text, TEXT_MAX, first);
	if (got <= 0)
		return 0;
	u32 length = got;
	length &= TEXT_MAX - 1;
	if (second) {
		got = read_user_text(told->text + length, TEXT_MAX, second);
		if (got <= 0)
			return 0;
		length += got;
	}
	u32 thread = current_pid_tgid();
	struct pending *pending = kind == UNLINK || kind == RENAME ? map_get(&PENDING, &thread) : 0;
	if (pending) {
		told->event.inode = pending->inode;
		told->event.device = pending->device;
		told->event.size = pending->size;
		told->event.flags |= pending->flags;
		map_delete(&PENDING, &thread);
	}
	told->event.length = length;
	send(told);
	return 0;
}

ALWAYS void one_path(u8 kind, u32 flags, s64 at, u64 path, u64 size)
{
	struct named names = { .at = at, .first = path, .size = size, .flags = flags };
	tell_paths(kind, &names);
}

/* The working directory of the process, after a change. */
APART int moved_to(u8 kind)
{
	if (!is_wanted())
		return 0;
	u64 base = start_of(AT_FDCWD);
	struct told *told = scratch();
	if (!told)
		return 0;
	__builtin_memset(&told->event, 0, sizeof(told->event));
	who(&told->event, kind);
	told->event.flags = F_DIRECTORY;
	told->event.base = base;
	send(told);
	return 0;
}

ALWAYS void two_paths(u8 kind, u32 flags, s64 at, u64 path, s64 second_at, u64 second)
{
	struct named names = { .at = at, .first = path, .second_at = second_at, .second = second, .flags = flags };
	tell_paths(kind, &names);
}
