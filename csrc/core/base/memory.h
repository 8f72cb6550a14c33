/* Memory of the core, which never comes from malloc. */
#ifndef PYIO_TRACE_MEMORY_H
#define PYIO_TRACE_MEMORY_H

#include "base/compiler.h"
#include <unistd.h>

/* Zeroed memory; NULL: none left. Pages are only taken when touched.  For what does not fit on the stack, which in a
 * signal handler may have 8 KiB. malloc would be unsafe there: the signal may have interrupted it. */
void *pt_memory(size_t bytes);
void pt_memory_back(void *at, size_t bytes);
uint64_t pt_memory_allocated(void); /* bytes allocated now */

/* The pages of the log always have PT_PAGE bytes; those of the kernel may have 64 KiB (aarch64). */
static inline uintptr_t pt_kernel_page(void)
{
    return (uintptr_t)sysconf(_SC_PAGESIZE);
}

#endif
