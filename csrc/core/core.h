/* The capture core: all that the extension uses of it.
 *
 * The core knows nothing of Python.  A hook's way through it (record/call.h) takes no
 * lock, no allocation and no system call on the usual path, leaves errno alone
 * and is async-signal-safe.  Functions ending in _slow are its rare
 * continuations: system calls at most (raw ones, base/sys.h).
 *
 * Its folders are its layers (../layers.txt).
 */
#ifndef PYIO_TRACE_CORE_H
#define PYIO_TRACE_CORE_H

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/messages.h"
#include "base/options.h"
#include "base/state.h"
#include "base/sys.h"
#include "control/start_stop.h"
#include "finisher/finisher.h"
#include "format/log_format.h"
#include "format/operations.h"
#include "log/chunks.h"
#include "log/file.h"
#include "log/ids.h"
#include "log/intern.h"
#include "log/ring.h"
#include "patch/patch.h"
#include "process/process.h"
#include "record/call.h"
#include "record/unrecorded.h"
#include "redact/redact.h"
#include "state/descriptors.h"
#include "state/filter.h"
#include "state/mappings.h"
#include "state/path_strings.h"
#include "state/threads.h"

#endif
