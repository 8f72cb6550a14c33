/* One call on a Python file object.
 *
 * Only the outermost call is recorded: what a TextIOWrapper asks of its buffer
 * and the buffer of its raw file is the same request on its way down.  Tiny
 * calls coalesce: like calls (same object, operation, site and parent) add to
 * one record.  Counts, bytes and the times of calls with something beneath are
 * exact; in a tight loop the others are timed now and then, at a few ns a call. */
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

static const char *examine(PyObject *raw, PyObject *buffered, PyObject *text)
{
    PyObject *number = PyObject_CallMethod(raw, "fileno", NULL);
    long fd = number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    pt_layout.fd = sizeof(PyObject);
    pt_layout.raw_in_buffered = find_pointer(buffered, raw);
    pt_layout.buffer_in_text = find_pointer(text, buffered);
    if (fd < 0 || pt_file_descriptor(raw, PT_KIND_RAW) != fd || pt_layout.raw_in_buffered < 0 || pt_layout.buffer_in_text < 0)
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

uint64_t pt_bytes_of_any(PyObject *value)
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

/* A run of calls that follow each other faster than this, and only copy memory, is a tight loop: two readings of the
 * clock would cost more than the call.  Then one call in UNTIMED_MOST + 1 is timed and stands for those after it. */
#define TIGHT_US 1u
#define UNTIMED_MOST 31u
/* Sums stay within their 32 bits, a whole stretch of untimed calls included. */
#define SUM_MOST 0xf0000000u
#define AT_ONCE_MOST 0x0fffffff

/* The run of these two, or where one may begin: a free place, or the one whose calls were timed longest ago, so that a
 * reader and a writer used by turns do not end each other's runs. */
static inline struct pt_run *run_of(struct pt_thread *t, PyObject *file, unsigned op)
{
    struct pt_run *usual = &t->runs[((uintptr_t)file >> 5 ^ op) % PT_RUNS], *oldest = usual;
    if (PT_LIKELY(usual->object == file && usual->op == op))
        return usual;
    for (int i = 0; i < PT_RUNS; i++) {
        struct pt_run *run = &t->runs[i];
        if (run->object == file && run->op == op)
            return run;
        if (oldest->record && (!run->record || run->timed < oldest->timed))
            oldest = run;
    }
    return oldest;
}

/* Reads the clock.  False: a pause, or sums that are full, have ended the run. */
static bool begin_timed(struct pt_file_call *c)
{
    const struct pt_run *run = c->run;
    const struct pt_record *r = run->record;
    c->begin = pt_ticks();
    return c->begin - run->first - (uint64_t)r->offset < PT_PAUSE_US * pt_ticks_per_us() && r->aux < SUM_MOST && r->size < SUM_MOST &&
           r->result < SUM_MOST;
}

/* Most calls of a run have nothing beneath them, and need no span; the first operation that is there opens it. */
static inline bool joins(struct pt_file_call *c, struct pt_thread *t, PyObject *file, unsigned op, uint32_t desc, uint64_t asked)
{
    struct pt_run *run = run_of(t, file, op);
    const struct pt_record *r = run->record;
    if (!r || run->object != file || run->op != op || run->parent != t->parent || r->begin != run->first || r->desc != desc ||
        !pt_frames_same_site(t, run->site))
        return false;
    c->run = run;
    c->begin = 0;
    if (PT_LIKELY(run->untimed))
        run->untimed--;
    else if (!begin_timed(c))
        return false;
    c->thread = t;
    c->asked = asked;
    c->epoch = t->epoch;
    c->joins = true;
    t->pending = run;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    t->gate = PT_GATE_PENDING;
    return true;
}

static void begin_run(struct pt_run *run, const struct pt_thread *t, PyObject *file, unsigned op)
{
    run->record = NULL; /* set when its first call is done */
    run->object = file;
    run->op = (uint8_t)op;
    run->parent = t->parent;
    run->granted = run->untimed = 0;
    run->usual = 0;
    pt_frames_site(run->site);
}

static void first_of_run(struct pt_file_call *c, int64_t moved, int error)
{
    struct pt_record *r = c->call.record;
    uint64_t now = pt_ticks();
    bool run = c->call.apart == PT_RECORDED && !error && moved <= AT_ONCE_MOST;
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
        c->run->timed = now;
    }
}

static inline void add_to_run(const struct pt_file_call *c, uint64_t ticks, int64_t moved)
{
    struct pt_record *r = c->run->record;
    uint32_t got = moved < 0 ? 0 : (uint32_t)moved;
    bool carry = __builtin_add_overflow(r->duration_lo, (uint32_t)ticks, &r->duration_lo);
    if (PT_UNLIKELY(carry || ticks >> 32))
        r->duration_hi += (uint16_t)((ticks >> 32) + carry);
    r->aux++;
    r->size += c->asked == PT_ASKED_NONE ? got : (uint32_t)c->asked;
    r->result += got;
}

/* After a call that was timed and had nothing beneath: how many may go untimed now?  A mapped file's pages can take any
 * time without a call beneath. */
static void set_pace(struct pt_file_call *c, uint64_t now)
{
    struct pt_run *run = c->run;
    uint64_t tight = TIGHT_US * pt_ticks_per_us();
    bool untimed = !c->mapped && now - c->begin < tight && now - run->timed < tight * (run->granted + 1u);
    unsigned next = run->granted * 2u + 1;
    run->granted = run->untimed = (uint8_t)(!untimed ? 0 : next < UNTIMED_MOST ? next : UNTIMED_MOST);
    run->usual = (uint32_t)(now - c->begin);
    run->timed = now;
}

