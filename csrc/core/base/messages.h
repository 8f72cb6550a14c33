/* Writes our messages to stderr, as long as it is what it was when this library was loaded. */
#ifndef PYIO_TRACE_MESSAGES_H
#define PYIO_TRACE_MESSAGES_H

#include "base/compiler.h"

void pt_stderr_keep(void); /* by the library's constructor */
bool pt_stderr_is_kept(void);
void pt_stderr_give_up(void); /* it was another file already, in the program that this process was before */
/* The path without control characters. */
const char *pt_printable(const char *path, char out[static 4096]);
#define PT_MOST_WORDS 8
/* Writes "pyio-trace: WORDS" as one line, or notes the words where stderr is not kept; async-signal-safe. */
PT_API void pt_say(const char *const *words, unsigned count);
void pt_say_path(const char *before, const char *path, const char *after);
/* Adds to what the process table says about this process. */
PT_API void pt_note(const char *const *words, unsigned count);

#endif
