/* Descriptor objects where only sums are kept.
 *
 * All openings of a name share one object, so that the log does not grow with time.  Openings for appending share a
 * second one.  A file without a name (O_TMPFILE) gets a new object each time. */
#include "state/summed_descriptors.h"
#include "base/clock.h"
#include "base/hash.h"
#include "log/ids.h"
#include "log/intern.h"

#include <fcntl.h>

#define NAMELESS 020000000u /* the kernel's __O_TMPFILE: O_TMPFILE without O_DIRECTORY */

static uint64_t key_of(const struct pt_thread *t, uint32_t path, uint32_t flags)
{
    uint32_t key[3] = {path, t->process_id, flags & O_APPEND};
    return pt_hash_bytes(key, sizeof key, 0x4445534300000000ull);
}

uint32_t pt_summed_desc(const struct pt_thread *t, uint32_t path, uint32_t flags)
{
    return pt_intern_find(key_of(t, path, flags));
}

/* The position is not followed, so that there is room for the moment of the opening. */
void pt_summed_desc_opened(struct pt_desc *d)
{
    d->gap = PT_GAP_SUMS;
    d->position = (int64_t)pt_ticks();
}

void pt_summed_desc_keep(const struct pt_thread *t, struct pt_desc *d)
{
    pt_summed_desc_opened(d);
    pt_intern_add(key_of(t, d->path, d->open_flags), pt_id_of(d));
}

uint32_t pt_summed_name(uint32_t desc)
{
    const struct pt_desc *d = pt_desc_at(desc);
    return d && d->open_flags & NAMELESS ? 0 : pt_desc_path(desc); /* the next one may have the same inode and name */
}
