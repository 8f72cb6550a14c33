/* The Python stack of an operation, read without the GIL.
 *
 * A hook runs on the thread that made the call.  So that thread's frames neither move nor go away meanwhile, and each
 * keeps its code object alive.  A stack is identified by a hash over its frames' instructions and the fingerprints of
 * their code objects, since a new code object may get the address of a freed one.  Only a stack that is new to the
 * log is written out.  Its lines come from PyCode_Addr2Line, which reads nothing but the code object. */
#include "frames/interpreter.h"

#include "frames/frames.h"

#include <string.h>

#define DEEPEST 128u
static unsigned depth_limit = DEEPEST;

void pt_frames_set_depth(unsigned depth)
{
    depth_limit = depth && depth < DEEPEST ? depth : DEEPEST;
}

const char *pt_frames_unsupported(void)
{
#if !PT_FRAMES_KNOWN
    return "frame layout of this Python version is not known";
#else
    /* The layout is known for the minor version of the headers only. */
    const char *v = Py_GetVersion();
    int major = 0, minor = 0;
    if (sscanf(v, "%d.%d", &major, &minor) == 2 && major == PY_MAJOR_VERSION && minor == PY_MINOR_VERSION)
        return NULL;
    return "built for another Python version";
#endif
}

static inline uint64_t frame_value(const PyCodeObject *code, const void *instruction)
{
    uint64_t a = (uint64_t)(uintptr_t)instruction * 0x9e3779b97f4a7c15ull;
    uint64_t b = ((uint64_t)(uintptr_t)code->co_linetable ^ ((uint64_t)(uintptr_t)code->co_filename << 16)) *
                 0xff51afd7ed558ccdull;
    uint64_t c = ((uint64_t)(uintptr_t)code->co_qualname + (uint64_t)(uint32_t)code->co_firstlineno +
                  pt_code_fingerprint(code)) *
                 0xc4ceb9fe1a85ec53ull;
    return a ^ (b + c);
}

/* ---- writing a stack that is new ------------------------------------------------- */

/* Encodes a str as UTF-8 without calling the interpreter.  Lone surrogates are written as they are; the reader escapes
 * them.  Returns the bytes written. */
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

/* A function of its own, to keep its buffer out of the usual path's frame: nearly every name is ASCII, and a signal
 * handler may run on a small stack. */
static PT_COLD uint32_t wide_string_of(PyObject *text)
{
    char bytes[4096];
    return pt_location(bytes, utf8_of(text, bytes, sizeof bytes), 0);
}

static uint32_t string_of(PyObject *text)
{
    if (text && PyUnicode_Check(text) && PyUnicode_IS_COMPACT_ASCII(text))
        return pt_location(PyUnicode_DATA(text), (size_t)PyUnicode_GET_LENGTH(text), 0);
    return wide_string_of(text);
}

static uint32_t line_table_hash(const PyCodeObject *code)
{
    const PyObject *table = code->co_linetable;
    if (!table || !PyBytes_Check(table))
        return 0;
    return (uint32_t)pt_hash_bytes(((const PyBytesObject *)table)->ob_sval, (size_t)Py_SIZE(table), 0x4c54) | 1;
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
    c->line_table = line_table_hash(code);
    pt_heap_publish(c, PT_HEAP_CODE);
    id = pt_id_of(c);
    pt_intern_add(hash, id);
    return id;
}

#define MOST_SENT 4096u

void pt_frames_note_sent(PyObject *object)
{
    static uint32_t noted_by, noted;
    if (!PyCode_Check(object) || !pt.process_id)
        return;
    PyCodeObject *code = (PyCodeObject *)object;
    noted = noted_by == pt.process_id ? noted : 0;
    noted_by = pt.process_id;
    uint64_t hash = (frame_value(code, code) ^ 0x53454e54ull ^ (uint64_t)pt.process_id << 32) | 1;
    uint32_t id = noted < MOST_SENT && !pt_intern_find(hash) ? code_id(code) : 0;
    struct pt_loaded *o = id ? pt_heap_alloc_slow(sizeof *o) : NULL;
    if (!o)
        return;
    o->path = id;
    o->previous = pt.process->sent;
    pt_heap_publish(o, PT_HEAP_LOADED);
    pt.process->sent = pt_id_of(o);
    pt_intern_add(hash, id);
    noted++;
}

static bool starts_with(PyObject *text, const char *start)
{
    size_t n = strlen(start);
    return text && PyUnicode_Check(text) && PyUnicode_IS_COMPACT_ASCII(text) &&
           (size_t)PyUnicode_GET_LENGTH(text) >= n && memcmp(PyUnicode_DATA(text), start, n) == 0;
}

static bool is_machinery(PyObject *file)
{
    return starts_with(file, "<frozen importlib") || starts_with(file, "<frozen zipimport") ||
           starts_with(file, "<frozen site");
}

/* Whether a function of the machinery imports, or searches for a module, if it is called from outside.  The reader has
 * the same list (join/references/call_stacks.py). */
