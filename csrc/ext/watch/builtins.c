/* Watches functions and methods that are written in C, by their definition.
 *
 * Such a function is an object around a PyMethodDef of its library, which holds the C function.  Binding a method makes
 * another object around the same definition, and every call looks there, also by the interpreter's shortcuts.  So we
 * replace that one pointer, by a C function of the same calling convention (builtin_entries.c).  Every call is seen, of
 * bound methods from before too.  The objects and their types stay the same, and profilers see calls of C functions.
 *
 * All interpreters of a process share the definitions.  Only calls in the main one are watched. */
#include "watch/builtins.h"

#include "watch/builtin_entries.h"

#include <link.h>

static unsigned place_count;

/* ---- hashing and comparing ------------------------------------------------------------- */

/* Python hashes and compares builtin functions by their C function.  While some are watched, both go by the original C
 * function, so that a dict with such functions as keys still finds them. */
static hashfunc hash_before;
static richcmpfunc compare_before;
static PyTypeObject *const function_types[] = {&PyCFunction_Type, &PyCMethod_Type};

/* Returns `function`; for a watched one, *copy with the original definition. */
static PyObject *with_original(PyObject *function, PyCFunctionObject *copy)
{
    if (!PyCFunction_Check(function))
        return function;
    struct pt_target *g = pt_target_find(((PyCFunctionObject *)function)->m_ml);
    if (!g || !pt_builtin_is_watched(g->builtin))
        return function;
    *copy = *(PyCFunctionObject *)function;
    copy->m_ml = &g->builtin->before;
    return (PyObject *)copy;
}

static Py_hash_t hash(PyObject *function)
{
    PyCFunctionObject copy;
    return hash_before(with_original(function, &copy));
}

static PyObject *compare(PyObject *a, PyObject *b, int how)
{
    PyCFunctionObject copies[2];
    return compare_before(with_original(a, &copies[0]), with_original(b, &copies[1]), how);
}

static void replace_hash_and_compare(void)
{
    hash_before = PyCFunction_Type.tp_hash;
    compare_before = PyCFunction_Type.tp_richcompare;
    for (size_t i = 0; i < sizeof function_types / sizeof *function_types; i++) {
        if (function_types[i]->tp_hash == hash_before)
            function_types[i]->tp_hash = hash;
        if (function_types[i]->tp_richcompare == compare_before)
            function_types[i]->tp_richcompare = compare;
    }
}

void pt_builtins_restore_hash(void)
{
    for (size_t i = 0; i < sizeof function_types / sizeof *function_types; i++) {
        if (function_types[i]->tp_hash == hash)
            function_types[i]->tp_hash = hash_before;
        if (function_types[i]->tp_richcompare == compare)
            function_types[i]->tp_richcompare = compare_before;
    }
}

/* ---- replacing and restoring the C function ------------------------------------------------ */

struct address {
    uintptr_t at;
    bool read_only;
};

/* For one loaded object: is the address in a segment that is read-only, or becomes so after relocation? */
static int check_object(struct dl_phdr_info *object, size_t size, void *data)
{
    (void)size;
    struct address *address = data;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t first = object->dlpi_addr + part->p_vaddr;
        bool within = address->at - first < part->p_memsz;
        if (within && ((part->p_type == PT_LOAD && !(part->p_flags & PF_W)) || part->p_type == PT_GNU_RELRO))
            address->read_only = true;
    }
    return address->read_only;
}

static bool is_read_only(const PyMethodDef *definition)
{
    struct address address = {(uintptr_t)&definition->ml_meth, false};
    dl_iterate_phdr(check_object, &address);
    return address.read_only;
}

PyMethodDef *pt_builtin_definition(PyObject *function)
{
    if (Py_IS_TYPE(function, &PyMethodDescr_Type))
        return ((PyMethodDescrObject *)function)->d_method;
    if (Py_IS_TYPE(function, &PyCFunction_Type) || Py_IS_TYPE(function, &PyCMethod_Type))
        return ((PyCFunctionObject *)function)->m_ml;
    return NULL;
}

bool pt_builtin_is_watched(const struct pt_builtin *b)
{
    return b && __atomic_load_n(&b->definition->ml_meth, __ATOMIC_ACQUIRE) == pt_builtin_entry(b);
}

/* Gives the target a place, if it has none.  Returns NULL, or why that cannot be. */
static const char *find_place(struct pt_target *g, PyMethodDef *definition)
{
    struct pt_builtin *b = g->builtin;
    if (b)
        return NULL;
    if (place_count == PT_BUILTINS_MOST)
        return "too many builtin functions are watched";
    if (is_read_only(definition))
        return "its definition is read-only";
    b = &pt_builtins[place_count];
    *b = (struct pt_builtin){.definition = definition, .before = *definition, .target = g};
    if (!pt_builtin_entry(b))
        return "its calling convention is not known";
    place_count++;
    g->builtin = b;
    return NULL;
}

const char *pt_builtin_watch(struct pt_target *g)
{
    PyMethodDef *definition = pt_builtin_definition(g->description.function);
    const char *problem = find_place(g, definition);
    if (problem)
        return problem;
    struct pt_builtin *b = g->builtin;
    b->is_method = Py_IS_TYPE(g->description.function, &PyMethodDescr_Type);
    PyObject *self = b->is_method ? NULL : PyCFunction_GET_SELF(g->description.function);
    b->self = self && !PyModule_Check(self) ? self : NULL;
    if (definition->ml_meth != b->before.ml_meth)
        return NULL; /* watched already; or another tool has replaced our function, and calls it */
    if (PyCFunction_Type.tp_hash != hash)
        replace_hash_and_compare();
    __atomic_store_n(&definition->ml_meth, pt_builtin_entry(b), __ATOMIC_RELEASE);
    return NULL;
}

void pt_builtin_unwatch(struct pt_builtin *b)
{
    if (pt_builtin_is_watched(b)) /* else another tool has replaced our function */
        __atomic_store_n(&b->definition->ml_meth, b->before.ml_meth, __ATOMIC_RELEASE);
}
