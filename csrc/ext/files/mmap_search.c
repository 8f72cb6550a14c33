/* How many bytes a search through an mmap object has looked at. */
#include "files/mmap_search.h"

#include "python/byte_size.h"

/* How an mmap object begins, in every version. */
struct mmap_object {
    PyObject base;
    char *data;
    Py_ssize_t size, position;
};

/* An argument as find() takes it: within the mapping, negative ones counted from its end. */
static int64_t place(PyObject *const *args, Py_ssize_t count, Py_ssize_t number, int64_t otherwise, int64_t size)
{
    if (number >= count || !PyLong_Check(args[number]))
        return otherwise;
    int overflow;
    int64_t at = PyLong_AsLongLongAndOverflow(args[number], &overflow);
    if (overflow)
        at = overflow < 0 ? 0 : size;
    else if (at < 0)
        at += size;
    return at < 0 ? 0 : at < size ? at : size;
}

int64_t pt_mmap_searched(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *result, bool back)
{
    const struct mmap_object *m = (const struct mmap_object *)object;
    int64_t start = place(args, count, 1, m->position, m->size), end = place(args, count, 2, m->size, m->size);
    int64_t found = PyLong_Check(result) ? PyLong_AsLongLong(result) : -1;
    if (found >= start && back)
        start = found;
    else if (found >= start)
        end = found + (int64_t)pt_byte_size(args[0]);
    return end > start ? end - start : 0;
}
