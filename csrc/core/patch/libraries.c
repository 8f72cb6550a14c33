/* The libraries above libc whose functions have hooks, by the first letter of their names. */
#include "patch/patch.h"

const struct pt_patched_library *pt_libraries[PT_MOST_LIBRARIES];
unsigned pt_library_count;
const struct pt_patched_library *pt_library_by_initial[128];

void pt_library_register(const struct pt_patched_library *l)
{
    pt_libraries[pt_library_count++] = l;
    for (const char *initial = l->initials; *initial; initial++)
        pt_library_by_initial[(unsigned char)*initial] = l;
}

bool pt_library_has_name(const char *name)
{
    const struct pt_patched_library *library = pt_library_of(name);
    return library && library->has_name(name);
}

/* May be called without got.c's lock. */
void *pt_library_for_symbol(const char *name, const void *found)
{
    return pt_library_of(name)->for_symbol(name, found);
}

const char *pt_library_name(unsigned i)
{
    for (unsigned l = 0; l < pt_library_count; i -= pt_libraries[l++]->count)
        if (i < pt_libraries[l]->count)
            return pt_libraries[l]->name(i);
    return NULL;
}
