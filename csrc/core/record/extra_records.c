/* Records that are not operations: the rest of one that did not fit, and a position that was looked up. */
#include "record/unrecorded.h"
#include "base/sys.h"
#include "log/intern.h"

#include <string.h>
#include <unistd.h>

PT_COLD void pt_end_wide(struct pt_call *c, int64_t moved, int error)
{
    struct pt_record *e = pt_claim(c->thread);
    if (!e)
        return;
    e->op = PT_OP_EXT;
    e->parent = pt_id_of(c->record);
    e->offset = c->size == PT_SIZE_NONE ? -1 : (int64_t)c->size;
    e->begin = error && moved < 0 ? 0 : (uint64_t)moved;
    __atomic_store_n(&e->flags, (uint8_t)(error ? PT_DONE | PT_FAILED : PT_DONE), __ATOMIC_RELEASE);
}

/* The processor time of a span's thread in it. */
PT_COLD void pt_span_took(struct pt_thread *t, const struct pt_call *span, int64_t ns)
{
    struct pt_record *r = pt_claim(t);
    if (!r)
        return;
    r->op = PT_OP_CPU;
    r->parent = pt_id_of(span->record);
    r->begin = span->begin;
    r->offset = ns;
    r->size = r->result = PT_NO_BYTES;
    __atomic_store_n(&r->flags, PT_DONE, __ATOMIC_RELEASE);
}

/* The type of the exception that a call has ended with. */
PT_COLD void pt_raised(const struct pt_call *c, const char *type)
{
    uint32_t name = c->disposition == PT_RECORDED ? pt_string(type, strlen(type), 0) : 0;
    struct pt_record *r = name ? pt_claim(c->thread) : NULL;
    if (!r)
        return;
    r->op = PT_OP_RAISED;
    r->parent = pt_id_of(c->record);
    r->begin = c->begin;
    r->offset = name;
    r->size = r->result = PT_NO_BYTES;
    __atomic_store_n(&r->flags, PT_DONE, __ATOMIC_RELEASE);
}

/* Looks up the position at the first call after a gap. */
PT_COLD void pt_position_found_slow(struct pt_thread *t, int fd, pt_fd_entry e)
{
    uint64_t now = pt_ticks(); /* before lseek: what another thread moves from now on comes after it */
    long position = pt_sys(SYS_lseek, fd, 0, SEEK_CUR);
    struct pt_record *r = pt_claim(t);
    if (!r || t->borrowed_memory)
        return;
    r->op = PT_OP_RESUME;
    r->desc = pt_entry_id(e);
    r->aux = (uint32_t)fd;
    r->offset = position < 0 ? -1 : position;
    r->size = r->result = PT_NO_BYTES;
    r->begin = now;
    __atomic_store_n(&r->flags, PT_DONE, __ATOMIC_RELEASE);
    pt_position_gap_closed(fd, e);
}
