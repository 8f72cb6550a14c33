/* What is dirty of a mapped file, whoever wrote it, and which parts of a mapping this process has touched. */
#include "state/mapping_dirt.h"
#include "state/descriptors.h"
#include "log/ids.h"

#include <string.h>
#include <sys/mman.h>

#define FDS_TRIED 256 /* where a descriptor of a mapped file is looked for */

bool pt_mapping_writes_file(const struct pt_mapping_place *m)
{
    return m->flags & PT_MAPPING_SHARED && m->protection & PROT_WRITE;
}

/* An open descriptor of the mapped file, from the same open(); -1: none is known. */
int pt_mapping_descriptor(const struct pt_mapping_place *m)
{
    const struct pt_desc *d = pt_desc_at(m->desc);
    for (int fd = 0; d && fd < FDS_TRIED; fd++) {
        pt_fd_entry e = pt_fd_peek(fd);
        uint32_t id = e & PT_FD_EXCLUDED ? 0 : pt_entry_id(e);
        const struct pt_desc *one = id ? pt_desc_at(id) : NULL;
        if (id && (id == m->desc || (one && one->root == d->root)))
            return fd;
    }
    return -1;
}

static uint64_t share_of(const struct pt_mapping_place *m)
{
    uint64_t pages = (m->length + PT_PAGE - 1) / PT_PAGE;
    return (pages + PT_MAPPING_SHARES - 1) / PT_MAPPING_SHARES * PT_PAGE;
}

/* A child's page tables begin empty.  Of each page that it then maps, the kernel says whether any process has made it
 * dirty.  So what is dirty at the fork is noted, for each share by itself, because a child often writes only one share. */
void pt_note_dirt_at_fork(struct pt_mapping_place *m)
{
    uint64_t share = share_of(m);
    m->dirty_before = 0;
    memset(m->dirty_at_fork, 0, sizeof m->dirty_at_fork);
    int fd =
        pt_mapping_writes_file(m) && pt_measuring_affordable(PT_MEASURING_ALLOWANCE) ? pt_mapping_descriptor(m) : -1;
    if (fd < 0)
        return;
    int64_t since = pt_thread_cpu_ns();
    if (pt_dirty_cached_slow(fd, m->offset, m->length))
        for (uint32_t i = 0; i < PT_MAPPING_SHARES && i * share < m->length; i++)
            m->dirty_at_fork[i] = pt_dirty_cached_slow(fd, m->offset + i * share, share);
    pt_measuring_took(since);
}

bool pt_any_dirt_at_fork(const struct pt_mapping_place *m)
{
    uint64_t any = 0;
    for (uint32_t i = 0; i < PT_MAPPING_SHARES; i++)
        any |= m->dirty_at_fork[i];
    return any;
}

/* Of what was dirty at the fork, at most as much as this process has in its page tables. */
uint64_t pt_others_dirt(const struct pt_mapping_place *m)
{
    uint64_t share = share_of(m), sum = 0;
    for (uint32_t i = 0; i < PT_MAPPING_SHARES && i * share < m->length; i++) {
        struct pt_resident now;
        uint64_t left = m->length - i * share;
        if (m->dirty_at_fork[i] && pt_resident_slow(pt_place_address(m) + i * share, left < share ? left : share, &now))
            sum += m->dirty_at_fork[i] < now.touched ? m->dirty_at_fork[i] : now.touched;
    }
    return sum;
}

/* A bit for each share that has pages in the page tables: by these, mappings of one file may be told apart. */
uint32_t pt_touched_shares(const struct pt_mapping_place *m)
{
    uint32_t bits = 0;
    uint64_t share = share_of(m);
    for (uint32_t i = 0; i < PT_MAPPING_SHARES && i * share < m->length; i++) {
        struct pt_resident now;
        uint64_t left = m->length - i * share;
        bool known = pt_resident_slow(pt_place_address(m) + i * share, left < share ? left : share, &now);
        bits |= (uint32_t)(!known || now.touched || now.sampled) << i;
    }
    return bits;
}

uint64_t pt_cached_dirt(const struct pt_mapping_place *m)
{
    int fd = pt_mapping_descriptor(m);
    return fd < 0 ? 0 : pt_dirty_cached_slow(fd, m->offset, m->length);
}
