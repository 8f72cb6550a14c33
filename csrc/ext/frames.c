/* The Python stack of an operation, read without the GIL.
 *
 * A hook runs on the thread that made the call, so that thread's frames cannot
 * move or go away, and each frame keeps its code object alive.  A stack is told
 * by a hash over its frames' instructions and a fingerprint of their code
 * objects (a freed code object's address can come back as another's); only a
 * stack that was never met is written out, with its lines worked out then by
 * PyCode_Addr2Line, which reads nothing but the code object. */
#define Py_BUILD_CORE 1
#include <Python.h>

#if PY_VERSION_HEX >= 0x030E0000
#include "internal/pycore_interpframe.h"
#include "internal/pycore_stackref.h"
#else
#include "internal/pycore_frame.h"
#endif
#undef Py_BUILD_CORE

#include "frames.h"

#include <string.h>

#if PY_VERSION_HEX < 0x030B0000
#error "pyio_trace needs Python 3.11 or newer"
#endif

#define DEEPEST 128u
static unsigned depth_limit = DEEPEST;

void pt_frames_set_depth(unsigned depth)
{
    depth_limit = depth && depth < DEEPEST ? depth : DEEPEST;
}

const char *pt_frames_unsupported(void)
{
#if PY_VERSION_HEX >= 0x03100000
    return "frame layout of this Python version is not known";
#else
    /* The layout is that of the headers built against: same minor version, or nothing. */
    const char *v = Py_GetVersion();
    int major = 0, minor = 0;
    if (sscanf(v, "%d.%d", &major, &minor) == 2 && major == PY_MAJOR_VERSION && minor == PY_MINOR_VERSION)
        return NULL;
    return "built for another Python version";
#endif
}

#if PY_VERSION_HEX >= 0x030D0000
#define CURRENT_THREAD() PyThreadState_GetUnchecked()
#else
#define CURRENT_THREAD() _PyThreadState_UncheckedGet()
#endif

static inline struct _PyInterpreterFrame *innermost(PyThreadState *ts)
{
#if PY_VERSION_HEX >= 0x030D0000
    return ts->current_frame;
#else
    return ts->cframe ? ts->cframe->current_frame : NULL;
#endif
}

/* Entry frames of the C stack hold no code of the program (owner 3 and up). */
static inline PyCodeObject *code_of(struct _PyInterpreterFrame *f)
{
#if PY_VERSION_HEX >= 0x030E0000
    return f->owner >= 3 ? NULL : (PyCodeObject *)PyStackRef_AsPyObjectBorrow(f->f_executable);
#elif PY_VERSION_HEX >= 0x030D0000
    return f->owner >= 3 ? NULL : (PyCodeObject *)f->f_executable;
#else
    return f->owner >= 3 ? NULL : f->f_code;
#endif
}

static inline const void *instruction_of(struct _PyInterpreterFrame *f)
{
#if PY_VERSION_HEX >= 0x030D0000
    return f->instr_ptr;
#else
    return f->prev_instr;
#endif
}

/* What no two code objects share even at one address: their version, or (3.11)
 * the cached hash of their name. */
#if PY_VERSION_HEX >= 0x030C0000
#define FINGERPRINT(code) ((uint64_t)(code)->co_version << 32)
#else
#define FINGERPRINT(code) ((uint64_t)((PyASCIIObject *)(code)->co_qualname)->hash)
#endif

static inline uint64_t frame_value(const PyCodeObject *code, const void *instruction)
{
    uint64_t a = (uint64_t)(uintptr_t)instruction * 0x9e3779b97f4a7c15ull;
    uint64_t b = ((uint64_t)(uintptr_t)code->co_linetable ^ ((uint64_t)(uintptr_t)code->co_filename << 16)) * 0xff51afd7ed558ccdull;
    uint64_t c = ((uint64_t)(uintptr_t)code->co_qualname + (uint64_t)(uint32_t)code->co_firstlineno +
                  FINGERPRINT(code)) * 0xc4ceb9fe1a85ec53ull;
    return a ^ (b + c);
}

/* ---- writing what was never met -------------------------------------------------- */

/* A str's bytes as UTF-8 without the interpreter's help.  Lone surrogates are
 * written as they are; the reader escapes them.  Returns the bytes needed. */
