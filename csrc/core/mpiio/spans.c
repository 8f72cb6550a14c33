/* A call of the MPI library as a span: begin, end, and the bytes that it has moved. */
#include "mpiio/mpiio.h"

PT_THREAD_LOCAL unsigned pt_mpi_depth;

/* Returns the thread if the call should be described. */
struct pt_thread *pt_mpi_begin(struct pt_mpi_span *s, unsigned op)
{
    pt_mpi_prepare();
    s->outermost = !pt_mpi_depth++;
    if (s->outermost)
        return pt_library_begin(&s->span, op);
    s->span.call.thread = NULL;
    s->span.call.left_out = 0;
    s->span.id = 0;
    return NULL;
}

void pt_mpi_open(struct pt_mpi_span *s, struct pt_thread *t, struct pt_named path, uint32_t aux, int64_t offset,
                 uint64_t size)
{
    pt_library_open(&s->span, t, path, aux, offset, size);
}

int pt_mpi_end(struct pt_mpi_span *s, int result, int64_t moved)
{
    int saved = errno;
    pt_mpi_depth--;
    if (s->outermost)
        pt_library_end(&s->span, result ? -1 : moved, result ? pt_mpi_errno(result) : 0);
    errno = saved;
    return result;
}

int64_t pt_mpi_moved(const void *status)
{
    int64_t bytes = -1;
    if (pt_mpi.query.Get_elements_x(status, pt_mpi.byte, &bytes) != 0 || bytes < 0)
        return -1;
    return bytes;
}
