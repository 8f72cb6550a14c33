/* Which names are hooked, and the slots that lead to the hooks. */
#ifndef PYIO_TRACE_PATCH_H
#define PYIO_TRACE_PATCH_H

#include "patch/objects.h"

struct pt_hook {
    const char *name;
    void *function;      /* ours */
    void **original;     /* filled in by pt_hooks_resolve */
    void *address;       /* libc's function of that name, or what replaces it */
    const char *through; /* the name that our function calls instead of the original; NULL: it calls the original */
    bool is_anothers;    /* the name resolves to a function of the program: unbound slots stay */
};
#define PT_MAX_HOOKS 1024u
extern struct pt_hook *pt_hooks;
extern unsigned pt_hook_count;
void pt_hooks_register(struct pt_hook *hooks, unsigned count); /* by a constructor */
void pt_hooks_resolve(void);
bool pt_hooks_are_of_one_library(const char *name, const char *other); /* the originals of two names */

/* A library of which a process may have several copies, so that none of its names has one original.  It decides
 * itself which function of ours a slot gets.  All but for_symbol are called with got.c's lock held. */
struct pt_patched_library {
    const char *initials; /* of all its names; no other library has one of them */
    unsigned count;       /* of its names */
    bool (*has_name)(const char *name);
    const char *(*name)(unsigned i);
    void (*object_found)(const struct pt_object *o);
    void (*objects_unloaded)(void); /* object_found is called again for those that remain */
    void *(*for_slot)(const struct pt_object *o, const char *name, const void *value, bool lazy, bool *undecided);
    void *(*for_symbol)(const char *name, const void *found);
};
#define PT_MOST_LIBRARIES 4
extern PT_INNER const struct pt_patched_library *pt_libraries[PT_MOST_LIBRARIES];
extern PT_INNER unsigned pt_library_count;
extern PT_INNER const struct pt_patched_library *pt_library_by_initial[128];
static inline const struct pt_patched_library *pt_library_of(const char *name)
{
    unsigned initial = (unsigned char)name[0];
    return initial < 128 ? pt_library_by_initial[initial] : NULL;
}
void pt_library_register(const struct pt_patched_library *library); /* by a constructor */
const char *pt_library_name(unsigned i);                            /* of all of theirs; NULL: there are no more */
bool pt_library_has_name(const char *name);
void *pt_library_for_symbol(const char *name, const void *found);

/* unseen_code.c: marks the process for code that no hook sees. */
void pt_look_for_liburing(const struct pt_object *o);
void pt_find_name_spaces(void); /* takes the loader's lock */
void pt_note_unseen_code(void);

void pt_got_patch(void);
void pt_got_restore(void);
void pt_got_before_fork(void);
void pt_got_after_fork(bool child);
void pt_got_patch_new(void);
extern uint64_t pt_slots_due;
void pt_got_look_slow(void);
void pt_got_ends(void); /* the process ends: a slot that was put back meanwhile is a loss */
/* For calls that cost a system call or more: notices, within a second, that another tool has put slots back. */
static inline void pt_got_look(uint64_t now)
{
    if (PT_UNLIKELY(now > __atomic_load_n(&pt_slots_due, __ATOMIC_RELAXED)))
        pt_got_look_slow();
}
struct pt_hook *pt_hook_find(const char *name);

PT_API unsigned pt_got_snapshot(uint64_t *out, unsigned room); /* slot, value pairs; for tests and doctor */
/* Points the slots of this name in the object that contains this address at ours, until pt_stop. Returns how many. */
PT_API unsigned pt_got_point(const void *within, const char *name, void *ours);
PT_API const char *pt_hook_name(unsigned i); /* NULL: there are no more */

#endif
