/* A call of a library above libc as a span: what happens to its file happens inside it.
 *
 * Unlike libc's functions, these calls cost microseconds themselves, and none of them runs in a signal handler. */
#ifndef PYIO_TRACE_LIBRARY_SPANS_H
#define PYIO_TRACE_LIBRARY_SPANS_H

#include "record/operation.h"

struct pt_library_span {
    struct pt_call call;
    uint32_t id, parent_before, link_before;
    int errno_before;
};

/* Returns the thread if the call should be described; NULL: it has fully begun. */
struct pt_thread *pt_library_begin(struct pt_library_span *s, unsigned op);
/* aux, offset: as the operation's shape has them. */
void pt_library_open(struct pt_library_span *s, struct pt_thread *t, struct pt_named path, uint32_t aux, int64_t offset,
                     uint64_t size);
/* Sets *path and *offset to what pt_library_open() recorded.  Returns false if it has recorded nothing. */
bool pt_library_described(const struct pt_library_span *s, uint32_t *path, int64_t *offset);
/* Before the end: what is known only after the call. */
void pt_library_describe(struct pt_library_span *s, int64_t offset);
/* moved: bytes, or -1 if there are none. error: a number of errno; 0: none. */
void pt_library_end(struct pt_library_span *s, int64_t moved, int error);

/* A call that has returned and whose result comes later.  Its record has none until then. */
struct pt_late_result {
    struct pt_record *record; /* NULL: its call has no record */
    uint64_t begin;
    uint64_t size;
    int64_t place;
    uint32_t id; /* by which what happens for it names it; 0: it has none */
    uint32_t process_id, epoch;
    uint8_t op, disposition;
};
/* Instead of pt_library_end. */
struct pt_late_result pt_library_end_later(struct pt_library_span *s);
void pt_late_result(const struct pt_late_result *l, int64_t moved, int error);

#endif
