/* Names of files, from the kernel's own tree of names. */
#pragma once
#include "state.h"

/* As many components as fit into a text. */
#define DEPTH (TEXT_MAX / 2)
#define BTRFS_MAGIC 0x9123683e

ALWAYS struct told *scratch(void)
{
	u32 zero = 0;
	return map_get(&SCRATCH, &zero);
}

/* Flags of a thread that the kernel has made for a process, as io_uring does, with a name of its own. */
#define PF_IO_WORKER 0x10
#define PF_USER_WORKER 0x4000

ALWAYS void who(struct wire *event, u8 kind)
{
	struct task_struct *task = self();
	if (task->flags & (PF_IO_WORKER | PF_USER_WORKER))
		task = task->group_leader;
	const u64 *command = (const u64 *)task->comm;
	event->time = now();
	event->kind = kind;
	event->spare = 0;
	event->user = task->cred->uid.val;
	event->process = task->tgid;
	event->command[0] = command[0];
	event->command[1] = command[1];
}

ALWAYS void send(struct told *told)
{
	u32 length = told->event.length;
	if (length > sizeof(told->text))
		return;
	/* Nobody is woken: the reader looks in fifty times a second. */
	if (ring_send(&EVENTS, told, sizeof(told->event) + length, 1))
		count(LOST);
}

/* The text of an event is a name. */
ALWAYS void put_name(struct told *told, struct dentry *dentry)
{
	u32 length = (dentry->d_name.hash_len >> 32) & NAME_MAX;
	if (read_kernel(told->text, length, dentry->d_name.name))
		length = 0;
	told->event.length = length;
}

/* The device of a file as `stat` says it: on btrfs each subvolume has its own, and inode numbers of its own. */
ALWAYS u32 device_of(struct inode *inode)
{
	struct super_block *super = GET(inode, i_sb);
	if (HAS(struct btrfs_root, anon_dev) && GET(super, s_magic) == BTRFS_MAGIC) {
		u64 offset = __builtin_preserve_field_info(((struct btrfs_inode *)0)->vfs_inode, 0);
		struct btrfs_root *root = AS(struct btrfs_inode, (u64)inode - offset)->root;
		u32 device = GET(root, anon_dev);
		if (device)
			return device;
	}
	return GET(super, s_dev);
}

/* Whether the file is on another file system than the one that is wanted. */
ALWAYS int is_elsewhere(struct inode *inode)
{
	return BY_DEVICE && GET(GET(inode, i_sb), s_dev) != DEVICE;
}

/* The way from a directory up to the root. */
struct way {
	struct vfsmount *mount;
	struct dentry *dentry;
	u32 is_whole;
};

#define MOUNT_OFFSET __builtin_preserve_field_info(((struct mount *)0)->mnt, 0)

ALWAYS struct mount *mount_of(struct vfsmount *mount)
{
	return (struct mount *)((u64)mount - MOUNT_OFFSET);
}

/* One step of it, which adds a name to the text; 1 ends it. */
static long step_up(u32 index, struct way *way)
{
	struct told *told = scratch();
	struct dentry *dentry = way->dentry, *parent = GET(dentry, d_parent);
	struct vfsmount *mount = way->mount;
	if (!told)
		return 1;
	u32 length = told->event.length;
	if (length >= TEXT_MAX)
		return 1;
	if (dentry == GET(mount, mnt_root) || dentry == parent) {
		/* The root of a mount: on from where it is mounted. */
		struct mount *whole = mount_of(mount);
		struct mount *under = GET(whole, mnt_parent);
		if (!under || under == whole) {
			way->is_whole = 1;
			return 1;
		}
		way->dentry = GET(whole, mnt_mountpoint);
		way->mount = (struct vfsmount *)((u64)under + MOUNT_OFFSET);
		return 0;
	}
	struct qstr name = GET(dentry, d_name);
	u32 size = (name.hash_len >> 32) & NAME_MAX;
	if (read_kernel(told->text + length, size, name.name))
		return 1;
	length += size;
	told->text[length] = 0;
	told->event.length = length + 1;
	way->dentry = parent;
	return 0;
}

/* Sends the name of a directory; it is `number` from now on. Only for directories seen for the first time, so it may cost. */
ONCE int send_place(u64 mount, u64 dentry, u64 number)
{
	struct told *told = scratch();
	if (!told)
		return 0;
	__builtin_memset(&told->event, 0, sizeof(told->event));
	who(&told->event, DIRECTORY);
	struct way way = { .mount = (struct vfsmount *)mount, .dentry = (struct dentry *)dentry };
	loop(DEPTH, step_up, &way, 0);
	told->event.base = number;
	told->event.device = device_of(GET((struct dentry *)dentry, d_inode));
	if (!way.is_whole)
		told->event.flags = F_CUT;
	send(told);
	return 0;
}

/* The number of a directory, whose name has been sent before. */
ONCE u64 place_by_number(u64 mount, u64 at)
{
	struct dentry *dentry = (struct dentry *)at;
	struct place place = {
		.mount = mount,
		.dentry = at,
		.parent = number(GET(dentry, d_parent)),
		.name = GET(dentry, d_name).hash_len,
	};
	u32 zero = 0;
	struct last *last = map_get(&LAST, &zero);
	if (!last)
		return 0;
	if (place.mount == last->place.mount && place.dentry == last->place.dentry && place.parent == last->place.parent &&
		place.name == last->place.name)
		return last->number;
	u64 *known = map_get(&PLACES, &place), new;
	if (!known) {
		new = __sync_fetch_and_add(&last_place, 1) + 1;
		send_place(mount, at, new);
		map_set(&PLACES, &place, &new, 0);
		known = &new;
	}
	last->place = place;
	last->number = *known;
	return last->number;
}

ALWAYS u64 place_of(struct vfsmount *mount, struct dentry *dentry)
{
	return place_by_number(number(mount), number(dentry));
}
