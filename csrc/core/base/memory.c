/* Allocates all memory of the core, and keeps the total. */
#include "base/memory.h"
#include "base/sys.h"

static uint64_t taken; /* atomic */

/* ThreadSanitizer watches libc's mmap, but sees no system calls.  It would take a page that the kernel gives first to
 * one thread and then to another for a page that both use at once. */
void *pt_memory(size_t bytes)
{
    const int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
#ifdef __SANITIZE_THREAD__
    void *at = mmap(NULL, bytes, protection, flags, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
#else
    long address = pt_sys(SYS_mmap, 0, bytes, protection, flags, -1, 0);
    if (address < 0 && address > -4096)
        return NULL;
    void *at = (void *)address;
#endif
    __atomic_fetch_add(&taken, bytes, __ATOMIC_RELAXED);
    return at;
}

void pt_memory_back(void *at, size_t bytes)
{
    __atomic_fetch_sub(&taken, bytes, __ATOMIC_RELAXED);
#ifdef __SANITIZE_THREAD__
    munmap(at, bytes);
#else
    pt_sys(SYS_munmap, at, bytes);
#endif
}

uint64_t pt_memory_allocated(void)
{
    return __atomic_load_n(&taken, __ATOMIC_RELAXED);
}
