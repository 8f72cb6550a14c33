/* One call on a Python file object.
 *
 * Only the outermost call is recorded: what a TextIOWrapper asks of its buffer
 * and the buffer of its raw file is the same request on its way down.  Tiny
 * calls coalesce: like calls (same object, operation, site and parent) add to
 * one record, so that counts, bytes and times stay exact at a few ns a call. */
#include "filecall.h"

#include "frames.h"

struct pt_file_layout pt_layout;

/* ---- the private structures ------------------------------------------------------ */

static Py_ssize_t find_pointer(PyObject *object, const void *wanted)
{
    Py_ssize_t size = Py_TYPE(object)->tp_basicsize;
    for (Py_ssize_t at = sizeof(PyObject); at + (Py_ssize_t)sizeof(void *) <= size; at += sizeof(void *))
        if (*(void **)((char *)object + at) == wanted)
            return at;
    return -1;
}

static PyTypeObject *io_type(PyObject *io, const char *name)
{
    PyObject *type = PyObject_GetAttrString(io, name);
    if (type && !PyType_Check(type))
        Py_CLEAR(type);
    return (PyTypeObject *)type; /* kept for the life of the process */
}

static int fd_at(PyObject *raw, Py_ssize_t at) { return *(int *)((char *)raw + at); }

static const char *examine(PyObject *raw, PyObject *buffered, PyObject *text)
{
    PyObject *number = PyObject_CallMethod(raw, "fileno", NULL);
    long fd = number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    pt_layout.fd = sizeof(PyObject);
    pt_layout.raw_in_buffered = find_pointer(buffered, raw);
    pt_layout.buffer_in_text = find_pointer(text, buffered);
    if (fd < 0 || fd_at(raw, pt_layout.fd) != fd || pt_layout.raw_in_buffered < 0 || pt_layout.buffer_in_text < 0)
        return "layout of the io types is not understood";
    return NULL;
}

const char *pt_layout_find(void)
{
    const char *problem = "the io types are not there";
    PyObject *io = PyImport_ImportModule("_io");
    if (!io)
        goto out;
    pt_layout.raw = io_type(io, "FileIO");
    pt_layout.reader = io_type(io, "BufferedReader");
    pt_layout.writer = io_type(io, "BufferedWriter");
    pt_layout.random = io_type(io, "BufferedRandom");
    pt_layout.text = io_type(io, "TextIOWrapper");
    if (PyErr_Occurred() || !pt_layout.raw || !pt_layout.reader || !pt_layout.writer || !pt_layout.random || !pt_layout.text)
        goto out;
    PyObject *raw = PyObject_CallFunction((PyObject *)pt_layout.raw, "s", "/dev/null");
    PyObject *buffered = raw ? PyObject_CallFunctionObjArgs((PyObject *)pt_layout.reader, raw, NULL) : NULL;
    PyObject *text = buffered ? PyObject_CallFunction((PyObject *)pt_layout.text, "Os", buffered, "utf-8") : NULL;
    if (text)
        problem = examine(raw, buffered, text);
    PyObject *closed = text ? PyObject_CallMethod(text, "close", NULL) : NULL;
    Py_XDECREF(closed);
    Py_XDECREF(text);
    Py_XDECREF(buffered);
    Py_XDECREF(raw);
out:
    Py_XDECREF(io);
    PyErr_Clear();
    return problem;
}

int pt_file_descriptor(PyObject *file, enum pt_file_kind kind)
{
    if (kind == PT_KIND_TEXT) {
        file = *(PyObject **)((char *)file + pt_layout.buffer_in_text);
        if (!file)
            return -1;
        PyTypeObject *type = Py_TYPE(file);
        if (type == pt_layout.raw)
            kind = PT_KIND_RAW;
        else if (type != pt_layout.reader && type != pt_layout.writer && type != pt_layout.random)
            return -1;
    }
    if (kind != PT_KIND_RAW) {
        file = *(PyObject **)((char *)file + pt_layout.raw_in_buffered);
        if (!file || Py_TYPE(file) != pt_layout.raw)
            return -1;
    }
    return fd_at(file, pt_layout.fd);
}

