/* An MPI library in this process, its open files, and its requests that are under way.
 *
 * One build serves MPICH, Open MPI and the standard ABI, without any mpi.h: they differ in a few constants and in the
 * sizes of a status and of a request's handle, and which library it is turns out at its first call.  Handles of other
 * kinds than files are only passed on or compared. */
#ifndef PYIO_TRACE_MPIIO_H
#define PYIO_TRACE_MPIIO_H

#include "base/text.h"
#include "log/intern.h"
#include "patch/patch.h"
#include "record/library_spans.h"

typedef uintptr_t mpi_handle; /* a pointer; in MPICH's own ABI an int, but for files */

/* Parameters of reads and writes, by form (mpiio.def); `number` is the type of their count. */
#define MPI_AT(number) (mpi_handle file, int64_t offset, void *data, number count, mpi_handle type, void *status)
#define MPI_POINTER(number) (mpi_handle file, void *data, number count, mpi_handle type, void *status)
#define MPI_SHARED(number) MPI_POINTER(number)
#define MPI_START_AT(number) (mpi_handle file, int64_t offset, void *data, number count, mpi_handle type, void *request)
#define MPI_START_POINTER(number) (mpi_handle file, void *data, number count, mpi_handle type, void *request)
#define MPI_START_SHARED(number) MPI_START_POINTER(number)
#define MPI_BEGIN_AT(number) (mpi_handle file, int64_t offset, void *data, number count, mpi_handle type)
#define MPI_BEGIN_POINTER(number) (mpi_handle file, void *data, number count, mpi_handle type)
#define MPI_BEGIN_SHARED(number) MPI_BEGIN_POINTER(number)
#define MPI_END (mpi_handle file, void *data, void *status)

enum pt_mpi_function {
#define TRANSFER(name, kind, form) PT_MPI_##name, PT_MPI_##name##_c,
#define TRANSFER_END(name) PT_MPI_##name,
#define CALL(name, parameters, arguments) PT_MPI_##name,
#define COMPLETION(name, parameters, arguments) PT_MPI_##name,
#include "mpiio/mpiio.def"
    PT_MPI_FUNCTIONS
};
enum pt_mpi_query {
#define QUERY(name, parameters) PT_MPI_QUERY_##name,
#include "mpiio/mpiio.def"
    PT_MPI_QUERIES
};

/* What differs between the libraries. */
enum pt_mpi_abi { PT_MPICH = 1, PT_OPEN_MPI = 2, PT_STANDARD_ABI = 3 };
struct pt_mpi_modes {
    int append, create, exclusive, read, write, both;
};
struct pt_mpi_errors {
    int access, mode, bad_file, exists, no_space, no_such_file, quota, read_only;
};

