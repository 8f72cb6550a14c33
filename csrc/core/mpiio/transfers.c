/* Hooks of reads and writes.
 *
 * A blocking call is complete when it returns.  A nonblocking one gets its result from the call that completes its
 * request, a split one from its second half; the row of either stands for the first call. */
#include "mpiio/mpiio.h"

#include <string.h>

enum given { GIVEN_OFFSET, AT_POINTER, AT_SHARED_POINTER };

struct transfer {
    struct pt_mpi_span span;
    struct pt_mpi_file *file;
    bool traced;
    void *status; /* for the call: the program's, or `own` */
    uint64_t own[PT_MPI_MOST_STATUS / sizeof(uint64_t)];
};

static uint64_t size_of(int64_t count, mpi_handle type)
{
    int64_t each = 1, bytes;
    type = pt_mpi_handle(type);
    if (count < 0)
        return PT_SIZE_NONE;
    if (type != pt_mpi.byte && (count == 0 || type == pt_mpi.no_type || pt_mpi.query.Type_size_x(type, &each) != 0))
        return count == 0 ? 0 : PT_SIZE_NONE;
    return __builtin_mul_overflow(count, each, &bytes) || bytes < 0 ? PT_SIZE_NONE : (uint64_t)bytes;
}

static int64_t place_of(const struct transfer *x, mpi_handle file, enum given given, int64_t offset)
{
    if (given == AT_SHARED_POINTER)
        return -1; /* where the shared pointer is only the call itself finds out */
    if (given == AT_POINTER && (!x->file || pt_mpi.query.File_get_position(file, &offset) != 0))
        return -1;
    return x->file ? pt_mpi_place(x->file, file, offset) : -1;
}

static void begin(struct transfer *x, unsigned op, enum pt_mpi_function function, mpi_handle file, enum given given,
                  int64_t offset, int64_t count, mpi_handle type)
{
    struct pt_thread *t = pt_mpi_begin(&x->span, op);
    x->file = x->span.outermost ? pt_mpi_file(file) : NULL;
    x->traced = t != NULL;
    if (!t)
        return;
    struct pt_named path = x->file ? x->file->path : (struct pt_named){0, 0};
    pt_mpi_open(&x->span, t, path, pt_mpi_detail(x->file, function), place_of(x, file, given, offset),
                size_of(count, type));
    errno = x->span.span.errno_before;
}

static void *status_of(struct transfer *x, void *status)
{
    x->status = x->span.span.call.thread && pt_mpi_ignores(status) ? x->own : status;
    return x->status;
}

static int end(struct transfer *x, int result)
{
    bool known = !result && x->span.span.call.thread;
    return pt_mpi_end(&x->span, result, known ? pt_mpi_moved(x->status) : -1);
}

/* The call has returned, and its result comes later. */
static int end_later(struct transfer *x, int result, struct pt_late_result *later)
{
    *later = (struct pt_late_result){0};
    if (result || !x->span.outermost)
        return pt_mpi_end(&x->span, result, -1);
    int saved = errno;
    pt_mpi_depth--;
    *later = pt_library_end_later(&x->span.span);
    errno = saved;
    return result;
}

static int end_start(struct transfer *x, int result, const void *request)
{
    struct pt_mpi_request r = {.path = x->file ? x->file->path : (struct pt_named){0, 0}};
    end_later(x, result, &r.result);
    if (r.result.begin)
        pt_mpi_request_add(pt_mpi_request_at(request, 0), &r);
    return result;
}

static int end_begin(struct transfer *x, int result)
{
    struct pt_late_result later;
    end_later(x, result, &later);
    if (x->file)
        x->file->split = later;
    return result;
}

/* ---- the second half of split collectives ------------------------------------------------ */

struct second_half {
    struct pt_mpi_span span;
    struct pt_mpi_file *file;
    struct pt_late_result first;
    void *status;
    uint64_t own[PT_MPI_MOST_STATUS / sizeof(uint64_t)];
};

/* What happens in it happens for the first. */
static void begin_end(struct second_half *x, enum pt_mpi_function function, mpi_handle file, void *status)
{
    char name[40] = "MPI_";
    struct pt_thread *t = pt_mpi_begin(&x->span, PT_OP_SPAN_MPIIO);
    x->file = x->span.outermost ? pt_mpi_file(file) : NULL;
    x->first = x->file ? x->file->split : (struct pt_late_result){0};
    x->status = x->first.begin && pt_mpi_ignores(status) ? x->own : status;
    if (!t)
        return;
    strncat(name, pt_mpi_names[function], sizeof name - 5);
    struct pt_named path = x->file ? x->file->path : (struct pt_named){0, 0};
    pt_mpi_open(&x->span, t, path, pt_string(name, strlen(name), 0), 0, PT_SIZE_NONE);
    if (x->first.id && x->span.span.id) {
        t->parent = x->first.id;
        t->link = PT_LINK_CONTEXT;
    }
    errno = x->span.span.errno_before;
}

