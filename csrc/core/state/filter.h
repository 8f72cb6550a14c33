/* What is recorded, and what is only counted: --include and --exclude. */
#ifndef PYIO_TRACE_FILTER_H
#define PYIO_TRACE_FILTER_H

#include "base/options.h"

int pt_select(const struct pt_selection *selection); /* 0, or -E2BIG */
bool pt_select_op(unsigned op);
bool pt_select_includes(void);                                                /* are there rules that include paths? */
PT_API bool pt_select_knows_op(const char *pattern);                          /* does op:PATTERN match any operation? */
PT_API bool pt_select_process(const char *name);                              /* is a process of this name traced? */
uint32_t pt_select_path_slow(const char *path, size_t length, uint32_t base); /* why a path is left out; 0: it is not */

#endif
