/* Code whose requests reach no hook, and which is found by looking at what is loaded: liburing, whose rings may be closed
 * before anyone looks for them, and what dlmopen() has loaded into a name space of its own, with a libc of its own. */
#include "base/messages.h"
#include "base/state.h"
#include "patch/patch.h"

#include <dlfcn.h>

static bool has_liburing;

void pt_look_for_liburing(const struct pt_object *o)
{
    has_liburing = has_liburing || pt_object_symbol(o, "io_uring_queue_init") != NULL;
}

/* glibc's list for debuggers.  Its version becomes 2 with the first name space beside the program's, and stays 2.  musl
 * has neither name spaces nor a list of this name. */
static const struct r_debug *list;

void pt_find_name_spaces(void)
{
    if (!list)
        list = dlsym(RTLD_DEFAULT, "_r_debug");
}

void pt_note_unseen_code(void)
{
    static uint32_t noted_by; /* a forked child has a note of its own */
    if (!pt.process_id)
        return;
    if (has_liburing)
        __atomic_fetch_or(&pt.process->blind, PT_BLIND_IO_URING, __ATOMIC_RELAXED);
    if (noted_by == pt.process_id || !list || list->r_version < 2)
        return;
    static const char *const words[] = {"code that dlmopen() loaded is not seen"};
    noted_by = pt.process_id;
    __atomic_fetch_or(&pt.process->blind, PT_BLIND_UNPATCHED, __ATOMIC_RELAXED);
    pt_note(words, 1);
}
