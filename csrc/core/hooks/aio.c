/* Hooks of POSIX asynchronous I/O.
 *
 * The record of an operation begins when it is submitted, with its size and offset, and ends when the program learns
 * its result: at aio_return, which alone tells the bytes, with the time at which aio_error first reported that it was
 * done.  In between, the address of the control block identifies it.  Threads of libc make the system calls, which
 * have no rows.  Signal handlers call aio_error and aio_return, so the table takes no lock. */
#include "hooks/hooks.h"

#include <aio.h>

#define PLACES 1024u
#define REACH 64u
static PT_TABLE struct submitted {
    const struct aiocb *block; /* atomic; NULL: never used, FREED: free again */
    uint32_t epoch;            /* pt.epoch at that time; a different one means a stop, or a forked child */
    uint64_t over;             /* ticks when its end was first reported; 0: not yet */
    struct pt_call call;
} submitted[PLACES];
#define FREED ((const struct aiocb *)1)

static struct submitted *place(const struct aiocb *block, uint32_t i)
{
    return &submitted[((uint32_t)((uintptr_t)block >> 4) * 2654435761u + i) % PLACES];
}

static struct submitted *find(const struct aiocb *block)
{
    for (uint32_t i = 0; i < REACH; i++) {
        struct submitted *s = place(block, i);
        const struct aiocb *at = __atomic_load_n(&s->block, __ATOMIC_ACQUIRE);
        if (at == block)
            return s;
        if (!at)
            return NULL;
    }
    return NULL;
}

static void forget(struct submitted *s)
{
    __atomic_store_n(&s->block, FREED, __ATOMIC_RELEASE);
}

/* Called before the real call, since a completion may be reported before it returns.  The block's address is stored
 * last, when the rest of the place is filled in. */
