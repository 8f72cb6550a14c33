/* The slots that lead to our functions.  All are called with got.c's lock held. */
#ifndef PYIO_TRACE_SLOTS_H
#define PYIO_TRACE_SLOTS_H

#include "patch/objects.h"

bool pt_slots_prepare(void); /* false: no memory */
/* Points a slot at our function, and notes what it held.  False: there is no room for the note, so it stays. */
bool pt_slot_point(const struct pt_object *o, void **slot, void *before, void *ours);
void pt_slots_restore(const struct pt_object *o); /* those in this object */
void pt_slots_forget(void);

/* The loader's count of unloaded objects, as of now. */
void pt_slots_set_unloads(unsigned long long unloads);
/* Points slots at our functions again into which another tool has put back what they held before.  Returns how many
 * hold something else: that tool's own functions. */
unsigned pt_slots_look_again(void);
/* Whether somebody has put the original function back into a patched slot.  The answer for an object that has been
 * unloaded may be wrong. */
bool pt_slots_put_back(void);

/* ---- loaded_libraries.c */
void pt_note_loaded(const char *path);

#endif