static bool begins_import(PyObject *name)
{
    static const char *const names[] = {
        "_find_and_load",
        "_gcd_import",
        "__import__",
        "_handle_fromlist",
        "_load",
        "_exec",
        "exec_module",
        "load_module",
        "create_module",
        "module_from_spec",
        "_find_spec",
        "find_spec",
        "find_module",
        "path_hook_for_FileFinder",
        "_path_importer_cache",
        "_path_hooks",
        "_load_unlocked",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (starts_with(name, names[i]) && (size_t)PyUnicode_GET_LENGTH(name) == strlen(names[i]))
            return true;
    return false;
}

/* Whether this operation belongs to an import, or to the start of the interpreter.  The frames of the import machinery
 * are then innermost, but for helpers such as os.path, and the outermost of them is where an import begins.  Any other
 * function that is called from outside (get_data, set_data, get_source) works for its caller; runpy's get_code loads
 * the program. */
static bool is_import(struct _PyInterpreterFrame *f)
{
    PyCodeObject *outermost = NULL;
    for (; f; f = f->previous) {
        PyCodeObject *code = pt_frame_code(f);
        if (!code || pt_code_is_shim(code))
            continue;
        if (is_machinery(code->co_filename))
            outermost = code;
        else if (outermost)
            return begins_import(outermost->co_name) || starts_with(code->co_filename, "<frozen runpy");
        else if (!starts_with(code->co_filename, "<frozen "))
            return false;
    }
    return outermost != NULL;
}

static uint32_t write_stack(const struct pt_thread *t, struct _PyInterpreterFrame *f, uint64_t hash)
{
    struct pt_frame frames[DEEPEST + PT_SUBMITTERS];
    uint32_t n = 0;
    if (pt.left_out_kinds >> PT_LEFT_IMPORT & 1 && is_import(f)) {
        pt_intern_add(hash, PT_STACK_IMPORT);
        return PT_STACK_IMPORT;
    }
    for (; f && n < depth_limit; f = f->previous) {
        PyCodeObject *code = pt_frame_code(f);
        if (!code || pt_code_is_shim(code))
            continue;
        int line = pt_frame_line(f, code);
        frames[n].code = code_id(code);
        frames[n].line = line < 0 ? 0 : (uint32_t)line;
        n++;
    }
    if (!n)
        return 0;
    uint32_t submitters = t->from.count, all = n + submitters;
    for (uint32_t i = 0; i < submitters; i++)
        frames[n + i] = (struct pt_frame){.code = t->from.stacks[i]};
    /* Several instructions may belong to one line (a loop's condition, a finally block), and share its stack. */
    uint64_t lines = pt_hash_bytes(frames, all * sizeof *frames, 0x4c494e4500000000ull + (f != NULL) + 2 * submitters);
    uint32_t known = pt_intern_find(lines);
    if (known) {
        pt_intern_add(hash, known);
        return known;
    }
    struct pt_stack *s = pt_heap_alloc_slow((uint32_t)(sizeof *s + all * sizeof *frames));
    if (!s)
        return 0;
    s->count = n;
    s->truncated = f != NULL;
    s->submitters = (uint16_t)submitters;
    memcpy(s + 1, frames, all * sizeof *frames);
    pt_heap_publish(s, PT_HEAP_STACK);
    uint32_t id = pt_id_of(s);
    pt_intern_add(lines, id);
    pt_intern_add(hash, id);
    return id;
}

/* ---- the usual path ---------------------------------------------------------------- */

#define FOLD(hash, id) ((hash) ^ (uint64_t)(id) * 0x9e3779b97f4a7c15ull)

static __attribute__((noinline)) uint32_t stack_of(struct pt_thread *t, PyThreadState *ts)
{
    if (!ts && !(ts = PyGILState_GetThisThreadState()))
        return 0;
    struct _PyInterpreterFrame *first = pt_innermost_frame(ts);
    uint64_t hash = t->from.hash;
    unsigned left = depth_limit;
    for (struct _PyInterpreterFrame *f = first; f && left; f = f->previous) {
        PyCodeObject *code = pt_frame_code(f);
        if (!code)
            continue;
        hash = ((hash << 7 | hash >> 57) ^ frame_value(code, pt_frame_instruction(f))) * 0xd6e8feb86659fd93ull;
        left--;
    }
    if (!hash)
        return 0;
    struct pt_known_stack *known = &t->stacks[hash % PT_STACKS];
    uint32_t id = known->id;
    if (PT_LIKELY(known->folded == FOLD(hash, id)))
        return id;
    id = pt_intern_find(hash);
    if (PT_UNLIKELY(!id))
        id = write_stack(t, first, hash);
    known->id = id;
    known->folded = FOLD(hash, id);
    return id;
}

uint32_t pt_frames_stack_no_gil(struct pt_thread *t)
{
    PyThreadState *ts = t->depth ? t->call_thread : NULL;
    if (ts) {
        /* Inside a file object's method, while its caller is still the innermost frame: the stack is the caller's. */
        struct _PyInterpreterFrame *first = pt_innermost_frame(ts);
        if (first == t->call_site[0] && first && pt_frame_instruction(first) == t->call_site[1])
            return t->call_stack;
    }
    return stack_of(t, ts);
}

bool pt_frames_same_site(struct pt_thread *t, const void *const site[6])
{
    PyThreadState *ts = pt_current_thread();
    struct _PyInterpreterFrame *f = pt_innermost_frame(ts);
    t->call_thread = ts; /* for operations inside the call; lives as long as the call */
    for (int i = 0; i < 6; i += 2) {
        if (site[i] != f || (f && site[i + 1] != pt_frame_instruction(f)))
            return false;
        f = f ? f->previous : NULL;
    }
    return true;
}

void pt_frames_site(const void *out[6])
{
    struct _PyInterpreterFrame *f = pt_innermost_frame(pt_current_thread());
    for (int i = 0; i < 6; i += 2) {
        out[i] = f;
        out[i + 1] = f ? pt_frame_instruction(f) : NULL;
        f = f ? f->previous : NULL;
    }
}

void pt_frames_call_from(struct pt_thread *t, bool recorded)
{
    PyThreadState *ts = pt_current_thread();
    struct _PyInterpreterFrame *f = pt_innermost_frame(ts);
    t->call_thread = ts; /* lives as long as the call */
    t->call_site[0] = recorded ? f : NULL;
    t->call_site[1] = f ? pt_frame_instruction(f) : NULL;
}
