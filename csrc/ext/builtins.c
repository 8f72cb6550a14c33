/* Watched functions and methods that are written in C, by their definition.
 *
 * Such a function is an object around a PyMethodDef of its library's, in which
 * the C function stands; a method is bound by making one more object around the
 * same.  Every call looks there, the interpreter's shortcuts too.  So that one
 * pointer is exchanged, and its calling convention stays: whoever has bound the
 * method, whenever, and however it is called, comes through here; the objects and
 * their types are as they were, and profilers see calls of C functions.
 *
 * A definition has no place for a pointer of ours, so there is one C function for
 * each of PLACES definitions and each calling convention.  Places are never used
 * again for another: calls may be under way in them.
 *
 * Definitions are shared by all interpreters of the process; what instruments ask
 * is the main one's, and other interpreters pass through. */
#include "builtins.h"

#include <link.h>
#include <string.h>

#define PLACES 128u
#define FEW 12

struct pt_builtin {
    PyMethodDef *definition; /* Borrowed: as old as the function, which its target owns */
    PyMethodDef before;
    struct pt_target *target;
    PyObject *self; /* compared only: a function that is bound to something is watched for that; NULL: for any */
    bool method;    /* what it is called on is the call's first argument */
};

static struct pt_builtin places[PLACES];
static unsigned place_count;

/* A call as it came in. */
struct pt_builtin_call {
    const struct pt_builtin *builtin;
    PyObject *self;
    PyObject *argument; /* METH_O; a tuple; NULL */
    PyObject *names;    /* a dict beside a tuple, else a tuple; NULL */
    PyObject *const *args;
    Py_ssize_t n;
    PyTypeObject *class;
    PyObject *const *vector; /* what instruments and context.c see of it */
};

#define CONVENTION (METH_NOARGS | METH_O | METH_FASTCALL | METH_KEYWORDS | METH_METHOD | METH_VARARGS)

typedef PyObject *(*fast_function)(PyObject *, PyObject *const *, Py_ssize_t);
typedef PyObject *(*fast_keywords_function)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

/* ---- going on ------------------------------------------------------------------------- */

static PyObject *go_on(const struct pt_builtin_call *c)
{
    void (*original)(void) = (void (*)(void))c->builtin->before.ml_meth;
    switch (c->builtin->before.ml_flags & CONVENTION) {
    case METH_VARARGS | METH_KEYWORDS:
        return ((PyCFunctionWithKeywords)original)(c->self, c->argument, c->names);
    case METH_FASTCALL:
        return ((fast_function)original)(c->self, c->args, c->n);
    case METH_FASTCALL | METH_KEYWORDS:
        return ((fast_keywords_function)original)(c->self, c->args, c->n, c->names);
    case METH_METHOD | METH_FASTCALL | METH_KEYWORDS:
        return ((PyCMethod)original)(c->self, c->class, c->args, (size_t)c->n, c->names);
    default:
        return ((PyCFunction)original)(c->self, c->argument);
    }
}

static PyObject *tuple_of(PyObject *const *args, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple && i < n; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    return tuple;
}

static PyObject *dict_of(PyObject *names, PyObject *const *values)
{
    PyObject *dict = PyDict_New();
    for (Py_ssize_t i = 0; dict && i < PyTuple_GET_SIZE(names); i++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(names, i), values[i]) < 0)
            Py_CLEAR(dict);
    return dict;
}

/* With other arguments than it came with (context.c has exchanged one). */
static PyObject *go_on_with(struct pt_builtin_call c, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    if (c.builtin->method)
        args++, n--;
    int convention = c.builtin->before.ml_flags & CONVENTION;
    if (!(convention & METH_VARARGS)) {
        c.argument = n ? args[0] : NULL;
        c.args = args;
        c.n = n;
        return go_on(&c);
    }
    PyObject *tuple = tuple_of(args, n), *dict = names ? dict_of(names, args + n) : NULL, *result = NULL;
    c.argument = tuple;
    c.names = dict;
    if (tuple && (dict || !names))
        result = go_on(&c);
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return result;
}

PyObject *pt_builtin_go_on(const struct pt_builtin_call *c, PyObject *const *args, size_t flagged, PyObject *names)
{
    if (PT_LIKELY(args == c->vector))
        return go_on(c);
    return go_on_with(*c, args, PyVectorcall_NARGS(flagged), names);
}

/* ---- coming in ------------------------------------------------------------------------ */

static inline bool passes(const struct pt_builtin *b, PyObject *self)
{
    return pt_asking || (b->self && b->self != self) || PyInterpreterState_Get() != PyInterpreterState_Main();
}

static PyObject *come_in(struct pt_builtin_call *c, PyObject *const *vector, Py_ssize_t n, PyObject *names)
{
    struct pt_original original = {.builtin = c};
    c->vector = vector;
    return pt_watched_call(c->builtin->target, &original, NULL, vector, (size_t)n, names);
}

