/* Details of a call as JSON: the text that json.dumps would give, in tens of nanoseconds an item instead of
 * microseconds.  Nothing here fails: what cannot be rendered is left out. */
#include "spans/details.h"

#include "python/small_int.h"

#include "core.h"
#include "redact/redact.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#ifdef Py_GIL_DISABLED
#define SPARE_MOST 0
#else
#define SPARE_MOST 16 /* buffers that wait for the next calls */
#endif

static struct pt_details *spare[SPARE_MOST + 1]; /* Owned; guarded by the GIL */
static unsigned spare_count;

struct pt_details *pt_details_take(void)
{
    struct pt_details *d = spare_count ? spare[--spare_count] : PyMem_RawMalloc(sizeof *d);
    if (d)
        pt_details_none(d);
    return d;
}

void pt_details_give(struct pt_details *d)
{
    if (spare_count < SPARE_MOST)
        spare[spare_count++] = d;
    else
        PyMem_RawFree(d);
}

#define TEXT_MOST 400 /* bytes of a string */
#define ITEMS_MOST 32 /* of a sequence */
#define DEPTH_MOST 4
#define END_ROOM 16 /* reserved for ,"cut":true} */

static bool put(struct pt_details *d, const char *bytes, size_t n)
{
    if (d->length + n > sizeof d->text - END_ROOM) {
        d->cut = true;
        return false;
    }
    memcpy(d->text + d->length, bytes, n);
    d->length += (uint32_t)n;
    return true;
}

/* How a byte goes into a JSON string.  ESCAPED: control characters, " and \.  UNESCAPED: as it is.  PLAIN: likewise,
 * and it cannot end the name of a secret, as : and = can. */
enum { ESCAPED, UNESCAPED, PLAIN };
static const uint8_t kinds[256] = {[0x20 ... 0x21] = PLAIN, [0x23 ... 0x39] = PLAIN, [':'] = UNESCAPED,
                                   [';' ... '<'] = PLAIN,   ['='] = UNESCAPED,       ['>' ... 0x5b] = PLAIN,
                                   [0x5d ... 0x7e] = PLAIN, [0x80 ... 0xff] = PLAIN};
static bool is_text(unsigned char c)
{
    return kinds[c] != ESCAPED;
}

/* Writes decimal digits to the end of `buffer` and returns where they start.  snprintf would take longer than the
 * rest of the rendering. */
#define DIGITS 24
static const char *decimal(int64_t value, char buffer[DIGITS], size_t *n)
{
    char *at = buffer + DIGITS;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        *--at = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        *--at = '-';
    *n = (size_t)(buffer + DIGITS - at);
    return at;
}

/* The usual case: a short text with no byte below `kind`.  Returns false, with nothing added, for any other text. */
static inline bool put_quoted(struct pt_details *d, const char *bytes, size_t n, uint8_t kind)
{
    char *to = d->text + d->length;
    size_t i = 0;
    if (PT_UNLIKELY(n > TEXT_MOST || d->length + n + 2 > sizeof d->text - END_ROOM))
        return false;
    for (; i < n && kinds[(unsigned char)bytes[i]] >= kind; i++)
        to[i + 1] = bytes[i];
    to[0] = to[i + 1] = '"';
    d->length += i == n ? (uint32_t)n + 2 : 0;
    return i == n;
}

/* Any text: quoted, with JSON's escapes, cut between characters if it is too long. */
static bool put_escaped(struct pt_details *d, const char *bytes, size_t n)
{
    bool cut = n > TEXT_MOST;
    if (cut)
        for (n = TEXT_MOST; n && ((unsigned char)bytes[n] & 0xc0) == 0x80;)
            n--;
    if (!put(d, "\"", 1))
        return false;
    for (size_t i = 0; i < n;) {
        size_t plain = i;
        while (plain < n && is_text((unsigned char)bytes[plain]))
            plain++;
        if (plain > i && !put(d, bytes + i, plain - i))
            return false;
        i = plain;
        if (i == n)
            break;
        unsigned char c = (unsigned char)bytes[i++];
        char escaped[8] = {'\\', (char)c};
        size_t length = 2;
        if (c != '"' && c != '\\')
            length = (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", c);
        if (!put(d, escaped, length))
            return false;
    }
    return put(d, cut ? "...\"" : "\"", cut ? 4 : 1);
}

/* Like put_escaped(), without secrets.  In a URL only the URL's own are looked for: s3://bucket/token=5/ is a
 * partition. */
static PT_COLD bool put_redacted(struct pt_details *d, const char *bytes, size_t n)
{
    char text[TEXT_MOST + 8];
    const char *scheme = memmem(bytes, n, "://", 3), *blank = memchr(bytes, ' ', n);
    enum pt_redact what = scheme && !blank ? PT_REDACT_URL : PT_REDACT_ALL;
    return put_escaped(d, text, pt_redact(what, bytes, n, text, sizeof text));
}

static bool put_text(struct pt_details *d, const char *bytes, size_t n)
{
    return PT_LIKELY(put_quoted(d, bytes, n, PLAIN)) || put_redacted(d, bytes, n);
}

static bool put_word(struct pt_details *d, const char *word)
{
    return put(d, word, strlen(word));
}

static bool put_value(struct pt_details *d, PyObject *value, int depth);

bool pt_is_integer(PyObject *value)
{
    return PyLong_Check(value) || (PyIndex_Check(value) && !PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE));
}

/* Reads an integer, also one of numpy's.  Returns false for anything else, and for an array: it has __index__ too,
 * which raises. */
