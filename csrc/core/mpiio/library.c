/* Which object is the MPI library, which slots lead to it, and what differs between the libraries.
 *
 * Every slot of another object for an MPI_ or PMPI_ name gets our function, which calls the library's PMPI function.  A
 * slot that is empty stays so: mpi4py asks whether there is a function by looking at it.  A tool that stands in for
 * MPI_ names keeps its slots; its own calls of PMPI_ names come to us.  As in hdf5/copies.c, only tables in memory are
 * read. */
#include "mpiio/mpiio.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

struct pt_mpi pt_mpi;

const char *const pt_mpi_names[PT_MPI_FUNCTIONS] = {
#define TRANSFER(name, kind, form) #name, #name "_c",
#define TRANSFER_END(name) #name,
#define CALL(name, parameters, arguments) #name,
#define COMPLETION(name, parameters, arguments) #name,
#include "mpiio/mpiio.def"
};
static const struct {
    const char *name;
    bool needed;
} queries[PT_MPI_QUERIES] = {
#define QUERY(name, parameters) {"PMPI_" #name, false},
#define NEEDED(name, parameters) {"PMPI_" #name, true},
#include "mpiio/mpiio.def"
};

static bool stood_in_for; /* another object defines MPI_File_open */

/* ---- names ------------------------------------------------------------------------------- */

static int find(const char *name)
{
    name += *name == 'P';
    if (strncmp(name, "MPI_", 4) != 0)
        return -1;
    for (int i = 0; i < PT_MPI_FUNCTIONS; i++)
        if (strcmp(name + 4, pt_mpi_names[i]) == 0)
            return i;
    return -1;
}

static bool has_name(const char *name)
{
    return find(name) >= 0;
}

static const char *name_at(unsigned i)
{
    static char name[40];
    strcpy(name, "MPI_");
    strncat(name, pt_mpi_names[i], sizeof name - 5);
    return name;
}

/* ---- the library ------------------------------------------------------------------------ */

static void *symbol_of(const struct pt_object *o, const char *prefix, const char *name)
{
    char whole[48];
    strcpy(whole, prefix);
    strncat(whole, name, sizeof whole - 6);
    return pt_object_symbol(o, whole);
}

static bool fill(struct pt_mpi *m, const struct pt_object *o)
{
    for (unsigned i = 0; i < PT_MPI_QUERIES; i++)
        if (!(m->query.at[i] = pt_object_symbol(o, queries[i].name)) && queries[i].needed)
            return false;
    for (unsigned i = 0; i < PT_MPI_FUNCTIONS; i++) {
        m->real.at[i] = symbol_of(o, "PMPI_", pt_mpi_names[i]);
        m->plain[i] = symbol_of(o, "MPI_", pt_mpi_names[i]);
    }
    return true;
}

/* A second library cannot be used in a process that uses one. */
static void object_found(const struct pt_object *o)
{
    void *open = pt_object_symbol(o, "PMPI_File_open");
    if (!open) {
        stood_in_for |= pt_object_symbol(o, "MPI_File_open") != NULL;
        return;
    }
    if (pt_mpi.present)
        return;
    if (pt_mpi.low == o->low && pt_mpi.real.File_open == open) {
        pt_mpi.present = true;
        return;
    }
    struct pt_mpi found = {.low = o->low, .present = true};
    if (fill(&found, o))
        pt_mpi = found;
    else if (pt.process_id)
        __atomic_fetch_or(&pt.process->blind, PT_BLIND_UNPATCHED, __ATOMIC_RELAXED);
}

static void objects_unloaded(void)
{
    pt_mpi.present = stood_in_for = false;
}

/* ---- slots ------------------------------------------------------------------------------ */

static void *for_slot(const struct pt_object *o, const char *name, const void *value, bool lazy, bool *undecided)
{
    int f = pt_mpi.present && value ? find(name) : -1;
    if (f < 0 || !pt_mpi.real.at[f])
        return NULL;
    if (value == pt_mpi.real.at[f] || value == pt_mpi.plain[f])
        return pt_mpi_hooks[f];
    if (!lazy || !pt_object_holds(o, (uintptr_t)value))
        return NULL;
    if (!stood_in_for || *name == 'P')
        return pt_mpi_hooks[f];
    *undecided = true;
    return NULL;
}

