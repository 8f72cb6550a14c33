/* What is known of open files: their paths, how many ranks share them, and their views.
 *
 * Found by handle without a lock.  Where there is no room for one more, its calls have no path. */
#include "mpiio/mpiio.h"
#include "state/path_strings.h"

#include <string.h>

#define FILES 1024u
#define REACH 16u
#define BUSY UINT64_MAX
static PT_TABLE struct pt_mpi_file files[FILES];
static PT_TABLE struct pt_mpi_file unknown;

static struct pt_mpi_file *place(mpi_handle file, uint32_t i)
{
    return &files[((uint32_t)(file >> 4 ^ file >> 20) * 2654435761u / 64 + i) % FILES];
}

/* Strings belong to one log. */
static struct pt_mpi_file *of_this_run(struct pt_mpi_file *f)
{
    if (PT_UNLIKELY(f->run != pt.run_id)) {
        f->path = (struct pt_named){0, 0};
        memset(f->details, 0, sizeof f->details);
        f->run = pt.run_id;
    }
    return f;
}

struct pt_mpi_file *pt_mpi_file(mpi_handle file)
{
    for (uint32_t i = 0; file && i < REACH; i++)
        if (__atomic_load_n(&place(file, i)->handle, __ATOMIC_ACQUIRE) == file)
            return of_this_run(place(file, i));
    return NULL;
}

void pt_mpi_file_opened(mpi_handle file, struct pt_named path, int ranks)
{
    pt_mpi_file_closed(file); /* by a call that was not seen */
    for (uint32_t i = 0; i < REACH; i++) {
        struct pt_mpi_file *f = place(file, i);
        uint64_t none = 0;
        if (!__atomic_compare_exchange_n(&f->handle, &none, BUSY, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        memset((char *)f + sizeof f->handle, 0, sizeof *f - sizeof f->handle);
        f->run = pt.run_id;
        f->path = path;
        f->ranks = ranks;
        f->plain = true;
        __atomic_store_n(&f->handle, file, __ATOMIC_RELEASE);
        return;
    }
}

void pt_mpi_file_closed(mpi_handle file)
{
    for (uint32_t i = 0; file && i < REACH; i++) {
        uint64_t handle = file;
        __atomic_compare_exchange_n(&place(file, i)->handle, &handle, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    }
}

/* ---- paths ------------------------------------------------------------------------------- */

struct pt_named pt_mpi_path(const char *path)
{
    static const char *const systems[] = {"ufs:", "nfs:", "xfs:", "testfs:", "lustre:", "gpfs:", "panfs:", "daos:"};
    for (unsigned i = 0; path && i < sizeof systems / sizeof *systems; i++)
        if (strncmp(path, systems[i], strlen(systems[i])) == 0) {
            path += strlen(systems[i]);
            break;
        }
    return pt_name(path);
}

/* ---- views ------------------------------------------------------------------------------- */

void pt_mpi_view(mpi_handle file, int64_t displacement, mpi_handle element, mpi_handle type)
{
    struct pt_mpi_file *f = pt_mpi_file(file);
    if (!f)
        return;
    f->plain = pt_mpi_handle(element) == pt_mpi.byte && pt_mpi_handle(type) == pt_mpi.byte && displacement >= 0;
    f->begin = displacement;
}

int64_t pt_mpi_place(const struct pt_mpi_file *f, mpi_handle file, int64_t offset)
{
    int64_t found = -1;
    if (offset < 0)
        return -1;
    if (PT_LIKELY(f && f->plain))
        return __builtin_add_overflow(f->begin, offset, &found) ? -1 : found;
    return pt_mpi.query.File_get_byte_offset(file, offset, &found) == 0 ? found : -1;
}

/* ---- details -------------------------------------------------------------------------------- */

static uint32_t make_detail(const struct pt_mpi_file *f, enum pt_mpi_function function)
{
    char call[40] = "MPI_";
    struct pt_text d;
    strncat(call, pt_mpi_names[function], sizeof call - 5);
    size_t length = strlen(call);
    if (length > 2 && strcmp(call + length - 2, "_c") == 0)
        call[length -= 2] = 0;
    bool collective = strstr(call, "_all") || strstr(call, "_ordered");
    pt_text_object(&d);
    pt_text_member(&d, "collective");
    pt_text_add(&d, collective ? "true" : "false");
    if (f->ranks > 0) {
        pt_text_member(&d, "ranks");
        pt_text_add_number(&d, (uint64_t)f->ranks);
    }
    pt_text_add(&d, "}");
    return pt_string(d.bytes, d.length, pt_string(call, length, 0));
}

uint32_t pt_mpi_detail(struct pt_mpi_file *f, enum pt_mpi_function function)
{
    f = f ? f : of_this_run(&unknown);
    uint32_t *at = &f->details[function], detail = __atomic_load_n(at, __ATOMIC_RELAXED);
    if (PT_UNLIKELY(!detail)) {
        detail = make_detail(f, function);
        __atomic_store_n(at, detail, __ATOMIC_RELAXED);
    }
    return detail;
}
