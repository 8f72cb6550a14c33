/* Hooks of the calls that complete nonblocking reads and writes.
 *
 * A call that waits for a request of ours has a row; one that only looks has none.  What happens inside either happens
 * for the request, if there is one only.  While no request of ours is under way they cost next to nothing. */
#include "mpiio/mpiio.h"
#include "base/memory.h"

#include <string.h>

#define FEW 64

struct waiting {
    const void *requests;
    int count;
    struct pt_mpi_span span;
    bool has_row;
    struct pt_thread *thread;           /* NULL: its parent stays */
    uint32_t parent, link;              /* of the thread, before */
    struct pt_mpi_request request;      /* if it is the only one */
    uint64_t *handles;                  /* of our requests, by index; 0: it is none */
    char *statuses;                     /* for the call: the program's, or our own */
    size_t handles_size, statuses_size; /* of memory to give back */
    uint64_t few_handles[FEW];
    uint64_t few_statuses[FEW * 32 / sizeof(uint64_t)];
};
_Static_assert(sizeof((struct waiting *)0)->few_statuses >= FEW * 32, "the largest status has 32 bytes");

static void *room(uint64_t *few, bool fits, size_t size, size_t *taken)
{
    *taken = fits ? 0 : size;
    return fits ? few : pt_memory(size);
}

static void give_back(struct waiting *w)
{
    if (w->handles_size)
        pt_memory_back(w->handles, w->handles_size);
    if (w->statuses_size)
        pt_memory_back(w->statuses, w->statuses_size);
}

static unsigned find_ours(struct waiting *w)
{
    unsigned found = 0;
    for (int i = 0; i < w->count; i++) {
        uint64_t handle = pt_mpi_request_at(w->requests, i);
        bool ours = pt_mpi_request_find(handle, &w->request);
        w->handles[i] = ours ? handle : 0;
        found += ours;
    }
    return found;
}

static void open_row(struct waiting *w, const char *name, unsigned found)
{
    struct pt_thread *t = pt_mpi_begin(&w->span, PT_OP_SPAN_MPIIO);
    if (t)
        pt_mpi_open(&w->span, t, found == 1 ? w->request.path : (struct pt_named){0, 0},
                    pt_string(name, strlen(name), 0), 0, PT_SIZE_NONE);
}

static void set_parent(struct waiting *w, unsigned found)
{
    struct pt_thread *t = found == 1 && w->request.result.id ? pt_enter() : NULL;
    w->thread = t;
    if (!t)
        return;
    w->parent = t->parent;
    w->link = t->link;
    t->parent = w->request.result.id;
    t->link = PT_LINK_CONTEXT;
}

/* Prepares a call that may complete some of these requests.  statuses: as the program gave them; many: how many of them
 * the call may fill in.  Returns false if no request is ours: then the call is made as it is. */
static bool begin(struct waiting *w, const char *name, bool has_row, int count, const void *requests, void *statuses,
                  int many)
{
    if (PT_LIKELY(!pt_mpi_any_request()) || pt_mpi_depth || count <= 0)
        return false;
    w->requests = requests;
    w->count = count;
    w->has_row = has_row;
    w->statuses_size = 0;
    w->statuses = statuses;
    w->handles = room(w->few_handles, count <= FEW, (size_t)count * sizeof *w->handles, &w->handles_size);
    if (!w->handles)
        return false; /* no memory: their completions are not seen */
    unsigned found = find_ours(w);
    if (found && pt_mpi_ignores(statuses)) {
        w->statuses = room(w->few_statuses, many <= FEW, (size_t)many * pt_mpi.status_size, &w->statuses_size);
        found = w->statuses ? found : 0;
    }
    if (!found) {
        if (w->handles_size)
            pt_memory_back(w->handles, w->handles_size);
        return false;
    }
    if (has_row)
        open_row(w, name, found);
    else
        pt_mpi_depth++;
    set_parent(w, found);
    return true;
}

/* Stores the result of the request at this index if it is complete.  k: the index of its status; error: of the call.
 * Cancellation is not checked: neither library cancels file requests, and Open MPI never sets that field for them. */
static void completed(struct waiting *w, int i, int k, int error)
{
    struct pt_mpi_request r;
    const char *status = w->statuses + (size_t)k * pt_mpi.status_size;
    if (i < 0 || i >= w->count || !w->handles[i] || pt_mpi_request_at(w->requests, i) != pt_mpi.no_request ||
        !pt_mpi_request_take(w->handles[i], &r))
        return;
    if (error && w->count > 1)
        error = ((const int *)status)[pt_mpi.status_error];
    pt_late_result(&r.result, error ? -1 : pt_mpi_moved(status), error ? pt_mpi_errno(error) : 0);
}

