/* The C functions that the definitions of watched builtin functions point to. */
#ifndef PYIO_TRACE_BUILTIN_ENTRIES_H
#define PYIO_TRACE_BUILTIN_ENTRIES_H

#include "watch/builtin_call.h"

#define PT_BUILTINS_MOST 128u

/* Places for watched definitions.  A place is never reused for another definition: calls may be under way in it. */
extern struct pt_builtin pt_builtins[PT_BUILTINS_MOST];

/* The C function for this place, of its definition's calling convention; NULL: the convention is not known. */
PyCFunction pt_builtin_entry(const struct pt_builtin *b);

#endif
