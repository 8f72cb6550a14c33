/* Writes our messages to stderr. */
#ifndef PYIO_TRACE_MESSAGES_H
#define PYIO_TRACE_MESSAGES_H

#include "base/compiler.h"

/* The path without control characters. */
const char *pt_printable(const char *path, char out[static 4096]);
/* Writes "pyio-trace: BEFORE PATH AFTER"; async-signal-safe. */
void pt_say_path(const char *before, const char *path, const char *after);

#endif
