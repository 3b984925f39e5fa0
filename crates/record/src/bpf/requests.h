/*
 * Requests of io_uring and libaio.
 *
 * A request of io_uring is recorded when it is completed: its bytes are exact. A request of libaio is recorded when it
 * is submitted, because no tracepoint says when it ends: its bytes are those that it asks for, as far as the file goes.
 */
#pragma once
#include "uses.h"

/* Opcodes of io_uring (include/uapi/linux/io_uring.h) of which the completion is recorded. */
enum request {
	URING_READV = 1, URING_WRITEV = 2, URING_FSYNC = 3, URING_READ_FIXED = 4, URING_WRITE_FIXED = 5, URING_SYNC_RANGE = 8,
	URING_OPENAT = 18, URING_CLOSE = 19, URING_READ = 22, URING_WRITE = 23, URING_OPENAT2 = 28, URING_FTRUNCATE = 55,
	URING_READV_FIXED = 60, URING_WRITEV_FIXED = 61,
};
#define BIT(number) (1ull << (number))
#define READS (BIT(URING_READV) | BIT(URING_READ_FIXED) | BIT(URING_READ) | BIT(URING_READV_FIXED))
#define WRITES (BIT(URING_WRITEV) | BIT(URING_WRITE_FIXED) | BIT(URING_WRITE) | BIT(URING_WRITEV_FIXED))
#define OPENS (BIT(URING_OPENAT) | BIT(URING_OPENAT2))
#define RECORDED (READS | WRITES | OPENS | BIT(URING_FSYNC) | BIT(URING_SYNC_RANGE) | BIT(URING_CLOSE) | BIT(URING_FTRUNCATE))
/* Those that are only counted: fallocate (17), statx (21), splice (30), and changes of names (35 to 39). */
#define COUNTED (BIT(17) | BIT(21) | BIT(30) | BIT(35) | BIT(36) | BIT(37) | BIT(38) | BIT(39))

/* Requests of libaio (include/uapi/linux/aio_abi.h). */
enum { AIO_PREAD = 0, AIO_PWRITE = 1, AIO_FSYNC = 2, AIO_FDSYNC = 3, AIO_PREADV = 7, AIO_PWRITEV = 8 };
struct aio_request {
	u64 data;
	u32 key;
	u32 flags; /* RWF_* */
	u16 code;
	u16 priority;
	u32 descriptor;
	u64 buffer;
	u64 bytes; /* of the buffer, or the number of its parts */
	s64 position;
};

ALWAYS u64 file_request(struct io_kiocb *request)
{
	u8 code = request->opcode;
	return code < 64 ? BIT(code) : 0;
}

/*
 * A request is counted as missing until it is completed, so that those whose completion is not seen stay in the count. A file is closed
 * before the completion of the request that closes it, so which one it is must be known before.
 */
SEC("tp_btf/io_uring_submit_req")
int request_starts(u64 *context)
{
	struct io_kiocb *request = AS(struct io_kiocb, context[0]);
	u64 code = file_request(request);
	if (!(code & (RECORDED | COUNTED)) || !is_wanted())
		return 0;
	if (code == BIT(URING_CLOSE)) {
		struct io_close *close = AS(struct io_close, context[0]);
		u64 key = context[0], file = close->file_slot ? 0 : number(file_of(close->fd));
		if (file)
			map_set(&CLOSING, &key, &file, 0);
		return 0;
	}
	count(URING);
	return 0;
}

/*
 * Bytes moved by a request, whose position has moved on with them. If the file's own position is the same now, it has moved, too. (Or it
 * was there before, and then it is the end of the run at the file's own position all the same.)
 */
