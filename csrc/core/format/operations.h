/* The operations by number, and the table of what each one does.
 *
 * operations.def lists them.  operations.c makes the table, which is written
 * into every log, so the reader needs no copy. */
#ifndef PYIO_TRACE_OPERATIONS_H
#define PYIO_TRACE_OPERATIONS_H

#include "format/log_format.h"

#include <stdbool.h>

enum pt_op {
#define OP_WITH(id, name, layer, klass, shape, exceptions) PT_OP_##id,
#include "format/operations.def"
#undef OP_WITH
    PT_OP_COUNT
};

extern const struct pt_op_row pt_operation_table[PT_MAX_OPS];
extern const char *const pt_layer_names[];                                  /* by enum pt_layer */
__attribute__((visibility("default"))) const char *pt_op_name(unsigned op); /* "" where there is none */

#ifdef PT_BUILDING_CORE
static inline const struct pt_op_row *pt_op_row(unsigned op)
{
    return &pt_operation_table[op];
}

/* Does the operation have one of these traits (enum pt_trait)? */
static inline bool pt_op_has(unsigned op, uint32_t traits)
{
    return pt_operation_table[op].traits & traits;
}
#endif

#endif