/* The arguments as in a vectorcall, but for what a method is called on. */
static PyObject *with_self(struct pt_builtin_call *c, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    if (!c->builtin->method)
        return come_in(c, args, n, names);
    Py_ssize_t all = n + (names ? PyTuple_GET_SIZE(names) : 0);
    PyObject *few[FEW], **vector = all < FEW ? few : PyMem_Malloc((size_t)(all + 1) * sizeof *vector);
    if (!vector)
        return go_on(c);
    vector[0] = c->self;
    memcpy(vector + 1, args, (size_t)all * sizeof *vector);
    PyObject *result = come_in(c, vector, n + 1, names);
    if (vector != few)
        PyMem_Free(vector);
    return result;
}

static PyObject *one(const struct pt_builtin *b, PyObject *self, PyObject *argument)
{
    if (PT_UNLIKELY(passes(b, self)))
        return b->before.ml_meth(self, argument);
    struct pt_builtin_call c = {.builtin = b, .self = self, .argument = argument};
    if (b->before.ml_flags & METH_VARARGS)
        return with_self(&c, ((PyTupleObject *)argument)->ob_item, PyTuple_GET_SIZE(argument), NULL);
    return with_self(&c, &c.argument, b->before.ml_flags & METH_O ? 1 : 0, NULL);
}

static PyObject *dict(const struct pt_builtin *b, PyObject *self, PyObject *tuple, PyObject *dict)
{
    struct pt_builtin_call c = {.builtin = b, .self = self, .argument = tuple, .names = dict};
    if (PT_UNLIKELY(passes(b, self)))
        return go_on(&c);
    Py_ssize_t n = PyTuple_GET_SIZE(tuple), named = dict ? PyDict_GET_SIZE(dict) : 0, at = 0, i = 0;
    if (!named)
        return with_self(&c, ((PyTupleObject *)tuple)->ob_item, n, NULL);
    PyObject *names = PyTuple_New(named), **args = PyMem_Malloc((size_t)(n + named) * sizeof *args), *name, *value;
    PyObject *result;
    if (names && args) {
        memcpy(args, ((PyTupleObject *)tuple)->ob_item, (size_t)n * sizeof *args);
        for (; i < named && PyDict_Next(dict, &at, &name, &value); i++) {
            PyTuple_SET_ITEM(names, i, Py_NewRef(name));
            args[n + i] = value;
        }
        result = with_self(&c, args, n, names);
    } else {
        PyErr_Clear();
        result = go_on(&c);
    }
    PyMem_Free(args);
    Py_XDECREF(names);
    return result;
}

static PyObject *fast(const struct pt_builtin *b, PyObject *self, PyTypeObject *class, PyObject *const *args, Py_ssize_t n,
                      PyObject *names)
{
    struct pt_builtin_call c = {.builtin = b, .self = self, .names = names, .args = args, .n = n, .class = class};
    if (PT_UNLIKELY(passes(b, self)))
        return go_on(&c);
    return with_self(&c, args, n, names);
}

