/* Tells the sampler where this process's frames are: offsets, as this Python's own headers have them. */
#include "frames/interpreter.h"

#include "frames/frames.h"

#include <stddef.h>
#include <string.h>

#if PT_FRAMES_KNOWN && !defined(Py_GIL_DISABLED)

/* The bits of a str's state that the compiler has given to a field. */
#define STATE_BITS(field, value)                                         \
    ({                                                                   \
        PyASCIIObject probe;                                             \
        uint32_t bits;                                                   \
        memset(&probe, 0, sizeof probe);                                 \
        probe.state.field = (value);                                     \
        memcpy(&bits, (const char *)&probe + STATE_OFFSET, sizeof bits); \
        bits;                                                            \
    })
/* A bit-field has no offset of its own: the state follows the hash. */
#define STATE_OFFSET (offsetof(PyASCIIObject, hash) + sizeof(Py_hash_t))

static void fill_interpreter(struct pt_layout *l)
{
    l->runtime = (uint64_t)(uintptr_t)&_PyRuntime;
    l->rt_head = offsetof(_PyRuntimeState, interpreters.head);
    l->is_next = offsetof(PyInterpreterState, next);
    l->is_threads = offsetof(PyInterpreterState, threads.head);
    l->gil_size = sizeof(struct _gil_runtime_state);
#if PY_VERSION_HEX >= 0x030C0000
    l->gil = offsetof(PyInterpreterState, ceval.gil);
#else
    l->gil = offsetof(_PyRuntimeState, ceval.gil);
#endif
    l->ts_next = offsetof(PyThreadState, next);
    l->ts_tid = offsetof(PyThreadState, native_thread_id);
    l->ts_chunk = offsetof(PyThreadState, datastack_chunk);
    l->ts_top = offsetof(PyThreadState, datastack_top);
#if PY_VERSION_HEX >= 0x030D0000
    l->ts_frame = offsetof(PyThreadState, current_frame);
#else
    l->ts_frame = offsetof(PyThreadState, cframe);
    l->cframe = offsetof(_PyCFrame, current_frame);
#endif
}

static void fill_frames(struct pt_layout *l)
{
#if PY_VERSION_HEX >= 0x030D0000
    l->fr_code = offsetof(struct _PyInterpreterFrame, f_executable);
    l->fr_instruction = offsetof(struct _PyInterpreterFrame, instr_ptr);
#else
    l->fr_code = offsetof(struct _PyInterpreterFrame, f_code);
    l->fr_instruction = offsetof(struct _PyInterpreterFrame, prev_instr);
#endif
#if PY_VERSION_HEX >= 0x030E0000
    l->fr_top = offsetof(struct _PyInterpreterFrame, stackpointer);
#else
    l->fr_top = offsetof(struct _PyInterpreterFrame, stacktop);
#endif
#if PY_VERSION_HEX < 0x030C0000
    l->fr_entry = offsetof(struct _PyInterpreterFrame, is_entry);
#endif
    l->fr_previous = offsetof(struct _PyInterpreterFrame, previous);
    l->fr_owner = offsetof(struct _PyInterpreterFrame, owner);
    l->fr_size = offsetof(struct _PyInterpreterFrame, localsplus);
    l->owner_most = 2; /* as pt_frame_code has it */
    l->co_file = offsetof(PyCodeObject, co_filename);
    l->co_name = offsetof(PyCodeObject, co_qualname);
    l->co_first = offsetof(PyCodeObject, co_firstlineno);
    l->co_flags = offsetof(PyCodeObject, co_flags);
    l->co_table = offsetof(PyCodeObject, co_linetable);
    l->co_bytes = offsetof(PyCodeObject, co_code_adaptive);
#if PY_VERSION_HEX >= 0x030D0000 && defined(CO_NO_MONITORING_EVENTS)
    l->co_shim = CO_NO_MONITORING_EVENTS;
#endif
}

static void fill_texts(struct pt_layout *l)
{
    l->str_state = STATE_OFFSET;
    l->str_kind = STATE_BITS(kind, 7);
    l->str_ascii = STATE_BITS(ascii, 1);
    l->str_compact = STATE_BITS(compact, 1);
    l->str_length = offsetof(PyASCIIObject, length);
    l->str_ascii_data = sizeof(PyASCIIObject);
    l->str_wide_data = sizeof(PyCompactUnicodeObject);
    l->bytes_size = offsetof(PyVarObject, ob_size);
    l->bytes_data = offsetof(PyBytesObject, ob_sval);
}

void pt_frames_tell_layout(void)
{
    if (!pt.process_id || pt_frames_unsupported())
        return;
    struct pt_layout *l = &pt.process->layout;
    fill_interpreter(l);
    fill_frames(l);
    fill_texts(l);
    __atomic_store_n(&l->version, (uint16_t)(PY_VERSION_HEX >> 16), __ATOMIC_RELEASE);
}

#else

void pt_frames_tell_layout(void)
{
}

#endif
