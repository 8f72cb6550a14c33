/* Starting and stopping. */
#ifndef PYIO_TRACE_CONTROL_H
#define PYIO_TRACE_CONTROL_H

#include "base/options.h"

PT_API int pt_start(const struct pt_options *options); /* 0 or -errno; -E2BIG: too many rules */
/* Creates the log for the program that this process becomes (exec). 0 or -errno. */
PT_API int pt_prepare(const struct pt_options *options);
PT_API bool pt_settings_store(const char *settings, size_t length); /* for the processes of the run; false: no room */
PT_API void pt_stop(void);
PT_API void pt_stop_to_pack(void);
PT_API void pt_finish_with(const char *const *argv, bool quiet, const char *stub);
bool pt_preload_taken_over(const struct pt_options *o); /* preload.c */
#ifdef PT_INTERFACE                                     /* CMakeLists.txt: a hash of all headers */
extern PT_API const char PT_INTERFACE[];
#endif

#endif