static int end_end(struct second_half *x, int result)
{
    struct pt_library_span *s = &x->span.span;
    if (s->id && s->call.thread == pt_self && pt_self->parent == x->first.id)
        pt_self->parent = s->id;
    if (x->first.begin) {
        int saved = errno;
        pt_late_result(&x->first, result ? -1 : pt_mpi_moved(x->status), result ? pt_mpi_errno(result) : 0);
        x->file->split.begin = 0;
        errno = saved;
    }
    return pt_mpi_end(&x->span, result, -1);
}

/* ---- made of their lines ------------------------------------------------------------------- */

#define OP_READ PT_OP_MPI_FILE_READ
#define OP_WRITE PT_OP_MPI_FILE_WRITE
#define BLOCKING(name, kind, given, offset, parameters, ...)                                \
    static int hook_##name parameters                                                       \
    {                                                                                       \
        struct transfer x;                                                                  \
        begin(&x, OP_##kind, PT_MPI_##name, file, given, offset, count, type);              \
        return end(&x, pt_mpi.real.name(__VA_ARGS__, data, count, type, status_of(&x, status))); \
    }
#define STARTING(name, kind, given, offset, parameters, ...)                                     \
    static int hook_##name parameters                                                            \
    {                                                                                            \
        struct transfer x;                                                                       \
        begin(&x, OP_##kind, PT_MPI_##name, file, given, offset, count, type);                   \
        return end_start(&x, pt_mpi.real.name(__VA_ARGS__, data, count, type, request), request); \
    }
#define BEGINNING(name, kind, given, offset, parameters, ...)                       \
    static int hook_##name parameters                                               \
    {                                                                               \
        struct transfer x;                                                          \
        begin(&x, OP_##kind, PT_MPI_##name, file, given, offset, count, type);      \
        return end_begin(&x, pt_mpi.real.name(__VA_ARGS__, data, count, type));     \
    }
#define HOOK_AT(name, kind, number) BLOCKING(name, kind, GIVEN_OFFSET, offset, MPI_AT(number), file, offset)
#define HOOK_POINTER(name, kind, number) BLOCKING(name, kind, AT_POINTER, 0, MPI_POINTER(number), file)
#define HOOK_SHARED(name, kind, number) BLOCKING(name, kind, AT_SHARED_POINTER, 0, MPI_SHARED(number), file)
#define HOOK_START_AT(name, kind, number) STARTING(name, kind, GIVEN_OFFSET, offset, MPI_START_AT(number), file, offset)
#define HOOK_START_POINTER(name, kind, number) STARTING(name, kind, AT_POINTER, 0, MPI_START_POINTER(number), file)
#define HOOK_START_SHARED(name, kind, number) STARTING(name, kind, AT_SHARED_POINTER, 0, MPI_START_SHARED(number), file)
#define HOOK_BEGIN_AT(name, kind, number) BEGINNING(name, kind, GIVEN_OFFSET, offset, MPI_BEGIN_AT(number), file, offset)
#define HOOK_BEGIN_POINTER(name, kind, number) BEGINNING(name, kind, AT_POINTER, 0, MPI_BEGIN_POINTER(number), file)
#define HOOK_BEGIN_SHARED(name, kind, number) BEGINNING(name, kind, AT_SHARED_POINTER, 0, MPI_BEGIN_SHARED(number), file)

#define TRANSFER(name, kind, form) HOOK_##form(name, kind, int) HOOK_##form(name##_c, kind, int64_t)
#define TRANSFER_END(name)                                                      \
    static int hook_##name MPI_END                                              \
    {                                                                           \
        struct second_half x;                                                   \
        begin_end(&x, PT_MPI_##name, file, status);                             \
        return end_end(&x, pt_mpi.real.name(file, data, x.status));             \
    }
#include "mpiio/mpiio.def"

/* The hooks of all lines; the others' are in hooks.c and completions.c. */
#define CALL(name, parameters, arguments) int pt_mpi_hook_##name parameters;
#define COMPLETION(name, parameters, arguments) int pt_mpi_hook_##name parameters;
#include "mpiio/mpiio.def"
void *const pt_mpi_hooks[PT_MPI_FUNCTIONS] = {
#define TRANSFER(name, kind, form) hook_##name, hook_##name##_c,
#define TRANSFER_END(name) hook_##name,
#define CALL(name, parameters, arguments) pt_mpi_hook_##name,
#define COMPLETION(name, parameters, arguments) pt_mpi_hook_##name,
#include "mpiio/mpiio.def"
};