static bool integer_of(PyObject *value, int64_t *number)
{
    if (PT_LIKELY(pt_small_int(value, number)))
        return true;
    if (!pt_is_integer(value))
        return false;
    *number = PyNumber_AsSsize_t(value, NULL);
    if (*number != -1 || !PyErr_Occurred())
        return true;
    PyErr_Clear();
    return false;
}

/* A slice as it is written in Python: start:stop:step. */
static bool put_slice(struct pt_details *d, PyObject *slice)
{
    PySliceObject *s = (PySliceObject *)slice;
    PyObject *ends[] = {s->start, s->stop, s->step}; /* Borrowed */
    char text[80];
    size_t n = 0;
    for (int i = 0; i < 3; i++) {
        if (i == 1 || (i == 2 && ends[2] != Py_None))
            text[n++] = ':';
        if (ends[i] == Py_None)
            continue;
        int64_t at;
        if (!integer_of(ends[i], &at))
            continue;
        char buffer[DIGITS];
        size_t length;
        const char *digits = decimal(at, buffer, &length);
        memcpy(text + n, digits, length);
        n += length;
    }
    return put_quoted(d, text, n, UNESCAPED) || put_escaped(d, text, n);
}

static bool put_items(struct pt_details *d, PyObject *sequence, int depth)
{
    Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence);
    if (!put(d, "[", 1))
        return false;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (i && !put(d, ",", 1))
            return false;
        if (i == ITEMS_MOST || depth >= DEPTH_MOST) {
            if (!put_word(d, "\"...\""))
                return false;
            break;
        }
        if (!put_value(d, PySequence_Fast_GET_ITEM(sequence, i), depth + 1))
            return false;
    }
    return put(d, "]", 1);
}

static bool put_float(struct pt_details *d, double value)
{
    char *text = isfinite(value) ? PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, NULL) : NULL;
    bool ok = put_word(d, text ? text : "null");
    PyMem_Free(text);
    return ok;
}

static bool put_value(struct pt_details *d, PyObject *value, int depth)
{
    if (value == Py_None)
        return put_word(d, "null");
    if (PyBool_Check(value))
        return put_word(d, value == Py_True ? "true" : "false");
    if (PyUnicode_Check(value)) {
        Py_ssize_t n;
        const char *bytes = PyUnicode_AsUTF8AndSize(value, &n);
        if (bytes)
            return put_text(d, bytes, (size_t)n);
        PyErr_Clear(); /* lone surrogates: the value is left out */
        return put_word(d, "null");
    }
    if (PyFloat_Check(value))
        return put_float(d, PyFloat_AS_DOUBLE(value));
    if (PySlice_Check(value))
        return put_slice(d, value);
    if (value == Py_Ellipsis)
        return put_word(d, "\"...\"");
    if (PyTuple_CheckExact(value) || PyList_CheckExact(value))
        return put_items(d, value, depth);
    int64_t number;
    if (integer_of(value, &number)) {
        char buffer[DIGITS];
        size_t length;
        const char *digits = decimal(number, buffer, &length);
        return put(d, digits, length);
    }
    const char *name = Py_TYPE(value)->tp_name;
    return put_text(d, name, strlen(name));
}

/* Opens the object or adds a comma, then the key. */
static bool put_key(struct pt_details *d, const char *key, size_t n)
{
    return put(d, d->length ? "," : "{", 1) && put_text(d, key, n) && put(d, ":", 1);
}

void pt_details_add_text(struct pt_details *d, const char *key, const char *value)
{
    uint32_t before = d->length;
    if (!put_key(d, key, strlen(key)) || !put_text(d, value, strlen(value)))
        d->length = before;
}

void pt_details_add_dict(struct pt_details *d, PyObject *dict)
{
    PyObject *key, *value; /* Borrowed */
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
        uint32_t before = d->length;
        Py_ssize_t n;
        const char *bytes = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, &n) : NULL;
        if (!bytes)
            PyErr_Clear();
        if (bytes && !n && PyBytes_Check(value)) { /* members from details_members() */
            if (!put(d, d->length ? "," : "{", 1) || !put(d, PyBytes_AS_STRING(value), (size_t)PyBytes_GET_SIZE(value)))
                d->length = before;
        } else if (bytes && (!put_key(d, bytes, (size_t)n) || !put_value(d, value, 0)))
            d->length = before;
    }
}

uint32_t pt_details_intern(struct pt_details *d)
{
    if (!d->length && !d->cut)
        return 0;
    if (!d->length)
        d->text[d->length++] = '{';
    if (d->cut && d->length + END_ROOM <= sizeof d->text) {
        d->cut = false; /* once is enough */
        const char *said = d->length > 1 ? ",\"cut\":true" : "\"cut\":true";
        memcpy(d->text + d->length, said, strlen(said));
        d->length += (uint32_t)strlen(said);
    }
    d->text[d->length++] = '}';
    uint32_t id = pt_detail(d->text, d->length);
    d->length--; /* the closing brace goes again: more may be added */
    return id;
}

/* details_members(dict) -> bytes: the members of the dict as JSON; None if they do not fit. */
PyObject *pt_details_members(PyObject *module, PyObject *dict)
{
    (void)module;
    struct pt_details d;
    pt_details_none(&d);
    if (PyDict_Check(dict))
        pt_details_add_dict(&d, dict);
    if (d.cut || d.length < 2)
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(d.text + 1, (Py_ssize_t)d.length - 1);
}