static size_t utf8_of(PyObject *text, char *out, size_t room)
{
    if (!text || !PyUnicode_Check(text))
        return 0;
    size_t used = 0;
    Py_ssize_t n = PyUnicode_GET_LENGTH(text);
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    for (Py_ssize_t i = 0; i < n && used + 4 <= room; i++) {
        Py_UCS4 ch = PyUnicode_READ(kind, data, i);
        if (ch < 0x80) {
            out[used++] = (char)ch;
        } else if (ch < 0x800) {
            out[used++] = (char)(0xc0 | ch >> 6);
            out[used++] = (char)(0x80 | (ch & 0x3f));
        } else if (ch < 0x10000) {
            out[used++] = (char)(0xe0 | ch >> 12);
            out[used++] = (char)(0x80 | (ch >> 6 & 0x3f));
            out[used++] = (char)(0x80 | (ch & 0x3f));
        } else {
            out[used++] = (char)(0xf0 | ch >> 18);
            out[used++] = (char)(0x80 | (ch >> 12 & 0x3f));
            out[used++] = (char)(0x80 | (ch >> 6 & 0x3f));
            out[used++] = (char)(0x80 | (ch & 0x3f));
        }
    }
    return used;
}

/* Apart, for its frame: nearly every name is ASCII, and a signal handler's stack may be small. */
static PT_COLD uint32_t wide_string_of(PyObject *text)
{
    char bytes[4096];
    return pt_string(bytes, utf8_of(text, bytes, sizeof bytes), 0);
}

static uint32_t string_of(PyObject *text)
{
    if (text && PyUnicode_Check(text) && PyUnicode_IS_COMPACT_ASCII(text))
        return pt_string(PyUnicode_DATA(text), (size_t)PyUnicode_GET_LENGTH(text), 0);
    return wide_string_of(text);
}

static uint32_t code_id(PyCodeObject *code)
{
    uint64_t hash = frame_value(code, code) ^ 0x434f4445ull;
    hash = hash ? hash : 1;
    uint32_t id = pt_intern_find(hash);
    if (id)
        return id;
    uint32_t file = string_of(code->co_filename);
    uint32_t function = string_of(code->co_qualname);
    struct pt_code *c = pt_heap_alloc_slow(sizeof *c);
    if (!c)
        return 0;
    c->file = file;
    c->function = function;
    c->first_line = (uint32_t)code->co_firstlineno;
    pt_heap_publish(c, PT_HEAP_CODE);
    id = pt_id_of(c);
    pt_intern_add(hash, id);
    return id;
}

/* From 3.13 on, a specialised call of a class puts a frame of the interpreter's
 * own beneath __init__; tracebacks do not show it either. */
static bool is_shim(const PyCodeObject *code)
{
#if PY_VERSION_HEX >= 0x030D0000 && defined(CO_NO_MONITORING_EVENTS)
    return code->co_flags & CO_NO_MONITORING_EVENTS;
#else
    (void)code;
    return false;
#endif
}

static bool named(PyObject *text, const char *start)
{
    size_t n = strlen(start);
    return text && PyUnicode_Check(text) && PyUnicode_IS_COMPACT_ASCII(text) &&
           (size_t)PyUnicode_GET_LENGTH(text) >= n && memcmp(PyUnicode_DATA(text), start, n) == 0;
}

/* Is it the import machinery that asks for this, or site at the start?  Then the
 * innermost frames are theirs, but for helpers such as os.path; a loader that
 * hands out a data file (get_data called from outside) is not importing. */
static bool is_import(struct _PyInterpreterFrame *f)
{
    bool importing = false, data = false;
    for (; f; f = f->previous) {
        PyCodeObject *code = code_of(f);
        if (!code || is_shim(code))
            continue;
        PyObject *file = code->co_filename;
        bool machinery = named(file, "<frozen importlib") || named(file, "<frozen zipimport") || named(file, "<frozen site");
        if (!machinery && (importing || !named(file, "<frozen ")))
            break;
        importing |= machinery;
        data = named(code->co_name, "get_data");
    }
    return importing && !data;
}