/* A call that failed, or is too large, is not lost in a run's sums: it ends the run and has a record of its own. */
static PT_COLD void leave_run(struct pt_file_call *c, uint64_t begin, int64_t moved, int error)
{
    uint32_t desc = c->run->record->desc;
    uint32_t fd = desc ? (uint32_t)((struct pt_desc *)pt_at(desc))->fd : UINT32_MAX;
    uint64_t asked = c->asked != PT_ASKED_NONE ? c->asked : error || moved < 0 ? PT_SIZE_NONE : (uint64_t)moved;
    c->run->record = NULL;
    pt_begin(&c->call, c->thread, c->run->op, desc, fd, -1, asked);
    c->call.begin = c->call.record->begin = begin;
    pt_end(&c->call, moved, error);
}

/* The call was timed, or had something beneath, or failed. */
static PT_COLD void end_timed(struct pt_file_call *c, int64_t moved, bool failed, bool opened)
{
    struct pt_run *run = c->run;
    struct pt_thread *t = c->thread;
    uint64_t now = pt_ticks();
    if (opened) {
        t->depth--;
        bool another = t->epoch != c->epoch; /* its record is another log's, or the parent process's to complete */
        t->parent = another ? 0 : run->parent;
        t->link = run->link;
        if (another)
            return;
    }
    int error = failed ? pt_error_number() : 0;
    uint64_t begin = c->begin ? c->begin : opened ? run->opened : now;
    if (!run->record || run->record->begin != run->first) { /* tracing was stopped, or a ring has come round to it */
        run->record = NULL;
    } else if (PT_UNLIKELY(error || moved > AT_ONCE_MOST)) {
        leave_run(c, begin, moved, error);
    } else {
        add_to_run(c, now - begin, moved);
        run->record->offset = (int64_t)(now - run->first);
        if (c->begin && !opened)
            set_pace(c, now);
    }
}

static inline void end_joined(struct pt_file_call *c, int64_t moved, bool failed)
{
    struct pt_thread *t = c->thread;
    t->gate &= ~(uint32_t)PT_GATE_PENDING;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    bool opened = !t->pending;
    if (PT_LIKELY(!opened && !c->begin && !failed && moved < (int64_t)PT_RUN_BELOW && c->run->record))
        add_to_run(c, c->run->usual, moved);
    else
        end_timed(c, moved, failed, opened);
}

/* ---- one call -------------------------------------------------------------------------- */

static inline void open_span(struct pt_file_call *c, struct pt_thread *t)
{
    uint32_t id = pt_call_id(&c->call);
    c->parent_before = t->parent;
    c->link_before = t->link;
    c->epoch = t->epoch;
    if (PT_LIKELY(id)) {
        t->parent = id;
        t->link = PT_LINK_THREAD;
        t->call_stack = c->call.record->stack;
    }
    pt_frames_call_from(t, id != 0);
    t->depth++;
}

static __attribute__((noinline)) void begin_any(struct pt_file_call *c, PyObject *file, enum pt_file_kind kind, unsigned op,
                                                uint64_t asked, bool tiny)
{
    c->thread = NULL;
    c->run = NULL;
    struct pt_thread *t = pt_enter();
    if (!t || t->depth)
        return;
    uint32_t desc = 0;
    int fd = -1;
    c->mapped = kind == PT_KIND_MAPPED;
    if (c->mapped) {
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
    if (tiny) {
        if (joins(c, t, file, op, desc, asked))
            return;
        c->run = run_of(t, file, op);
        begin_run(c->run, t, file, op);
    }
    c->thread = t;
    c->asked = asked;
    c->joins = false;
    pt_begin(&c->call, t, op, desc, (uint32_t)fd, -1, asked == PT_ASKED_NONE ? PT_SIZE_NONE : asked);
    c->begin = c->call.begin;
    open_span(c, t);
}

void pt_file_begin(struct pt_file_call *c, PyObject *file, enum pt_file_kind kind, unsigned op, uint64_t asked, bool coalesce)
{
    struct pt_thread *t = pt_self;
    bool tiny = coalesce && (asked < PT_RUN_BELOW || asked == PT_ASKED_NONE);
    if (PT_LIKELY(tiny && kind != PT_KIND_MAPPED && t && !t->gate)) {
        int fd = pt_file_descriptor(file, kind);
        pt_fd_entry e = pt_fd_peek(fd);
        c->mapped = false;
        if (PT_LIKELY((int64_t)e > 0 && joins(c, t, file, op, pt_entry_id(e), asked))) /* there, and not PT_FD_EXCLUDED */
            return;
    }
    begin_any(c, file, kind, op, asked, tiny);
}

void pt_file_end(struct pt_file_call *c, int64_t moved, bool failed)
{
    struct pt_thread *t = c->thread;
    if (!t)
        return;
    if (PT_LIKELY(c->joins)) {
        end_joined(c, moved, failed);
        return;
    }
    t->depth--;
    if (PT_UNLIKELY(t->epoch != c->epoch)) { /* its record is another log's, or the parent process's to complete */
        t->parent = 0;
        return;
    }
    t->parent = c->parent_before;
    t->link = c->link_before;
    int error = failed ? pt_error_number() : 0;
    if (c->run)
        first_of_run(c, moved, error);
    else
        pt_end(&c->call, moved, error);
}
