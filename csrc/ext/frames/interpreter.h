/* The interpreter's frames.  The only file that knows their layout, from the internal headers of the Python version
 * that the extension is built for. */
#ifndef PYIO_TRACE_INTERPRETER_H
#define PYIO_TRACE_INTERPRETER_H

#define Py_BUILD_CORE 1
#include <Python.h>

#if PY_VERSION_HEX >= 0x030E0000
#include "internal/pycore_interpframe.h"
#include "internal/pycore_stackref.h"
#else
#include "internal/pycore_frame.h"
#endif
#include "internal/pycore_interp.h"
#include "internal/pycore_runtime.h"
#undef Py_BUILD_CORE

#include <stdbool.h>
#include <stdint.h>

#if PY_VERSION_HEX < 0x030B0000
#error "pyio_trace needs Python 3.11 or newer"
#endif
#define PT_FRAMES_KNOWN (PY_VERSION_HEX < 0x03100000)

/* The current thread's state, without the checks that PyThreadState_Get() makes; NULL if it holds no GIL. */
static inline PyThreadState *pt_current_thread(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked();
#else
    return _PyThreadState_UncheckedGet();
#endif
}

static inline struct _PyInterpreterFrame *pt_innermost_frame(PyThreadState *ts)
{
#if PY_VERSION_HEX >= 0x030D0000
    return ts->current_frame;
#else
    return ts->cframe ? ts->cframe->current_frame : NULL;
#endif
}

/* NULL for entry frames of the C stack (owner 3 and up), which hold no code of the program. */
static inline PyCodeObject *pt_frame_code(struct _PyInterpreterFrame *f)
{
#if PY_VERSION_HEX >= 0x030E0000
    return f->owner >= 3 ? NULL : (PyCodeObject *)PyStackRef_AsPyObjectBorrow(f->f_executable);
#elif PY_VERSION_HEX >= 0x030D0000
    return f->owner >= 3 ? NULL : (PyCodeObject *)f->f_executable;
#else
    return f->owner >= 3 ? NULL : f->f_code;
#endif
}

static inline const void *pt_frame_instruction(struct _PyInterpreterFrame *f)
{
#if PY_VERSION_HEX >= 0x030D0000
    return f->instr_ptr;
#else
    return f->prev_instr;
#endif
}

static inline int pt_frame_line(struct _PyInterpreterFrame *f, PyCodeObject *code)
{
    int at = _PyInterpreterFrame_LASTI(f) * (int)sizeof(_Py_CODEUNIT);
    return at < 0 ? code->co_firstlineno : PyCode_Addr2Line(code, at);
}

/* Differs between two code objects even if the second got the address of the first: the code's version, or in 3.11 the
 * cached hash of its name. */
static inline uint64_t pt_code_fingerprint(const PyCodeObject *code)
{
#if PY_VERSION_HEX >= 0x030C0000
    return (uint64_t)code->co_version << 32;
#else
    return (uint64_t)((PyASCIIObject *)code->co_qualname)->hash;
#endif
}

/* Whether this is the frame that a specialised call of a class puts beneath __init__ from 3.13 on.  Tracebacks leave it
 * out too. */
static inline bool pt_code_is_shim(const PyCodeObject *code)
{
#if PY_VERSION_HEX >= 0x030D0000 && defined(CO_NO_MONITORING_EVENTS)
    return code->co_flags & CO_NO_MONITORING_EVENTS;
#else
    (void)code;
    return false;
#endif
}

#endif