struct pt_mpi {
    uintptr_t low; /* of the object; 0: there is none */
    bool present;  /* false: unloaded at the latest pass */
    union {
        void *at[PT_MPI_FUNCTIONS]; /* PMPI_NAME; NULL: it has none */
        struct {
#define TRANSFER(name, kind, form) \
    int(*name) MPI_##form(int);    \
    int(*name##_c) MPI_##form(int64_t);
#define TRANSFER_END(name) int(*name) MPI_END;
#define CALL(name, parameters, arguments) int(*name) parameters;
#define COMPLETION(name, parameters, arguments) int(*name) parameters;
#include "mpiio/mpiio.def"
        };
    } real;
    void *plain[PT_MPI_FUNCTIONS]; /* MPI_NAME, which may be another function */
    union {
        void *at[PT_MPI_QUERIES];
        struct {
#define QUERY(name, parameters) int(*name) parameters;
#include "mpiio/mpiio.def"
        };
    } query;
    uint32_t ready; /* atomic: 2: the rest is filled in; 1: a thread is about to */
    enum pt_mpi_abi abi;
    mpi_handle world, no_communicator, byte, no_type, no_request, no_info;
    const void *ignored; /* MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE */
    unsigned status_size, status_error, request_size;
    const struct pt_mpi_modes *modes;
    const struct pt_mpi_errors *errors;
};
extern PT_INNER struct pt_mpi pt_mpi;
extern void *const pt_mpi_hooks[PT_MPI_FUNCTIONS];       /* the functions that slots are pointed at */
extern const char *const pt_mpi_names[PT_MPI_FUNCTIONS]; /* without "MPI_" */

PT_COLD void pt_mpi_prepare_slow(void); /* fills in what differs */
static inline void pt_mpi_prepare(void)
{
    if (PT_UNLIKELY(__atomic_load_n(&pt_mpi.ready, __ATOMIC_ACQUIRE) != 2))
        pt_mpi_prepare_slow();
}
/* A handle of another kind than a file, as it can be compared: an int leaves half of its register undefined. */
static inline mpi_handle pt_mpi_handle(mpi_handle given)
{
    return pt_mpi.abi == PT_MPICH ? (uint32_t)given : given;
}
int pt_mpi_errno(int error); /* of a call that has failed */

/* ---- files.c: what is known of open files ----------------------------------------------- */

#define PT_MPI_MOST_STATUS 64u /* bytes; no library's is larger */

struct pt_mpi_file {
    uint64_t handle; /* atomic; 0: the place is free */
    uint64_t run;    /* the run whose log has the strings */
    struct pt_named path;
    int ranks;                   /* of its communicator; 0: not known */
    bool plain;                  /* its view is of bytes without holes, so that a place is found without asking */
    int64_t begin;               /* then, where the view begins */
    struct pt_late_result split; /* the split collective under way */
    uint32_t details[PT_MPI_FUNCTIONS]; /* strings; 0: not made yet */
};
/* NULL: the file was opened before tracing began, or too many are open. */
struct pt_mpi_file *pt_mpi_file(mpi_handle file);
void pt_mpi_file_opened(mpi_handle file, struct pt_named path, int ranks);
void pt_mpi_file_closed(mpi_handle file);
struct pt_named pt_mpi_path(const char *path); /* without the name of a file system before it, which ROMIO takes */
void pt_mpi_view(mpi_handle file, int64_t displacement, mpi_handle element, mpi_handle type);
/* Where a transfer begins in the file, in bytes; -1: not known.  offset: as given, in units of the view. */
int64_t pt_mpi_place(const struct pt_mpi_file *f, mpi_handle file, int64_t offset);
/* The string of a transfer's detail, whose base is its name. */
uint32_t pt_mpi_detail(struct pt_mpi_file *f, enum pt_mpi_function function);

/* ---- requests.c: nonblocking calls whose result has not come yet ----------------------------- */

struct pt_mpi_request {
    struct pt_late_result result;
    struct pt_named path;
};
extern PT_INNER uint32_t pt_mpi_requests; /* atomic: how many there are */
static inline bool pt_mpi_any_request(void)
{
    return __atomic_load_n(&pt_mpi_requests, __ATOMIC_RELAXED) != 0;
}
uint64_t pt_mpi_request_at(const void *requests, int i);
bool pt_mpi_request_find(uint64_t handle, struct pt_mpi_request *found);
/* If there is no room, or the handle is replaced, the row of the call stays without its result. */
void pt_mpi_request_add(uint64_t handle, const struct pt_mpi_request *request);
bool pt_mpi_request_take(uint64_t handle, struct pt_mpi_request *found);

/* ---- spans.c ------------------------------------------------------------------------------------ */

/* Calls within one of ours are the library's own. */
extern PT_INNER PT_THREAD_LOCAL unsigned pt_mpi_depth;

struct pt_mpi_span {
    struct pt_library_span span;
    bool outermost;
};
struct pt_thread *pt_mpi_begin(struct pt_mpi_span *s, unsigned op);
void pt_mpi_open(struct pt_mpi_span *s, struct pt_thread *t, struct pt_named path, uint32_t aux, int64_t offset,
                 uint64_t size);
/* result: that of the call, which is returned. */
int pt_mpi_end(struct pt_mpi_span *s, int result, int64_t moved);
/* Bytes that a completed call has moved; -1: not known.  The status must be a real one, not MPI_STATUS_IGNORE. */
int64_t pt_mpi_moved(const void *status);
static inline bool pt_mpi_ignores(const void *status)
{
    return status == pt_mpi.ignored;
}

/* job.c: the rank that the library gives this process.  begun: ticks when it called MPI_Init. */
void pt_mpi_rank_found(uint64_t begun);

#endif