static void leave(struct waiting *w)
{
    struct pt_thread *t = w->thread;
    if (t && t == pt_self && t->parent == w->request.result.id) {
        t->parent = w->parent;
        t->link = w->link;
    }
}

static int end(struct waiting *w, int result)
{
    int saved = errno;
    if (w->has_row)
        pt_mpi_end(&w->span, result, -1);
    else
        pt_mpi_depth--;
    give_back(w);
    errno = saved;
    return result;
}

static int one_completed(struct waiting *w, int i, int result)
{
    leave(w);
    completed(w, i, 0, result);
    return end(w, result);
}

static int all_completed(struct waiting *w, int result)
{
    leave(w);
    for (int i = 0; i < w->count; i++)
        completed(w, i, i, result);
    return end(w, result);
}

static int some_completed(struct waiting *w, const int *done, const int *indices, int result)
{
    leave(w);
    for (int k = 0; k < *done && *done <= w->count; k++)
        completed(w, indices[k], k, result);
    return end(w, result);
}

/* ---- waiting ------------------------------------------------------------------------------ */

int pt_mpi_hook_Wait(void *request, void *status)
{
    struct waiting w;
    if (!begin(&w, "MPI_Wait", true, 1, request, status, 1))
        return pt_mpi.real.Wait(request, status);
    return one_completed(&w, 0, pt_mpi.real.Wait(request, w.statuses));
}

int pt_mpi_hook_Waitany(int count, void *requests, int *index, void *status)
{
    struct waiting w;
    if (!begin(&w, "MPI_Waitany", true, count, requests, status, 1))
        return pt_mpi.real.Waitany(count, requests, index, status);
    int result = pt_mpi.real.Waitany(count, requests, index, w.statuses);
    return one_completed(&w, *index, result);
}

int pt_mpi_hook_Waitsome(int count, void *requests, int *done, int *indices, void *statuses)
{
    struct waiting w;
    if (!begin(&w, "MPI_Waitsome", true, count, requests, statuses, count))
        return pt_mpi.real.Waitsome(count, requests, done, indices, statuses);
    int result = pt_mpi.real.Waitsome(count, requests, done, indices, w.statuses);
    return some_completed(&w, done, indices, result);
}

int pt_mpi_hook_Waitall(int count, void *requests, void *statuses)
{
    struct waiting w;
    if (!begin(&w, "MPI_Waitall", true, count, requests, statuses, count))
        return pt_mpi.real.Waitall(count, requests, statuses);
    return all_completed(&w, pt_mpi.real.Waitall(count, requests, w.statuses));
}

/* ---- looking -------------------------------------------------------------------------------- */

int pt_mpi_hook_Test(void *request, int *flag, void *status)
{
    struct waiting w;
    if (!begin(&w, NULL, false, 1, request, status, 1))
        return pt_mpi.real.Test(request, flag, status);
    return one_completed(&w, 0, pt_mpi.real.Test(request, flag, w.statuses));
}

int pt_mpi_hook_Testany(int count, void *requests, int *index, int *flag, void *status)
{
    struct waiting w;
    if (!begin(&w, NULL, false, count, requests, status, 1))
        return pt_mpi.real.Testany(count, requests, index, flag, status);
    int result = pt_mpi.real.Testany(count, requests, index, flag, w.statuses);
    return one_completed(&w, *index, result);
}

int pt_mpi_hook_Testsome(int count, void *requests, int *done, int *indices, void *statuses)
{
    struct waiting w;
    if (!begin(&w, NULL, false, count, requests, statuses, count))
        return pt_mpi.real.Testsome(count, requests, done, indices, statuses);
    int result = pt_mpi.real.Testsome(count, requests, done, indices, w.statuses);
    return some_completed(&w, done, indices, result);
}

int pt_mpi_hook_Testall(int count, void *requests, int *flag, void *statuses)
{
    struct waiting w;
    if (!begin(&w, NULL, false, count, requests, statuses, count))
        return pt_mpi.real.Testall(count, requests, flag, statuses);
    return all_completed(&w, pt_mpi.real.Testall(count, requests, flag, w.statuses));
}

/* ---- letting go ------------------------------------------------------------------------------ */

/* A freed request has no result that anybody will see. */
int pt_mpi_hook_Request_free(void *request)
{
    struct pt_mpi_request r;
    if (pt_mpi_any_request() && !pt_mpi_depth)
        pt_mpi_request_take(pt_mpi_request_at(request, 0), &r);
    return pt_mpi.real.Request_free(request);
}