static uint32_t write_stack(struct _PyInterpreterFrame *f, uint64_t hash)
{
    struct pt_frame frames[DEEPEST];
    uint32_t n = 0;
    if (pt.left_out_kinds >> PT_LEFT_IMPORT & 1 && is_import(f)) {
        pt_intern_add(hash, PT_STACK_IMPORT);
        return PT_STACK_IMPORT;
    }
    for (; f && n < depth_limit; f = f->previous) {
        PyCodeObject *code = code_of(f);
        if (!code || is_shim(code))
            continue;
        int at = _PyInterpreterFrame_LASTI(f) * (int)sizeof(_Py_CODEUNIT);
        int line = at < 0 ? code->co_firstlineno : PyCode_Addr2Line(code, at);
        frames[n].code = code_id(code);
        frames[n].line = line < 0 ? 0 : (uint32_t)line;
        n++;
    }
    if (!n)
        return 0;
    /* Several instructions can be of one line: a loop's condition, a finally block. */
    uint64_t lines = pt_hash_bytes(frames, n * sizeof *frames, 0x4c494e4500000000ull + (f != NULL));
    uint32_t known = pt_intern_find(lines);
    if (known) {
        pt_intern_add(hash, known);
        return known;
    }
    struct pt_stack *s = pt_heap_alloc_slow((uint32_t)(sizeof *s + n * sizeof *frames));
    if (!s)
        return 0;
    s->count = n;
    s->truncated = f != NULL;
    memcpy(s + 1, frames, n * sizeof *frames);
    pt_heap_publish(s, PT_HEAP_STACK);
    uint32_t id = pt_id_of(s);
    pt_intern_add(lines, id);
    pt_intern_add(hash, id);
    return id;
}

/* ---- the usual path ---------------------------------------------------------------- */

/* A thread remembers its last stacks.  Hash and id are stored folded together,
 * so that a signal handler between two stores makes a miss, never a mix-up. */
#define FOLD(hash, id) ((hash) ^ (uint64_t)(id)*0x9e3779b97f4a7c15ull)

static __attribute__((noinline)) uint32_t stack_of(struct pt_thread *t, PyThreadState *ts)
{
    if (!ts && !(ts = PyGILState_GetThisThreadState()))
        return 0;
    struct _PyInterpreterFrame *first = innermost(ts);
    uint64_t hash = 0;
    unsigned left = depth_limit;
    for (struct _PyInterpreterFrame *f = first; f && left; f = f->previous) {
        PyCodeObject *code = code_of(f);
        if (!code)
            continue;
        hash = ((hash << 7 | hash >> 57) ^ frame_value(code, instruction_of(f))) * 0xd6e8feb86659fd93ull;
        left--;
    }
    if (!hash)
        return 0;
    unsigned place = hash % PT_STACKS;
    uint32_t id = t->stack_id[place];
    if (PT_LIKELY(t->stack_hash[place] == FOLD(hash, id)))
        return id;
    id = pt_intern_find(hash);
    if (PT_UNLIKELY(!id))
        id = write_stack(first, hash);
    t->stack_id[place] = id;
    t->stack_hash[place] = FOLD(hash, id);
    return id;
}

uint32_t pt_frames_stack_no_gil(struct pt_thread *t)
{
    PyThreadState *ts = t->depth ? t->call_thread : NULL;
    if (ts) {
        /* Beneath a file object's method: while its caller is still innermost, the stack is its caller's. */
        struct _PyInterpreterFrame *first = innermost(ts);
        if (first == t->call_site[0] && first && instruction_of(first) == t->call_site[1])
            return t->call_stack;
    }
    return stack_of(t, ts);
}

bool pt_frames_same_site(struct pt_thread *t, const void *const site[6])
{
    PyThreadState *ts = CURRENT_THREAD();
    struct _PyInterpreterFrame *f = innermost(ts);
    t->call_thread = ts; /* it lives as long as the call, should that come to open its span */
    for (int i = 0; i < 6; i += 2) {
        if (site[i] != f || (f && site[i + 1] != instruction_of(f)))
            return false;
        f = f ? f->previous : NULL;
    }
    return true;
}

void pt_frames_site(const void *out[6])
{
    struct _PyInterpreterFrame *f = innermost(CURRENT_THREAD());
    for (int i = 0; i < 6; i += 2) {
        out[i] = f;
        out[i + 1] = f ? instruction_of(f) : NULL;
        f = f ? f->previous : NULL;
    }
}

void pt_frames_call_from(struct pt_thread *t, bool recorded)
{
    PyThreadState *ts = CURRENT_THREAD();
    struct _PyInterpreterFrame *f = innermost(ts);
    t->call_thread = ts; /* it lives as long as the call */
    t->call_site[0] = recorded ? f : NULL;
    t->call_site[1] = f ? instruction_of(f) : NULL;
}
