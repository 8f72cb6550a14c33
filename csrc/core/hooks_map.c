/* Hooks of file mappings.
 *
 * munmap and msync name an address: a small table of this process's file
 * mappings tells which file that is.  Anonymous memory passes by untouched.
 * What a program reads and writes through a mapping makes no call at all: the
 * process entry says so (PT_BLIND_MAPPED). */
#include "hooks.h"

#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define MAPPINGS 4096u
static struct mapping {
    uintptr_t address; /* atomic; 0: never used, 1: free again */
    uint32_t desc;
} mappings[MAPPINGS];
static uint32_t mapping_count;

static uint32_t place(uintptr_t address) { return (uint32_t)((address >> 12) * 2654435761u); }

static void remember(uintptr_t address, uint32_t desc)
{
    for (uint32_t i = 0; i < 64; i++) {
        struct mapping *m = &mappings[(place(address) + i) % MAPPINGS];
        uintptr_t old = __atomic_load_n(&m->address, __ATOMIC_RELAXED);
        if (old > 1 && old != address)
            continue;
        if (__atomic_compare_exchange_n(&m->address, &old, address, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            m->desc = desc;
            __atomic_fetch_add(&mapping_count, 1, __ATOMIC_RELAXED);
            return;
        }
    }
}

static struct mapping *lookup(uintptr_t address)
{
    if (!__atomic_load_n(&mapping_count, __ATOMIC_RELAXED))
        return NULL;
    for (uint32_t i = 0; i < 64; i++) {
        struct mapping *m = &mappings[(place(address) + i) % MAPPINGS];
        uintptr_t at = __atomic_load_n(&m->address, __ATOMIC_ACQUIRE);
        if (at == address)
            return m;
        if (at == 0)
            return NULL;
    }
    return NULL;
}

uint32_t pt_mapping_desc(const void *address)
{
    struct mapping *m = address ? lookup((uintptr_t)address) : NULL;
    return m ? m->desc : 0;
}

/* A new log: the descriptors of the old one mean nothing there. */
void pt_mappings_reset(void)
{
    memset(mappings, 0, sizeof mappings);
    mapping_count = 0;
}

PT_HOOK_DECLARE(void *, mmap, void *, size_t, int, int, int, off_t);
void *hook_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    if (fd < 0 || (flags & MAP_ANONYMOUS))
        return real_mmap(address, length, protection, flags, fd, offset);
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_MMAP, fd, offset, length);
    void *at = real_mmap(address, length, protection, flags, fd, offset);
    if (c.thread && at != MAP_FAILED) {
        remember((uintptr_t)at, c.record ? c.record->desc : 0);
        if (c.thread->process_id)
            __atomic_fetch_or(&c.thread->process->blind, PT_BLIND_MAPPED, __ATOMIC_RELAXED);
    }
    pt_end_int(&c, at == MAP_FAILED ? -1 : 0);
    return at;
}

static void begin_mapped(struct pt_call *c, unsigned op, const struct mapping *m, uint64_t length)
{
    struct pt_thread *t = pt_enter();
    c->thread = NULL;
    c->left_out = 0;
    if (!t)
        return;
    uint32_t desc = m->desc;
    uint32_t fd = desc ? (uint32_t)((struct pt_desc *)pt_at(desc))->fd : (uint32_t)-1;
    pt_begin(c, t, op, desc, fd, -1, length);
}

PT_HOOK_DECLARE(int, munmap, void *, size_t);
int hook_munmap(void *address, size_t length)
{
    struct mapping *m = lookup((uintptr_t)address);
    if (PT_LIKELY(!m))
        return real_munmap(address, length);
    struct pt_call c;
    begin_mapped(&c, PT_OP_MUNMAP, m, length);
    struct pt_thread *t = pt_table_owner();
    if (t && !t->borrowed_memory) {
        __atomic_store_n(&m->address, 1, __ATOMIC_RELEASE);
        __atomic_fetch_sub(&mapping_count, 1, __ATOMIC_RELAXED);
    }
    return pt_end_int(&c, real_munmap(address, length));
}

PT_HOOK_DECLARE(int, msync, void *, size_t, int);
int hook_msync(void *address, size_t length, int flags)
{
    struct mapping *m = lookup((uintptr_t)address);
    if (!m)
        return real_msync(address, length, flags);
    struct pt_call c;
    begin_mapped(&c, PT_OP_MSYNC, m, length);
    return pt_end_int(&c, real_msync(address, length, flags));
}

PT_HOOK_DECLARE(int, madvise, void *, size_t, int);
int hook_madvise(void *address, size_t length, int advice)
{
    struct mapping *m = lookup((uintptr_t)address);
    if (PT_LIKELY(!m))
        return real_madvise(address, length, advice);
    struct pt_call c;
    begin_mapped(&c, PT_OP_MADVISE, m, length);
    return pt_end_int(&c, real_madvise(address, length, advice));
}

PT_HOOK_DECLARE(void *, mremap, void *, size_t, size_t, int, ...);
void *hook_mremap(void *address, size_t old_length, size_t length, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    void *target = flags & MREMAP_FIXED ? va_arg(ap, void *) : NULL;
    va_end(ap);
    struct mapping *m = lookup((uintptr_t)address);
    if (PT_LIKELY(!m))
        return real_mremap(address, old_length, length, flags, target);
    struct pt_call c;
    uint32_t desc = m->desc;
    begin_mapped(&c, PT_OP_MREMAP, m, length);
    void *at = real_mremap(address, old_length, length, flags, target);
    struct pt_thread *t = pt_table_owner();
    if (at != MAP_FAILED && t && !t->borrowed_memory) {
        __atomic_store_n(&m->address, 1, __ATOMIC_RELEASE);
        __atomic_fetch_sub(&mapping_count, 1, __ATOMIC_RELAXED);
        remember((uintptr_t)at, desc);
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