#define PLACE(i)                                                                                                       \
    static PyObject *one_##i(PyObject *s, PyObject *a) { return one(&places[0x##i], s, a); }                            \
    static PyObject *dict_##i(PyObject *s, PyObject *a, PyObject *k) { return dict(&places[0x##i], s, a, k); }          \
    static PyObject *fast_##i(PyObject *s, PyObject *const *a, Py_ssize_t n)                                           \
    {                                                                                                                  \
        return fast(&places[0x##i], s, NULL, a, n, NULL);                                                              \
    }                                                                                                                  \
    static PyObject *names_##i(PyObject *s, PyObject *const *a, Py_ssize_t n, PyObject *k)                             \
    {                                                                                                                  \
        return fast(&places[0x##i], s, NULL, a, n, k);                                                                 \
    }                                                                                                                  \
    static PyObject *class_##i(PyObject *s, PyTypeObject *c, PyObject *const *a, size_t n, PyObject *k)                \
    {                                                                                                                  \
        return fast(&places[0x##i], s, c, a, (Py_ssize_t)n, k);                                                        \
    }
#define SIXTEEN(h)                                                                                                     \
    PLACE(h##0) PLACE(h##1) PLACE(h##2) PLACE(h##3) PLACE(h##4) PLACE(h##5) PLACE(h##6) PLACE(h##7)                    \
    PLACE(h##8) PLACE(h##9) PLACE(h##a) PLACE(h##b) PLACE(h##c) PLACE(h##d) PLACE(h##e) PLACE(h##f)
#define ALL SIXTEEN(0) SIXTEEN(1) SIXTEEN(2) SIXTEEN(3) SIXTEEN(4) SIXTEEN(5) SIXTEEN(6) SIXTEEN(7)
ALL
#undef PLACE

static const struct {
    void *one, *dict, *fast, *names, *class;
} doors[PLACES] = {
#define PLACE(i) {one_##i, dict_##i, fast_##i, names_##i, class_##i},
    ALL
#undef PLACE
};

static void *door_of(const struct pt_builtin *b)
{
    size_t i = (size_t)(b - places);
    switch (b->before.ml_flags & CONVENTION) {
    case METH_NOARGS:
    case METH_O:
    case METH_VARARGS:
        return doors[i].one;
    case METH_VARARGS | METH_KEYWORDS:
        return doors[i].dict;
    case METH_FASTCALL:
        return doors[i].fast;
    case METH_FASTCALL | METH_KEYWORDS:
        return doors[i].names;
    case METH_METHOD | METH_FASTCALL | METH_KEYWORDS:
        return doors[i].class;
    default:
        return NULL;
    }
}

/* ---- hashing and comparing ------------------------------------------------------------- */

/* Both take the C function into account: whoever has such functions in a dict finds them all the same. */
static hashfunc hash_before;
static richcmpfunc compare_before;
static PyTypeObject *const function_types[] = {&PyCFunction_Type, &PyCMethod_Type};

/* It, or a copy of what they look at, as it was. */
static PyObject *as_it_was(PyObject *function, PyCFunctionObject *copy)
{
    if (!PyCFunction_Check(function))
        return function;
    struct pt_target *g = pt_target_of(((PyCFunctionObject *)function)->m_ml);
    if (!g || !pt_builtin_is_watched(g->builtin))
        return function;
    *copy = *(PyCFunctionObject *)function;
    copy->m_ml = &g->builtin->before;
    return (PyObject *)copy;
}

static Py_hash_t hash(PyObject *function)
{
    PyCFunctionObject copy;
    return hash_before(as_it_was(function, &copy));
}

static PyObject *compare(PyObject *a, PyObject *b, int how)
{
    PyCFunctionObject copies[2];
    return compare_before(as_it_was(a, &copies[0]), as_it_was(b, &copies[1]), how);
}

static void hash_as_before(void)
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

void pt_builtins_unwatched(void)
{
    for (size_t i = 0; i < sizeof function_types / sizeof *function_types; i++) {
        if (function_types[i]->tp_hash == hash)
            function_types[i]->tp_hash = hash_before;
        if (function_types[i]->tp_richcompare == compare)
            function_types[i]->tp_richcompare = compare_before;
    }
}

/* ---- exchanging and putting back --------------------------------------------------------- */

struct place_in_memory {
    uintptr_t at;
    bool read_only;
};

/* Of one loaded object: whether the address is in a part of it that may not be written, or no longer. */
static int look_at_object(struct dl_phdr_info *object, size_t size, void *data)
{
    (void)size;
    struct place_in_memory *place = data;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t first = object->dlpi_addr + part->p_vaddr;
        bool within = place->at - first < part->p_memsz;
        if (within && ((part->p_type == PT_LOAD && !(part->p_flags & PF_W)) || part->p_type == PT_GNU_RELRO))
            place->read_only = true;
    }
    return place->read_only;
}

static bool is_read_only(const PyMethodDef *definition)
{
    struct place_in_memory place = {(uintptr_t)&definition->ml_meth, false};
    dl_iterate_phdr(look_at_object, &place);
    return place.read_only;
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
    return b && __atomic_load_n(&b->definition->ml_meth, __ATOMIC_ACQUIRE) == (PyCFunction)door_of(b);
}

/* Its place, a new one if it has none. */
static const char *place_for(struct pt_target *g, PyMethodDef *definition)
{
    struct pt_builtin *b = g->builtin;
    if (b)
        return NULL;
    if (place_count == PLACES)
        return "too many builtin functions are watched";
    if (is_read_only(definition))
        return "its definition is read-only";
    b = &places[place_count];
    *b = (struct pt_builtin){.definition = definition, .before = *definition, .target = g};
    if (!door_of(b))
        return "its calling convention is not known";
    place_count++;
    g->builtin = b;
    return NULL;
}

const char *pt_builtin_watch(struct pt_target *g)
{
    PyMethodDef *definition = pt_builtin_definition(g->function);
    const char *problem = place_for(g, definition);
    if (problem)
        return problem;
    struct pt_builtin *b = g->builtin;
    b->method = Py_IS_TYPE(g->function, &PyMethodDescr_Type);
    PyObject *self = b->method ? NULL : PyCFunction_GET_SELF(g->function);
    b->self = self && !PyModule_Check(self) ? self : NULL;
    if (definition->ml_meth != b->before.ml_meth)
        return NULL; /* it is watched, or somebody has come after us, and goes on to us */
    if (PyCFunction_Type.tp_hash != hash)
        hash_as_before();
    __atomic_store_n(&definition->ml_meth, (PyCFunction)door_of(b), __ATOMIC_RELEASE);
    return NULL;
}

void pt_builtin_unwatch(struct pt_builtin *b)
{
    if (pt_builtin_is_watched(b)) /* else it is somebody else's */
        __atomic_store_n(&b->definition->ml_meth, b->before.ml_meth, __ATOMIC_RELEASE);
}
