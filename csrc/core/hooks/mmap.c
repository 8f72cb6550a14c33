/* Hooks of file mappings.
 *
 * munmap, msync and the like get an address, which may be within a mapping: the table in state/mappings.c tells which
 * file it belongs to.  Anonymous memory is
 * not recorded.  Reading and writing through a mapping makes no call at all: the process entry says that there was
 * one (PT_BLIND_MAPPED), and the touched pages are counted before they go. */
#include "hooks/hooks.h"
#include "log/chunks.h"
#include "state/mappings.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/resource.h>

PT_HOOK_DECLARE(void *, mmap, void *, size_t, int, int, int, off_t);
void *hook_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    if (fd < 0 || (flags & MAP_ANONYMOUS))
        return real_mmap(address, length, protection, flags, fd, offset);
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_MMAP, fd, offset, length);
    void *at = real_mmap(address, length, protection, flags, fd, offset);
    pt_end_int(&c, at == MAP_FAILED ? -1 : 0);
    if (c.thread && at != MAP_FAILED) {
        int saved = errno;
        struct pt_new_mapping made = {.address = at,
                                      .length = length,
                                      .offset = (uint64_t)offset,
                                      .protection = protection,
                                      .flags = flags,
                                      .fd = fd,
                                      .desc = c.record ? c.record->desc : 0,
                                      .record = c.record ? pt_id_of(c.record) : 0};
        pt_mapping_made(c.thread, &made);
        errno = saved;
    }
    return at;
}

static void begin_mapped(struct pt_call *c, unsigned op, const struct pt_mapping_place *m, uint64_t length)
{
    struct pt_thread *t = pt_enter();
    c->thread = NULL;
    c->left_out = 0;
    if (!t)
        return;
    uint32_t desc = pt_mapping_desc_of(m);
    pt_begin(c, t, op, desc, (uint32_t)pt_desc_fd(desc), -1, length);
}

/* The thread whose mappings a call changes; NULL: in a vfork child, which sees its parent's, or not tracing. */
static struct pt_thread *owner_of_mappings(void)
{
    struct pt_thread *t = pt_table_owner();
    return t && !t->borrowed_memory ? t : NULL;
}

PT_HOOK_DECLARE(int, munmap, void *, size_t);
int hook_munmap(void *address, size_t length)
{
    struct pt_mapping_place *m = pt_mapping_lookup(address);
    if (PT_LIKELY(!m))
        return real_munmap(address, length);
    bool ours = owner_of_mappings() != NULL;
    if (ours)
        pt_mapping_measure(m, PT_MEASURED_AT_MUNMAP);
    struct pt_call c;
    begin_mapped(&c, PT_OP_MUNMAP, m, length);
    if (ours)
        pt_mapping_forget(m);
    return pt_end_int(&c, real_munmap(address, length));
}

PT_HOOK_DECLARE(int, msync, void *, size_t, int);
int hook_msync(void *address, size_t length, int flags)
{
    struct pt_mapping_place *m = pt_mapping_around(address);
    if (!m)
        return real_msync(address, length, flags);
    bool measured = flags & MS_SYNC && owner_of_mappings();
    if (measured)
        pt_mappings_before_sync(address, length);
    struct pt_call c;
    begin_mapped(&c, PT_OP_MSYNC, m, length);
    int result = pt_end_int(&c, real_msync(address, length, flags));
    int saved = errno;
    if (measured)
        pt_mappings_after_sync(address, length);
    errno = saved;
    return result;
}

PT_HOOK_DECLARE(int, madvise, void *, size_t, int);
int hook_madvise(void *address, size_t length, int advice)
{
    struct pt_mapping_place *m = pt_mapping_around(address);
    if (PT_LIKELY(!m))
        return real_madvise(address, length, advice);
    if (advice == MADV_DONTNEED && owner_of_mappings())
        pt_mapping_dropped(m, (uintptr_t)address, length);
    struct pt_call c;
    begin_mapped(&c, PT_OP_MADVISE, m, length);
    return pt_end_int(&c, real_madvise(address, length, advice));
}

PT_HOOK_DECLARE(int, posix_madvise, void *, size_t, int);
int hook_posix_madvise(void *address, size_t length, int advice)
{
    struct pt_mapping_place *m = pt_mapping_around(address);
    if (!m)
        return real_posix_madvise(address, length, advice);
    struct pt_call c;
    begin_mapped(&c, PT_OP_MADVISE, m, length);
    return pt_end_error(&c, real_posix_madvise(address, length, advice));
}

PT_HOOK_DECLARE(void *, mremap, void *, size_t, size_t, int, ...);
void *hook_mremap(void *address, size_t old_length, size_t length, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    void *target = flags & MREMAP_FIXED ? va_arg(ap, void *) : NULL;
    va_end(ap);
    struct pt_mapping_place *m = pt_mapping_around(address);
    if (PT_LIKELY(!m))
        return real_mremap(address, old_length, length, flags, target);
    bool ours = owner_of_mappings() != NULL;
    if (ours && length < old_length)
        pt_mapping_dropped(m, (uintptr_t)address + length, old_length - length);
    struct pt_call c;
    begin_mapped(&c, PT_OP_MREMAP, m, length);
    void *at = real_mremap(address, old_length, length, flags, target);
    if (at != MAP_FAILED && ours && pt_mapping_is_whole(m, address, old_length)) {
        pt_mapping_moved(m, at, length);
    } else if (at != MAP_FAILED && ours) {
        struct pt_moved_part part = {(uintptr_t)address, (uintptr_t)at, old_length, length};
        pt_mapping_part_moved(m, &part);
    }
    pt_end_int(&c, at == MAP_FAILED ? -1 : 0);
    return at;
}

/* ---- a limit on the address space: not recorded, but the log is in there too -------- */

static void make_room(int resource, const struct rlimit *limit)
{
    struct pt_thread *t = pt_table_owner();
    if (resource == RLIMIT_AS && limit && limit->rlim_cur != RLIM_INFINITY && t && !t->borrowed_memory)
        pt_log_shrink(limit->rlim_cur);
}

PT_HOOK_DECLARE(int, setrlimit, int, const struct rlimit *);
int hook_setrlimit(int resource, const struct rlimit *limit)
{
    make_room(resource, limit);
    return real_setrlimit(resource, limit);
}

PT_HOOK_DECLARE(int, prlimit, pid_t, int, const struct rlimit *, struct rlimit *);
int hook_prlimit(pid_t pid, int resource, const struct rlimit *limit, struct rlimit *before)
{
    if (pid == 0 || (uint32_t)pid == pt.pid)
        make_room(resource, limit);
    return real_prlimit(pid, resource, limit, before);
}
