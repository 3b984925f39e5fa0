/*
 * What the recorder needs to know of the kernel: the fields it reads and the functions it calls, nothing else.
 *
 * Only names matter in these structures: the loader moves every access to where the field is in the running kernel
 * (BTF, "compile once, run everywhere").
 */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define ALWAYS static inline __attribute__((always_inline))
#define APART static __attribute__((noinline))
/* Looked at by the verifier once, and not for each caller: takes numbers only. */
#define ONCE __attribute__((noinline))

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r10, r9, r8, dx, si, di, orig_ax, cs;
};

struct qstr {
	u64 hash_len;
	const unsigned char *name;
};

struct super_block {
	u32 s_dev;
	unsigned long s_flags;
	unsigned long s_magic;
};

struct inode {
	u16 i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	u32 i_nlink;
	s64 i_size;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	u32 f_mode;
	u32 f_flags;
	struct inode *f_inode;
	struct path f_path;
	s64 f_pos;
};

struct fdtable {
	u32 max_fds;
	struct file **fd;
	unsigned long *open_fds;
	unsigned long *close_on_exec;
};

typedef struct {
	int counter;
} atomic_t;

struct files_struct {
	atomic_t count;
	struct fdtable *fdt;
};

struct fs_struct {
	struct path root;
	struct path pwd;
};

struct signal_struct {
	atomic_t live;
};

typedef struct {
	u32 val;
} kuid_t;

struct cred {
	kuid_t uid;
};

struct task_struct {
	int pid;
	int tgid;
	const struct cred *cred;
	char comm[16];
	struct fs_struct *fs;
	struct files_struct *files;
	struct signal_struct *signal;
	unsigned int flags;
	struct task_struct *group_leader;
};

struct linux_binprm {
	struct file *file;
};

struct vm_area_struct {
	struct file *vm_file;
};

struct kiocb {
	struct file *ki_filp;
	s64 ki_pos;
	int ki_flags;
};

struct io_cqe {
	int res;
};

/* A request of io_uring; it begins with what its kind needs: a kiocb, or one of the structures below. */
struct io_kiocb {
	struct file *file;
	u8 opcode;
	struct io_cqe cqe;
};

struct open_how {
	u64 flags;
};

struct io_open {
	u32 file_slot;
	struct open_how how;
};

struct io_close {
	int fd;
	u32 file_slot;
};

struct io_sync {
	int flags;
};

struct btrfs_root {
	u32 anon_dev;
};

struct btrfs_inode {
	struct btrfs_root *root;
	struct inode vfs_inode;
};

#pragma clang attribute pop

struct bpf_spin_lock {
	u32 value;
};

/* Numbers of the kernel's helper functions (bpf-helpers(7)). */
static void *(*const map_get)(void *map, const void *key) = (void *)1;
static long (*const map_set)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const now)(void) = (void *)5;
static u64 (*const current_pid_tgid)(void) = (void *)14;
static u64 (*const current_uid_gid)(void) = (void *)15;
static long (*const lock)(struct bpf_spin_lock *) = (void *)93;
static long (*const unlock)(struct bpf_spin_lock *) = (void *)94;
static long (*const read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*const read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const read_user_text)(void *to, u32 size, const void *from) = (void *)114;
static u64 (*const current_ancestor_cgroup)(int level) = (void *)123;
static long (*const ring_send)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static void *(*const ring_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const ring_submit)(void *data, u64 flags) = (void *)132;
static u64 (*const ring_query)(void *ring, u64 what) = (void *)134;
static struct task_struct *(*const current_task)(void) = (void *)158;
static long (*const find_mapping)(struct task_struct *, u64 address, void *body, void *context, u64 flags) = (void *)180;
static long (*const loop)(u32 times, void *body, void *context, u64 flags) = (void *)181;

/* How a map is declared: the loader reads types and numbers out of BTF. */
#define NUMBER(name, value) int(*name)[value]
#define TYPE(name, value) value *name

#define MAP_HASH 1
#define MAP_PERCPU_ARRAY 6
#define MAP_LRU_HASH 9
#define MAP_RINGBUF 27
#define NO_PREALLOC 1

/*
 * The address of a kernel structure, with its type told to the verifier: then its fields, and those of what it points at, are read by
 * plain loads, which give 0 where there is nothing. `bpf_rdonly_cast` is a function of the kernel, and it has no number before the
 * kernel is there; the loader puts it in place of this one. It costs nothing: the verifier makes a move of it.
 */
#define RDONLY_CAST 0x7e57ca57
ALWAYS void *typed(const void *address, u64 type)
{
	void *same;
	asm("r1 = %1\nr2 = %2\n.byte 0x85, 0x20, 0, 0\n.long %3\n%0 = r0"
		: "=r"(same)
		: "r"(address), "r"(type), "i"(RDONLY_CAST)
		: "r0", "r1", "r2", "r3", "r4", "r5");
	return same;
}

/* An address as a number, which may be handed to what takes only numbers: to the verifier the negative of a pointer is one. */
ALWAYS u64 number(const void *address)
{
	u64 same = (u64)address;
	asm("%0 = -%0\n%0 = -%0" : "+r"(same));
	return same;
}

#define AS(type, address) ((type *)typed((const void *)(address), __builtin_btf_type_id(*(type *)0, 1)))
#define HAS(type, field) __builtin_preserve_field_info(((type *)0)->field, 2)
#define GET(pointer, field) (AS(typeof(*(pointer)), pointer)->field)

/* Of pointers that it trusts the verifier looks up every step by name among all that the kernel has: hence not these. */
ALWAYS struct task_struct *self(void)
{
	return AS(struct task_struct, current_task());
}