static void *for_symbol(const char *name, const void *found)
{
    int f = pt_mpi.present && found ? find(name) : -1;
    return f >= 0 && (found == pt_mpi.real.at[f] || found == pt_mpi.plain[f]) ? pt_mpi_hooks[f] : NULL;
}

__attribute__((constructor(101))) static void provide(void)
{
    static const struct pt_patched_library mpi = {"MP",         PT_MPI_FUNCTIONS, has_name, name_at,
                                                  object_found, objects_unloaded, for_slot, for_symbol};
    pt_library_register(&mpi);
}

/* ---- what differs --------------------------------------------------------------------------- */

static const struct pt_mpi_modes romio_modes = {128, 1, 64, 2, 4, 8}, standard_modes = {1, 2, 8, 16, 256, 32};
static const struct pt_mpi_errors mpich_errors = {20, 21, 22, 25, 36, 37, 39, 40},
                                  standard_errors = {20, 21, 23, 28, 41, 42, 44, 45};

struct variable {
    const char *name;
    void *found;
};

static int look_for_variable(struct dl_phdr_info *info, size_t size, void *data)
{
    struct variable *v = data;
    struct pt_object o;
    (void)size;
    if (pt_object_read(info, &o))
        v->found = pt_object_variable(&o, v->name);
    return v->found != NULL;
}

/* A program that is linked with the library may have a copy of the variable, which is the one that everybody uses; the
 * program comes first in the loader's list. */
static mpi_handle variable(const char *name)
{
    struct variable v = {name, NULL};
    dl_iterate_phdr(look_for_variable, &v);
    return (mpi_handle)v.found;
}

static bool is_standard(void)
{
    int major = 0, minor = 0;
    return pt_mpi.query.Abi_get_version && pt_mpi.query.Abi_get_version(&major, &minor) == 0 && major > 0;
}

static void fill_in(struct pt_mpi *m)
{
    if (is_standard()) {
        m->abi = PT_STANDARD_ABI;
        m->world = 0x101, m->no_communicator = 0x100, m->byte = 0x247, m->no_type = 0x200;
        m->no_request = 0x180, m->no_info = 0x130;
        m->ignored = NULL, m->status_size = 32, m->status_error = 2, m->request_size = 8;
        m->modes = &standard_modes, m->errors = &standard_errors;
    } else if ((m->byte = variable("ompi_mpi_byte"))) {
        m->abi = PT_OPEN_MPI;
        m->world = variable("ompi_mpi_comm_world"), m->no_communicator = variable("ompi_mpi_comm_null");
        m->no_type = variable("ompi_mpi_datatype_null"), m->no_request = variable("ompi_request_null");
        m->no_info = variable("ompi_mpi_info_null");
        m->ignored = NULL, m->status_size = 24, m->status_error = 2, m->request_size = 8;
        m->modes = &romio_modes, m->errors = &standard_errors;
    } else {
        m->abi = PT_MPICH;
        m->world = 0x44000000, m->no_communicator = 0x04000000, m->byte = 0x4c00010d, m->no_type = 0x0c000000;
        m->no_request = 0x2c000000, m->no_info = 0x1c000000;
        m->ignored = (const void *)1, m->status_size = 20, m->status_error = 4, m->request_size = 4;
        m->modes = &romio_modes, m->errors = &mpich_errors;
    }
}

/* Runs at the first hooked call, and not when the library is found: a library must be fully loaded to answer. */
void pt_mpi_prepare_slow(void)
{
    uint32_t none = 0;
    if (__atomic_compare_exchange_n(&pt_mpi.ready, &none, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        fill_in(&pt_mpi);
        __atomic_store_n(&pt_mpi.ready, 2, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&pt_mpi.ready, __ATOMIC_ACQUIRE) != 2)
        pt_sys(SYS_sched_yield, 0);
}

int pt_mpi_errno(int error)
{
    const struct pt_mpi_errors *e = pt_mpi.errors;
    int klass = 0;
    if (pt_mpi.query.Error_class(error, &klass) != 0)
        return EIO;
    const int known[][2] = {
        {e->access, EACCES},   {e->mode, EINVAL},         {e->bad_file, EINVAL}, {e->exists, EEXIST},
        {e->no_space, ENOSPC}, {e->no_such_file, ENOENT}, {e->quota, EDQUOT},    {e->read_only, EROFS},
    };
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (klass == known[i][0])
            return known[i][1];
    return EIO;
}