/* ---- bytes and errors -------------------------------------------------------------- */

/* A str counts as its UTF-8; docs/limits.md names the other encodings. */
static uint64_t text_bytes(PyObject *text)
{
    Py_ssize_t n = PyUnicode_GET_LENGTH(text);
    if (PyUnicode_IS_ASCII(text))
        return (uint64_t)n;
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    uint64_t bytes = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_UCS4 ch = PyUnicode_READ(kind, data, i);
        bytes += ch < 0x80 ? 1 : ch < 0x800 ? 2 : ch < 0x10000 ? 3 : 4;
    }
    return bytes;
}

uint64_t pt_bytes_of(PyObject *value)
{
    if (PyBytes_Check(value))
        return (uint64_t)PyBytes_GET_SIZE(value);
    if (PyUnicode_Check(value))
        return text_bytes(value);
    if (PyByteArray_Check(value))
        return (uint64_t)PyByteArray_GET_SIZE(value);
    if (PyMemoryView_Check(value))
        return (uint64_t)PyMemoryView_GET_BUFFER(value)->len;
    Py_buffer view;
    if (!PyObject_CheckBuffer(value) || PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0) {
        PyErr_Clear();
        return 0;
    }
    uint64_t bytes = (uint64_t)view.len;
    PyBuffer_Release(&view);
    return bytes;
}

int pt_error_number(void)
{
    if (!PyErr_ExceptionMatches(PyExc_OSError))
        return 0;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    long number = 0;
    if (value && PyObject_TypeCheck(value, (PyTypeObject *)PyExc_OSError)) {
        PyObject *code = ((PyOSErrorObject *)value)->myerrno;
        number = code && PyLong_Check(code) ? PyLong_AsLong(code) : 0;
    }
    PyErr_Restore(type, value, trace);
    return (int)number;
}

/* ---- runs ---------------------------------------------------------------------------- */

/* A pause ends a run, so that a timeline shows it.  About 10 ms at 2 to 4 GHz. */
#define RUN_PAUSE 30000000u

static struct pt_run *run_of(struct pt_thread *t, PyObject *file, unsigned op)
{
    return &t->runs[((uintptr_t)file >> 5 ^ op) % PT_RUNS];
}

static inline bool run_goes_on(struct pt_run *run, const struct pt_thread *t, PyObject *file, unsigned op, uint32_t desc,
                               uint64_t now)
{
    bool same_site = pt_frames_same_site(run->site); /* first: it also notes the new site */
    return same_site && run->record && run->record->begin == run->first && run->object == file && run->op == op && run->parent == t->parent &&
           run->record->desc == desc && now - run->last < RUN_PAUSE && run->record->aux < UINT32_MAX && run->record->size < 0xf0000000u && run->record->result < 0xf0000000u;
}

static inline void open_span(struct pt_file_call *c, struct pt_thread *t, uint32_t id, uint32_t stack,
                             const void *const site[2])
{
    c->parent_before = t->parent;
    c->link_before = t->link;
    c->epoch = t->epoch;
    if (PT_LIKELY(id)) {
        t->parent = id;
        t->link = PT_LINK_THREAD;
        t->call_stack = stack;
    }
    t->call_site[0] = id ? site[0] : NULL;
    t->call_site[1] = site[1];
    t->depth++;
}

