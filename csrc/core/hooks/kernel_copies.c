/* Hooks of the calls that make the kernel copy from one descriptor to another, and of clones. */
#include "hooks/hooks.h"

#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

/* offset, output: the offsets in input and output, if the call gives them. */
static void begin_copy(struct pt_call *c, unsigned op, int in, int out, const int64_t *offset, const int64_t *output,
                       uint64_t size)
{
    struct pt_thread *t = pt_enter();
    c->thread = NULL;
    c->left_out = 0;
    c->op = (uint8_t)op;
    if (!t) {
        pt_begin_paused(op, out);
        c->left_out = pt_begin_paused(op, in);
        return;
    }
    pt_fd_entry from = pt_fd_get(t, in), to = pt_fd_get(t, out);
    if ((from & PT_FD_EXCLUDED) && (to & PT_FD_EXCLUDED)) {
        c->left_out = from;
        return;
    }
    if (PT_UNLIKELY((from | to) & (PT_FD_GAP | PT_FD_STALE))) {
        pt_position_gap_over(t, op, in, from);
        pt_position_gap_over(t, op, out, to);
    }
    c->from = in;
    c->to = out;
    c->output = output ? *output : -1;
    pt_begin(c, t, op, pt_entry_id(from), pt_entry_id(to), offset ? *offset : -1, size);
}

/* A record has no room for the offset in the output, so a second record has it. */
static void record_output(struct pt_call *c)
{
    struct pt_record *e = pt_claim(c->thread);
    if (!e)
        return;
    e->op = PT_OP_OUTPUT;
    e->parent = pt_id_of(c->record);
    e->begin = c->begin;
    e->offset = c->output;
    __atomic_store_n(&e->flags, PT_DONE, __ATOMIC_RELEASE);
}

/* After a successful call. */
static void output_of(struct pt_call *c)
{
    bool recorded =
        c->thread && c->disposition == PT_RECORDED && c->process_id == pt.process_id && !(pt.gate & PT_GATE_OFF);
    if (recorded && c->output >= 0)
        record_output(c);
}

static ssize_t end_copy(struct pt_call *c, ssize_t moved)
{
    ssize_t result = pt_end_bytes(c, moved);
    if (result >= 0)
        output_of(c);
    return result;
}

PT_HOOK_DECLARE(ssize_t, sendfile, int, int, off_t *, size_t);
ssize_t hook_sendfile(int out, int in, off_t *offset, size_t n)
{
    struct pt_call c;
    begin_copy(&c, PT_OP_SENDFILE, in, out, offset, NULL, n);
    return pt_end_bytes(&c, real_sendfile(out, in, offset, n));
}

PT_HOOK_DECLARE(ssize_t, copy_file_range, int, off_t *, int, off_t *, size_t, unsigned);
ssize_t hook_copy_file_range(int in, off_t *in_offset, int out, off_t *out_offset, size_t n, unsigned flags)
{
    struct pt_call c;
    begin_copy(&c, out_offset ? PT_OP_COPY_FILE_RANGE_AT : PT_OP_COPY_FILE_RANGE, in, out, in_offset, out_offset, n);
    return end_copy(&c, real_copy_file_range(in, in_offset, out, out_offset, n, flags));
}

PT_HOOK_DECLARE(ssize_t, splice, int, off_t *, int, off_t *, size_t, unsigned);
ssize_t hook_splice(int in, off_t *in_offset, int out, off_t *out_offset, size_t n, unsigned flags)
{
    struct pt_call c;
    begin_copy(&c, out_offset ? PT_OP_SPLICE_AT : PT_OP_SPLICE, in, out, in_offset, out_offset, n);
    return end_copy(&c, real_splice(in, in_offset, out, out_offset, n, flags));
}

PT_HOOK_DECLARE(ssize_t, tee, int, int, size_t, unsigned);
ssize_t hook_tee(int in, int out, size_t n, unsigned flags)
{
    struct pt_call c;
    begin_copy(&c, PT_OP_TEE, in, out, NULL, NULL, n);
    return pt_end_bytes(&c, real_tee(in, out, n, flags));
}

/* As in linux/fs.h, which is too old in manylinux2014 and missing with Debian's musl-gcc. */
struct clone_range {
    int64_t src_fd;
    uint64_t src_offset, src_length, dest_offset;
};
#define CLONE _IOW(0x94, 9, int)
#define CLONE_RANGE _IOW(0x94, 13, struct clone_range)

/* Clones by ioctl, whose files share their blocks: no byte moves, so none is counted. */
static void begin_clone(struct pt_call *c, int to, unsigned long request, const void *argument)
{
    if (request == CLONE) {
        begin_copy(c, PT_OP_FICLONE, (int)(intptr_t)argument, to, NULL, NULL, PT_SIZE_NONE);
        return;
    }
    const struct clone_range *range = argument;
    int64_t from = (int64_t)range->src_offset, output = (int64_t)range->dest_offset;
    begin_copy(c, PT_OP_FICLONERANGE, (int)range->src_fd, to, &from, &output, range->src_length);
}

/* Only these two requests concern the data of a file. Passes the third argument, if any, on as a full word. */
PT_HOOK_DECLARE(int, ioctl, int, unsigned long, ...);
int hook_ioctl(int fd, unsigned long request, ...)
{
    va_list ap;
    va_start(ap, request);
    void *argument = va_arg(ap, void *);
    va_end(ap);
    if (PT_LIKELY((uint32_t)request != CLONE && (uint32_t)request != CLONE_RANGE))
        return real_ioctl(fd, request, argument);
    struct pt_call c;
    begin_clone(&c, fd, (uint32_t)request, argument);
    int result = pt_end_int(&c, real_ioctl(fd, request, argument));
    if (result == 0)
        output_of(&c);
    return result;
}
