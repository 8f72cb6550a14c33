/* Parallel HDF5: how a call moved its data, which the library tells after the call.
 *
 * HDF5 may do an independent transfer where a collective one was asked for.  It then says why, once for this rank and
 * once for all ranks together. */
#include "base/hash.h"
#include "hdf5/spans.h"

/* ---- which files are those of MPI-IO ------------------------------------------------------
 * The library would have to duplicate a communicator, in which all ranks take part, to tell it of an open file.  So
 * it is asked about the properties with which the file was opened. */

#define FILES 1024u
static PT_TABLE uint64_t files[FILES]; /* atomic: hashes of the copy and the path; an unlucky one is forgotten */

static uint64_t file_key(const struct pt_h5 *h, uint32_t path)
{
    uint64_t key[] = {pt.run_id, path, (uint64_t)(h - pt_h5_copies)};
    return pt_hash_bytes(key, sizeof key, 1);
}

static bool is_parallel(const struct pt_h5 *h, uint32_t path)
{
    uint64_t key = file_key(h, path);
    return path && __atomic_load_n(&files[key % FILES], __ATOMIC_RELAXED) == key;
}

static bool by_mpi(struct pt_h5 *h, struct pt_thread *t, h5_id access)
{
    if (!access) /* H5P_DEFAULT */
        return false;
    pt_h5_begin_asking(t);
    bool by_mpi = h->parallel.H5Pget_driver(access) == h->parallel.H5FD_mpio_init();
    pt_h5_end_asking(t);
    return by_mpi;
}

void pt_h5_note_driver(struct pt_h5 *h, struct pt_thread *t, struct pt_named path, h5_id access, h5_id file)
{
    if (!t || file < 0 || !h->is_parallel || !path.id)
        return;
    int saved = errno;
    uint64_t key = file_key(h, path.id);
    uint64_t *place = &files[key % FILES];
    if (by_mpi(h, t, access))
        __atomic_store_n(place, key, __ATOMIC_RELAXED);
    else
        __atomic_compare_exchange_n(place, &key, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    errno = saved;
}

/* ---- how data was moved -------------------------------------------------------------------- */

/* H5FD_mpio_xfer_t */
static const char *const asked[] = {"independent", "collective"};
/* H5D_mpio_actual_io_mode_t */
static const char *const actual[] = {"independent", "chunks independent", "chunks collective", "chunks mixed",
                                     "collective"};
/* Bits of H5D_mpio_no_collective_cause_t */
static const char *const causes[] = {"set_independent",
                                     "datatype_conversion",
                                     "data_transforms",
                                     "mpi_types_disabled",
                                     "not_simple_or_scalar_dataspaces",
                                     "not_contiguous_or_chunked_dataset",
                                     "parallel_filtered_writes_disabled",
                                     "error_while_checking",
                                     "no_selection_io"};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static void add_word(struct pt_text *d, const char *key, const char *const *words, unsigned count, int number)
{
    if (number < 0 || (unsigned)number >= count)
        return;
    pt_text_member(d, key);
    pt_text_add(d, "\"");
    pt_text_add(d, words[number]);
    pt_text_add(d, "\"");
}

/* Bits that later versions may add are one word. */
static void add_causes(struct pt_text *d, const char *key, uint32_t bits)
{
    pt_text_member(d, key);
    pt_text_add(d, "[");
    for (unsigned i = 0; i <= COUNT(causes); i++) {
        if (i < COUNT(causes) ? !(bits >> i & 1) : !(bits >> i))
            continue;
        pt_text_add(d, d->bytes[d->length - 1] == '[' ? "\"" : ", \"");
        pt_text_add(d, i < COUNT(causes) ? causes[i] : "other");
        pt_text_add(d, "\"");
    }
    pt_text_add(d, "]");
}

/* H5P_DEFAULT asks for independent transfers, and keeps no result. */
static void add_transfer(struct pt_h5 *h, struct pt_text *d, h5_id transfer)
{
    int mode = 0, used = -1;
    uint32_t here = 0, anywhere = 0;
    if (transfer && h->parallel.H5Pget_dxpl_mpio(transfer, &mode) < 0)
        return;
    add_word(d, "transfer", asked, COUNT(asked), mode);
    if (mode != 1)
        return;
    if (h->parallel.H5Pget_mpio_actual_io_mode(transfer, &used) >= 0)
        add_word(d, "actual", actual, COUNT(actual), used);
    if (h->parallel.H5Pget_mpio_no_collective_cause(transfer, &here, &anywhere) >= 0 && (here || anywhere)) {
        add_causes(d, "local_cause", here);
        add_causes(d, "global_cause", anywhere);
    }
}

void pt_h5_add_transfer(struct pt_h5 *h, struct pt_thread *t, struct pt_library_span *s, h5_id transfer)
{
    uint32_t length, base, path;
    int64_t detail;
    struct pt_text d;
    if (!pt_library_described(s, &path, &detail) || !is_parallel(h, path))
        return;
    const char *text = pt_string_at((uint32_t)detail, &length, &base);
    if (text && (length < 2 || length > sizeof d.bytes / 2))
        return; /* there is no room */
    int saved = errno;
    pt_text_object(&d);
    if (text) {
        d.length = 0;
        pt_text_add_bytes(&d, text, length - 1); /* without its brace */
    }
    pt_h5_begin_asking(t);
    add_transfer(h, &d, transfer);
    pt_h5_end_asking(t);
    pt_text_add(&d, "}");
    pt_library_describe(s, pt_detail(d.bytes, d.length));
    errno = saved;
}