static struct submitted *note(const struct aiocb *block, const struct pt_call *c)
{
    struct submitted *stale = find(block);
    if (stale)
        forget(stale); /* its result was never fetched: it stays in flight */
    for (uint32_t i = 0; i < REACH; i++) {
        struct submitted *s = place(block, i);
        const struct aiocb *old = __atomic_load_n(&s->block, __ATOMIC_RELAXED);
        static const struct aiocb claimed;
        if (old && old != FREED)
            continue;
        if (!__atomic_compare_exchange_n(&s->block, &old, &claimed, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        s->call = *c;
        if (c->disposition)
            s->call.record = &s->call.scratch;
        s->epoch = pt.epoch;
        s->over = 0;
        __atomic_store_n(&s->block, block, __ATOMIC_RELEASE);
        return s;
    }
    return NULL;
}

/* ---- submitting --------------------------------------------------------------------- */

static void begin(struct pt_call *c, unsigned op, const struct aiocb *block)
{
    bool moves = op != PT_OP_AIO_FSYNC;
    pt_begin_fd(c, op, block->aio_fildes, moves ? block->aio_offset : -1, moves ? block->aio_nbytes : PT_SIZE_NONE);
}

typedef int submit_function(struct aiocb *);

static int submit(submit_function *real, unsigned op, struct aiocb *block)
{
    struct pt_call c;
    begin(&c, op, block);
    struct submitted *s = c.thread ? note(block, &c) : NULL;
    int result = real(block);
    if (c.thread && result < 0) {
        if (s)
            forget(s);
        pt_end(&c, -1, errno);
    } else if (c.thread && !s) {
        pt_end(&c, -1, 0); /* too many are in flight: its bytes stay unknown */
    } else if (!c.thread) {
        pt_end_untraced(&c, 0);
    }
    return result;
}

PT_HOOK_DECLARE(int, aio_read, struct aiocb *);
int hook_aio_read(struct aiocb *block)
{
    return submit(real_aio_read, PT_OP_AIO_READ, block);
}

PT_HOOK_DECLARE(int, aio_write, struct aiocb *);
int hook_aio_write(struct aiocb *block)
{
    return submit(real_aio_write, PT_OP_AIO_WRITE, block);
}

PT_HOOK_DECLARE(int, aio_fsync, int, struct aiocb *);
int hook_aio_fsync(int kind, struct aiocb *block)
{
    struct pt_call c;
    begin(&c, PT_OP_AIO_FSYNC, block);
    struct submitted *s = c.thread ? note(block, &c) : NULL;
    int result = real_aio_fsync(kind, block);
    if (s && result == 0)
        return result;
    if (s)
        forget(s);
    return pt_end_int(&c, result);
}

/* ---- what became of it ------------------------------------------------------------------ */

static struct submitted *current(const struct aiocb *block)
{
    struct submitted *s = find(block);
    return s && s->epoch == pt.epoch && !(pt.gate & PT_GATE_OFF) ? s : NULL;
}

PT_HOOK_DECLARE(int, aio_error, const struct aiocb *);
int hook_aio_error(const struct aiocb *block)
{
    int error = real_aio_error(block);
    struct submitted *s = error != EINPROGRESS ? current(block) : NULL;
    if (s && !s->over)
        s->over = pt_ticks();
    return error;
}

static void end_at(struct submitted *s, ssize_t moved, int error)
{
    struct pt_call c = s->call;
    struct pt_thread *t = pt_table_owner();
    uint64_t over = s->over;
    forget(s);
    if (!t)
        return;
    c.thread = t; /* the asking thread; the record stays where it was begun */
    if (c.disposition)
        c.record = &c.scratch;
    pt_end_at(&c, over ? over : pt_ticks(), moved, error); /* the time after its end is not its own */
}

PT_HOOK_DECLARE(ssize_t, aio_return, struct aiocb *);
ssize_t hook_aio_return(struct aiocb *block)
{
    struct submitted *s = current(block);
    if (!s)
        return real_aio_return(block);
    int error = real_aio_error(block);
    ssize_t n = real_aio_return(block);
    int saved = errno;
    if (error != EINPROGRESS)
        end_at(s, s->call.op == PT_OP_AIO_FSYNC ? -1 : n, n < 0 ? error : 0);
    errno = saved;
    return n;
}

/* ---- many at once, waiting, calling off ------------------------------------------------------ */

/* Each element of the list is an operation.  If the call fails, those that did not start stay in flight until the
 * program fetches their results. */
PT_HOOK_DECLARE(int, lio_listio, int, struct aiocb *const *, int, struct sigevent *);
int hook_lio_listio(int mode, struct aiocb *const *list, int count, struct sigevent *event)
{
    struct pt_call all;
    pt_begin_pathless(&all, PT_OP_LIO_LISTIO);
    for (int i = 0; all.thread && i < count; i++) {
        struct pt_call c;
        if (!list[i] || (list[i]->aio_lio_opcode != LIO_READ && list[i]->aio_lio_opcode != LIO_WRITE))
            continue;
        begin(&c, list[i]->aio_lio_opcode == LIO_READ ? PT_OP_AIO_READ : PT_OP_AIO_WRITE, list[i]);
        if (c.thread && !note(list[i], &c))
            pt_end(&c, -1, 0);
    }
    return pt_end_int(&all, real_lio_listio(mode, list, count, event));
}

PT_HOOK_DECLARE(int, aio_suspend, const struct aiocb *const *, int, const struct timespec *);
int hook_aio_suspend(const struct aiocb *const *list, int count, const struct timespec *timeout)
{
    struct pt_call c;
    pt_begin_pathless(&c, PT_OP_AIO_SUSPEND);
    return pt_end_int(&c, real_aio_suspend(list, count, timeout));
}

PT_HOOK_DECLARE(int, aio_cancel, int, struct aiocb *);
int hook_aio_cancel(int fd, struct aiocb *block)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_AIO_CANCEL, fd, -1, PT_SIZE_NONE);
    return pt_end_int(&c, real_aio_cancel(fd, block));
}
