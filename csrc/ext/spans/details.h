/* Details of a call as JSON: rendered into a buffer, then written into the log. */
#ifndef PYIO_TRACE_DETAILS_H
#define PYIO_TRACE_DETAILS_H

#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#define PT_DETAILS_ROOM 2048

struct pt_details { /* a JSON object without its closing brace */
    uint32_t length;
    bool cut; /* something did not fit and was left out; "cut": true will say so */
    char text[PT_DETAILS_ROOM];
};

/* Borrows an empty buffer for a call, and returns it.  A buffer on the stack would be most of a watched call's frame,
 * and programs may recurse deeply through such calls.  NULL: no memory. */
struct pt_details *pt_details_take(void);
void pt_details_give(struct pt_details *d);

static inline void pt_details_none(struct pt_details *d)
{
    d->length = 0;
    d->cut = false;
}
/* Whether `value` is an integer of Python's or of an extension's such as numpy.  Asking such a value for its number
 * runs no code of the program, which a class of the program's might. */
bool pt_is_integer(PyObject *value);
void pt_details_add_text(struct pt_details *d, const char *key, const char *value);
/* Adds all items of a dict.  Renders str, int, float, bool, None, slices, Ellipsis, and tuples and lists of them; of
 * any other value, the name of its type.  Bytes under the empty key are members that details_members() has rendered. */
void pt_details_add_dict(struct pt_details *d, PyObject *dict);
/* Writes the details into the log.  Returns the id of the string; 0: there are no details.  More can be added later. */
uint32_t pt_details_intern(struct pt_details *d);
PyObject *pt_details_members(PyObject *module, PyObject *dict);

#endif
