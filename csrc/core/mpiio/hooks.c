/* Hooks of the calls that open, close and change files, and of those that start MPI. */
#include "mpiio/mpiio.h"
#include "state/path_strings.h"

#include <string.h>

#define MOST_HINTS 1536u /* bytes of a detail after which no more are added */

/* A span with the call's own name, on an open file. */
static struct pt_thread *begin_on(struct pt_mpi_span *s, unsigned op, enum pt_mpi_function function, mpi_handle file,
                                  struct pt_text *detail)
{
    char name[40] = "MPI_";
    struct pt_thread *t = pt_mpi_begin(s, op);
    struct pt_mpi_file *f = t ? pt_mpi_file(file) : NULL;
    if (!t)
        return NULL;
    strncat(name, pt_mpi_names[function], sizeof name - 5);
    if (detail)
        pt_text_add(detail, "}");
    pt_mpi_open(s, t, f ? f->path : (struct pt_named){0, 0},
                op == PT_OP_SPAN_MPIIO ? pt_string(name, strlen(name), 0) : 0,
                detail ? pt_detail(detail->bytes, detail->length) : 0, PT_SIZE_NONE);
    errno = s->span.errno_before;
    return t;
}

static void add_count(struct pt_text *d, const char *key, int64_t value)
{
    pt_text_member(d, key);
    if (value < 0)
        pt_text_add(d, "-");
    pt_text_add_number(d, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void add_mode(struct pt_text *d, int mode)
{
    const struct pt_mpi_modes *m = pt_mpi.modes;
    pt_text_member(d, "mode");
    pt_text_add(d, mode & m->both ? "\"rw" : mode & m->write ? "\"w" : "\"r");
    if (mode & m->create)
        pt_text_add(d, "|create");
    if (mode & m->exclusive)
        pt_text_add(d, "|excl");
    if (mode & m->append)
        pt_text_add(d, "|append");
    pt_text_add(d, "\"");
}

static bool hint(mpi_handle info, const char *key, char *value, int room)
{
    int flag = 0;
    if (pt_mpi.query.Info_get_string)
        return pt_mpi.query.Info_get_string(info, key, &room, value, &flag) == 0 && flag;
    return pt_mpi.query.Info_get && pt_mpi.query.Info_get(info, key, room - 1, value, &flag) == 0 && flag;
}

/* The hints in force, which the library has chosen. */
static void add_hints(struct pt_text *d, mpi_handle file)
{
    char key[257], value[1025];
    mpi_handle info = 0;
    int count = 0;
    if (!pt_mpi.query.File_get_info || !pt_mpi.query.Info_get_nkeys || !pt_mpi.query.Info_get_nthkey ||
        !pt_mpi.query.Info_free || pt_mpi.query.File_get_info(file, &info) != 0)
        return;
    if (pt_mpi.query.Info_get_nkeys(info, &count) != 0)
        count = 0;
    pt_text_member(d, "hints");
    pt_text_add(d, "{");
    for (int i = 0; i < count && d->length < MOST_HINTS; i++) {
        memset(key, 0, sizeof key);
        memset(value, 0, sizeof value);
        if (pt_mpi.query.Info_get_nthkey(info, i, key) != 0 || !hint(info, key, value, sizeof value) ||
            d->length + strlen(key) + strlen(value) > MOST_HINTS)
            continue;
        pt_text_member(d, key);
        pt_text_add(d, "\"");
        pt_text_add_escaped(d, value);
        pt_text_add(d, "\"");
    }
    pt_text_add(d, "}");
    pt_mpi.query.Info_free(&info);
}

static void describe_opening(struct pt_text *d, int ranks, int mode)
{
    pt_text_object(d);
    pt_text_member(d, "collective");
    pt_text_add(d, "true");
    if (ranks > 0)
        add_count(d, "ranks", ranks);
    add_mode(d, mode);
}

/* The hints are known when the file is open. */
static void describe_opened(struct pt_mpi_span *s, struct pt_text *d, mpi_handle file)
{
    struct pt_call *c = &s->span.call;
    if (!c->thread || c->disposition != PT_RECORDED || c->process_id != pt.process_id || pt.gate & PT_GATE_OFF)
        return;
    d->length--; /* the closing brace */
    add_hints(d, file);
    pt_text_add(d, "}");
    c->record->offset = pt_detail(d->bytes, d->length);
}

int pt_mpi_hook_File_open(mpi_handle comm, const char *path, int mode, mpi_handle info, mpi_handle *file)
{
    struct pt_mpi_span s;
    struct pt_text d;
    struct pt_thread *t = pt_mpi_begin(&s, PT_OP_MPI_FILE_OPEN);
    int ranks = 0, saved = errno;
    struct pt_named name = s.outermost && pt_table_owner() ? pt_mpi_path(path) : (struct pt_named){0, 0};
    if (s.outermost && pt_mpi_handle(comm) != pt_mpi.no_communicator && pt_mpi.query.Comm_size(comm, &ranks) != 0)
        ranks = 0;
    if (t) {
        describe_opening(&d, ranks, mode);
        pt_text_add(&d, "}");
        pt_mpi_open(&s, t, name, 0, pt_detail(d.bytes, d.length), PT_SIZE_NONE);
    }
    errno = saved;
    int result = pt_mpi.real.File_open(comm, path, mode, info, file);
    saved = errno;
    if (!result && s.outermost) {
        pt_mpi_file_opened(*file, name, ranks);
        if (t)
            describe_opened(&s, &d, *file);
    }
    errno = saved;
    return pt_mpi_end(&s, result, -1);
}

int pt_mpi_hook_File_close(mpi_handle *file)
{
    struct pt_mpi_span s;
    mpi_handle closed = *file;
    begin_on(&s, PT_OP_MPI_FILE_CLOSE, PT_MPI_File_close, closed, NULL);
    int result = pt_mpi.real.File_close(file);
    if (!result)
        pt_mpi_file_closed(closed);
    return pt_mpi_end(&s, result, -1);
}

int pt_mpi_hook_File_delete(const char *path, mpi_handle info)
{
    struct pt_mpi_span s;
    struct pt_thread *t = pt_mpi_begin(&s, PT_OP_SPAN_MPIIO);
    int saved = errno;
    if (t)
        pt_mpi_open(&s, t, pt_mpi_path(path), pt_string("MPI_File_delete", 15, 0), 0, PT_SIZE_NONE);
    errno = saved;
    return pt_mpi_end(&s, pt_mpi.real.File_delete(path, info), -1);
}

/* ---- open files -------------------------------------------------------------------------------- */

int pt_mpi_hook_File_sync(mpi_handle file)
{
    struct pt_mpi_span s;
    begin_on(&s, PT_OP_MPI_FILE_SYNC, PT_MPI_File_sync, file, NULL);
    return pt_mpi_end(&s, pt_mpi.real.File_sync(file), -1);
}

static int resize(mpi_handle file, int64_t size, enum pt_mpi_function function, int (*real)(mpi_handle, int64_t))
{
    struct pt_mpi_span s;
    struct pt_text d;
    pt_text_object(&d);
    add_count(&d, "size", size);
    begin_on(&s, PT_OP_SPAN_MPIIO, function, file, &d);
    return pt_mpi_end(&s, real(file, size), -1);
}

int pt_mpi_hook_File_set_size(mpi_handle file, int64_t size)
{
    return resize(file, size, PT_MPI_File_set_size, pt_mpi.real.File_set_size);
}

int pt_mpi_hook_File_preallocate(mpi_handle file, int64_t size)
{
    return resize(file, size, PT_MPI_File_preallocate, pt_mpi.real.File_preallocate);
}

int pt_mpi_hook_File_get_size(mpi_handle file, int64_t *size)
{
    struct pt_mpi_span s;
    begin_on(&s, PT_OP_SPAN_MPIIO, PT_MPI_File_get_size, file, NULL);
    return pt_mpi_end(&s, pt_mpi.real.File_get_size(file, size), -1);
}

int pt_mpi_hook_File_set_view(mpi_handle file, int64_t displacement, mpi_handle element, mpi_handle type,
                              const char *representation, mpi_handle info)
{
    struct pt_mpi_span s;
    struct pt_text d;
    pt_text_object(&d);
    add_count(&d, "displacement", displacement);
    begin_on(&s, PT_OP_SPAN_MPIIO, PT_MPI_File_set_view, file, &d);
    int result = pt_mpi.real.File_set_view(file, displacement, element, type, representation, info);
    if (!result && s.outermost)
        pt_mpi_view(file, displacement, element, type);
    return pt_mpi_end(&s, result, -1);
}

int pt_mpi_hook_File_set_info(mpi_handle file, mpi_handle info)
{
    struct pt_mpi_span s;
    begin_on(&s, PT_OP_SPAN_MPIIO, PT_MPI_File_set_info, file, NULL);
    return pt_mpi_end(&s, pt_mpi.real.File_set_info(file, info), -1);
}

int pt_mpi_hook_File_set_atomicity(mpi_handle file, int on)
{
    struct pt_mpi_span s;
    begin_on(&s, PT_OP_SPAN_MPIIO, PT_MPI_File_set_atomicity, file, NULL);
    return pt_mpi_end(&s, pt_mpi.real.File_set_atomicity(file, on), -1);
}

int pt_mpi_hook_File_seek(mpi_handle file, int64_t offset, int whence)
{
    struct pt_mpi_span s;
    begin_on(&s, PT_OP_SPAN_MPIIO, PT_MPI_File_seek, file, NULL);
    return pt_mpi_end(&s, pt_mpi.real.File_seek(file, offset, whence), -1);
}

int pt_mpi_hook_File_seek_shared(mpi_handle file, int64_t offset, int whence)
{
    struct pt_mpi_span s;
    begin_on(&s, PT_OP_SPAN_MPIIO, PT_MPI_File_seek_shared, file, NULL);
    return pt_mpi_end(&s, pt_mpi.real.File_seek_shared(file, offset, whence), -1);
}

/* ---- the start of MPI ------------------------------------------------------------------------------ */

/* Open MPI has loaded its components by now. */
static int started(int result, uint64_t begun)
{
    int saved = errno;
    pt_mpi_depth--;
    if (!result) {
        pt_mpi_prepare();
        pt_mpi_rank_found(begun);
        pt_got_patch_new();
    }
    errno = saved;
    return result;
}

int pt_mpi_hook_Init(int *argc, char ***argv)
{
    uint64_t begun = pt_ticks();
    pt_mpi_depth++;
    return started(pt_mpi.real.Init(argc, argv), begun);
}

int pt_mpi_hook_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    uint64_t begun = pt_ticks();
    pt_mpi_depth++;
    return started(pt_mpi.real.Init_thread(argc, argv, required, provided), begun);
}
