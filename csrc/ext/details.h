/* Details of a call as JSON, written without the GIL's allocator: into a buffer
 * on the stack, then into the log. */
#ifndef PYIO_TRACE_DETAILS_H
#define PYIO_TRACE_DETAILS_H

#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#define PT_DETAILS_ROOM 2048

struct pt_details { /* an object without its closing brace */
    uint32_t length;
    bool cut; /* something did not fit: it is left out, and "cut": true says so */
    char text[PT_DETAILS_ROOM];
};

/* Empty ones for a call, and back: on the stack they would be most of what a call that is watched takes there, and a
 * program may recurse through such a call as deep as it likes.  NULL: no memory. */
struct pt_details *pt_details_take(void);
void pt_details_give(struct pt_details *d);

static inline void pt_details_none(struct pt_details *d)
{
    d->length = 0;
    d->cut = false;
}
/* Of an integer, numpy's too: asking it for its value is not asking a class of the program's, whose code that may be. */
bool pt_is_number(PyObject *value);
void pt_details_add_text(struct pt_details *d, const char *key, const char *value);
/* All items of a dict.  Values: str, int, float, bool, None, slices, Ellipsis,
 * and tuples and lists of them; of others the type's name.  Bytes under the
 * empty key are members that pt_details_members has made. */
void pt_details_add_dict(struct pt_details *d, PyObject *dict);
/* The string's id in the log; 0: there are none. */
uint32_t pt_details_intern(struct pt_details *d);
PyObject *pt_details_members(PyObject *module, PyObject *dict);

#endif