APART int request_moved(u64 at, s64 bytes, u32 flags)
{
	struct kiocb *kiocb = AS(struct kiocb, at);
	struct file *file = kiocb->ki_filp;
	u64 end = kiocb->ki_pos;
	int is_own_position = GET(file, f_pos) == end;
	struct open_file *open = open_of(file, is_own_position ? bytes : 0);
	if (!open || bytes == 0)
		return 0;
	if (is_own_position)
		here(open, bytes, flags, end - bytes);
	else
		elsewhere(open, end - bytes, bytes, flags | F_POSITIONAL);
	/* They have those of the open file, too. */
	if (flags & F_WRITTEN && kiocb->ki_flags & (RWF_DSYNC | RWF_SYNC))
		noted(open, SYNC);
	return 0;
}

/* Completions come in the process of the request, also those that a thread of the kernel takes for it (SQPOLL). */
SEC("tp_btf/io_uring_complete")
int request_ends(u64 *context)
{
	u64 at = context[1];
	struct io_kiocb *request = AS(struct io_kiocb, at);
	u64 code = file_request(request);
	if (!(code & RECORDED) || !is_wanted())
		return 0;
	s64 result = request->cqe.res;
	if (code == BIT(URING_CLOSE)) {
		u64 *file = map_get(&CLOSING, &at);
		if (file && !result)
			leave(*file, 0);
		map_delete(&CLOSING, &at);
		return 0;
	}
	count_all(URING, -1);
	if (result < 0)
		return 0;
	if (code & READS)
		request_moved(at, result, 0);
	else if (code & WRITES)
		request_moved(at, result, F_WRITTEN);
	else if (code == BIT(URING_FTRUNCATE))
		changed(request->file, TRUNCATE);
	else if (code & OPENS) {
		struct io_open *open = AS(struct io_open, at);
		/* A file in the ring's own table is known from its first use on. */
		if (!open->file_slot)
			opened(file_of(result), open->how.flags);
	} else if (code == BIT(URING_FSYNC) || AS(struct io_sync, at)->flags & SYNC_FILE_RANGE_WRITE)
		changed(request->file, SYNC);
	return 0;
}

/* Parts of a buffer. */
struct parts {
	u64 first;
	u64 bytes;
};

static long add_part(u32 index, struct parts *parts)
{
	u64 part[2] = {};
	if (read_user(part, sizeof(part), (void *)(parts->first + index * sizeof(part))))
		return 1;
	parts->bytes += part[1];
	return 0;
}

/* Bytes that a request of libaio asks for. */
ALWAYS void asked(struct aio_request *request, u32 flags)
{
	struct file *file = file_of(request->descriptor);
	u64 bytes = request->bytes, position = request->position;
	if (!file)
		return;
	if (request->code >= AIO_PREADV) {
		struct parts parts = { .first = request->buffer };
		loop(bytes, add_part, &parts, 0);
		bytes = parts.bytes;
	}
	if (!(flags & F_WRITTEN)) {
		u64 size = GET(GET(file, f_inode), i_size);
		u64 left = position < size ? size - position : 0;
		bytes = bytes < left ? bytes : left;
	}
	moved_at(file, position, bytes, flags);
	if (bytes && flags & F_WRITTEN)
		written_out(file, request->flags);
}

static long take_request(u32 index, u64 *requests)
{
	u64 at = 0;
	struct aio_request request = {};
	if (read_user(&at, sizeof(at), (void *)(*requests + index * sizeof(at))) ||
		read_user(&request, sizeof(request), (void *)at))
		return 1;
	switch (request.code) {
	case AIO_PREAD:
	case AIO_PREADV:
		asked(&request, 0);
		break;
	case AIO_PWRITE:
	case AIO_PWRITEV:
		asked(&request, F_WRITTEN);
		break;
	case AIO_FSYNC:
	case AIO_FDSYNC:
		changed(file_of(request.descriptor), SYNC);
		break;
	default:
		return 0;
	}
	count(AIO);
	return 0;
}

/* Requests of libaio were submitted. */
ALWAYS void submitted(u64 requests, s64 number)
{
	if (is_wanted())
		loop(number, take_request, &requests, 0);
}