void pt_file_begin(struct pt_file_call *c, PyObject *file, enum pt_file_kind kind, unsigned op, uint64_t asked, bool coalesce)
{
    c->thread = NULL;
    c->run = NULL;
    struct pt_thread *t = pt_enter();
    if (!t || t->depth)
        return;
    uint32_t desc = 0;
    int fd = -1;
    if (kind == PT_KIND_MAPPED) {
        desc = pt_mapping_desc(*(void **)((char *)file + sizeof(PyObject)));
        if (!desc)
            return; /* anonymous memory */
    } else {
        fd = pt_file_descriptor(file, kind);
        if (fd < 0)
            return;
        pt_fd_entry e = pt_fd_get(t, fd);
        if (e & PT_FD_EXCLUDED)
            return; /* counted beneath */
        desc = pt_entry_id(e);
    }
    c->thread = t;
    c->asked = asked;
    c->joins = false;
    if (coalesce && (asked < PT_RUN_BELOW || asked == PT_ASKED_NONE)) {
        c->run = run_of(t, file, op);
        c->begin = pt_ticks();
        if (PT_LIKELY(run_goes_on(c->run, t, file, op, desc, c->begin))) {
            c->joins = true;
            open_span(c, t, pt_id_of(c->run->record), c->run->record->stack, c->run->site);
            return;
        }
        c->run->record = NULL; /* set when its first call is done */
        c->run->object = file;
        c->run->op = (uint8_t)op;
        c->run->parent = t->parent;
    }
    pt_begin(&c->call, t, op, desc, (uint32_t)fd, -1, asked == PT_ASKED_NONE ? PT_SIZE_NONE : asked);
    c->begin = c->call.begin;
    const void *site[2];
    pt_frames_innermost(site);
    open_span(c, t, pt_call_id(&c->call), c->call.record->stack, site);
}

static void first_of_run(struct pt_file_call *c, int64_t moved, int error)
{
    struct pt_record *r = c->call.record;
    uint64_t now = pt_ticks();
    bool run = c->call.apart == PT_RECORDED && !error;
    if (run) {
        c->call.flags |= PT_COALESCED;
        r->aux = 1;
        r->offset = (int64_t)(now - c->begin);
        r->size = c->asked == PT_ASKED_NONE ? (uint32_t)(moved < 0 ? 0 : moved) : (uint32_t)c->asked;
    }
    pt_end(&c->call, moved < 0 ? 0 : moved, error);
    if (run && c->call.apart == PT_RECORDED) { /* not dropped as too small */
        c->run->record = r;
        c->run->first = c->begin;
        c->run->last = now;
    }
}

static void next_of_run(struct pt_file_call *c, int64_t moved)
{
    struct pt_run *run = c->run;
    struct pt_record *r = run->record;
    uint64_t now = pt_ticks();
    uint64_t duration = ((uint64_t)r->duration_hi << 32 | r->duration_lo) + (now - c->begin);
    uint32_t got = moved < 0 ? 0 : (uint32_t)moved;
    r->duration_lo = (uint32_t)duration;
    r->duration_hi = (uint16_t)(duration >> 32);
    r->aux++;
    r->size += c->asked == PT_ASKED_NONE ? got : (uint32_t)c->asked;
    r->result += got;
    r->offset = (int64_t)(now - run->first);
    run->last = now;
}

/* A call that failed is not lost in a run's sums: it ends the run and has a record of its own. */
static PT_COLD void failed_in_run(struct pt_file_call *c, int64_t moved, int error)
{
    uint32_t desc = c->run->record->desc;
    uint32_t fd = desc ? (uint32_t)((struct pt_desc *)pt_at(desc))->fd : UINT32_MAX;
    c->run->record = NULL;
    pt_begin(&c->call, c->thread, c->run->op, desc, fd, -1, c->asked == PT_ASKED_NONE ? PT_SIZE_NONE : c->asked);
    c->call.begin = c->call.record->begin = c->begin;
    pt_end(&c->call, moved, error);
}

void pt_file_end(struct pt_file_call *c, int64_t moved, bool failed)
{
    struct pt_thread *t = c->thread;
    if (!t)
        return;
    if (PT_UNLIKELY(t->epoch != c->epoch)) { /* its record is another log's, or the parent process's to complete */
        t->parent = 0;
        t->depth--;
        return;
    }
    t->parent = c->parent_before;
    t->link = c->link_before;
    t->depth--;
    int error = failed ? pt_error_number() : 0;
    if (!c->run)
        pt_end(&c->call, moved, error);
    else if (!c->joins)
        first_of_run(c, moved, error);
    else if (PT_UNLIKELY(!c->run->record || c->run->record->begin != c->run->first))
        c->run->record = NULL; /* a ring has come round to it */
    else if (PT_UNLIKELY(error))
        failed_in_run(c, moved, error);
    else
        next_of_run(c, moved);
}
