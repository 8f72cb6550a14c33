/* Which libraries a process has loaded, for the reader. */
#include "base/state.h"
#include "log/chunks.h"
#include "log/ids.h"
#include "log/intern.h"
#include "patch/slots.h"

#include <string.h>

#define MOST_NOTED 4096u

/* Notes a library in the log, for the case that something bypassed the hooks: some libraries have system-call
 * instructions of their own.  Python's own modules are left out; each program has dozens.  A library may be noted
 * again after others were unloaded. */
void pt_note_loaded(const char *path)
{
    static uint32_t noted_by, noted;
    if (!pt.process_id || path[0] != '/' || strstr(path, "/lib-dynload/"))
        return;
    noted = noted_by == pt.process_id ? noted + 1 : 1;
    noted_by = pt.process_id;
    struct pt_loaded *o = noted <= MOST_NOTED ? pt_heap_alloc_slow(sizeof *o) : NULL;
    if (!o)
        return;
    o->path = pt_string(path, strlen(path), 0);
    o->previous = pt.process->loaded;
    pt_heap_publish(o, PT_HEAP_LOADED);
    pt.process->loaded = pt_id_of(o);
}
