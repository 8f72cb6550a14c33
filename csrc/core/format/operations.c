/* The operation table: the lines of operations.def with the traits that follow from them.
 *
 * Traits are derived here only.  The core asks pt_op_has(); the reader
 * (pyio_trace/join/base/vocabulary.py) finds the bits in the log. */
#include "format/operations.h"

const char *const pt_layer_names[] = {
    [PT_APP] = "app",     [PT_USER] = "user",   [PT_HDF5] = "hdf5",
    [PT_MPIIO] = "mpiio", [PT_STDIO] = "stdio", [PT_POSIX] = "posix",
};

/* Exceptions in operations.def, besides traits. */
enum {
    UNCOUNTED = 1u << 31, /* the kernel does not count its bytes */
    WAITS = 1u << 30,     /* the call waits for another process or thread */
    GROUPS = 1u << 29,    /* the span is a container */
    STARTS = 1u << 28     /* the span starts what others wait for */
};

#define IF(condition, trait) ((condition) ? (uint32_t)(trait) : 0u)

/* ---- what several traits depend on -------------------------------------------------- */

#define TRANSFERS(klass) ((klass) == PT_READ || (klass) == PT_WRITE || (klass) == PT_COPY)
#define REACHES_FILES(layer) ((layer) == PT_POSIX || (layer) == PT_STDIO)
#define IS_COPY(shape) ((shape) == PT_SHAPE_FD2 || (shape) == PT_SHAPE_FD2_AT)
#define IS_SPAN(shape) ((shape) == PT_SHAPE_SPAN || (shape) == PT_SHAPE_SPAN_AT)
#define TRANSFERS_AT_POSITION(klass, shape) ((shape) == PT_SHAPE_FD && ((klass) == PT_READ || (klass) == PT_WRITE))
/* Process calls keep something else in these fields, or nothing. */
#define HAS_SIZE(klass, shape) \
    ((klass) != PT_PROCESS && ((shape) == PT_SHAPE_FD || (shape) == PT_SHAPE_PATH || IS_SPAN(shape) || IS_COPY(shape)))
#define IS_CALL(layer, klass, shape) \
    (((layer) == PT_APP || REACHES_FILES(layer)) && !IS_SPAN(shape) && (klass) != PT_PROCESS && (klass) != PT_INTERNAL)

/* ---- the traits --------------------------------------------------------------------- */

/* clang-format off */
#define TRAITS_OF_DATA(layer, klass, shape, exceptions)                                                     \
    (IF((klass) == PT_READ || (klass) == PT_COPY, PT_READS) |                                               \
     IF((klass) == PT_WRITE || (klass) == PT_COPY, PT_WRITES) |                                             \
     IF(IS_COPY(shape), PT_COPIES) |                                                                        \
     IF(REACHES_FILES(layer) && TRANSFERS(klass) && !((exceptions) & UNCOUNTED), PT_KERNEL_COUNTS))

#define TRAITS_OF_POSITION(layer, klass, shape)                                                             \
    (IF((layer) == PT_POSIX && TRANSFERS_AT_POSITION(klass, shape), PT_USES_POSITION) |                     \
     IF((layer) == PT_POSIX && (shape) == PT_SHAPE_SEEK, PT_SETS_POSITION) |                                \
     IF(REACHES_FILES(layer) && ((shape) == PT_SHAPE_SEEK || TRANSFERS_AT_POSITION(klass, shape) ||         \
                                 (klass) == PT_COPY), PT_MOVES_POSITION) |                                  \
     IF((shape) == PT_SHAPE_FD2_AT, PT_OUTPUT_STAYS))

#define TRAITS_OF_FIELDS(klass, shape)                                                                      \
    (IF(HAS_SIZE(klass, shape), PT_SIZE_IS_BYTES) |                                                         \
     IF(HAS_SIZE(klass, shape) && (klass) != PT_OPEN && (klass) != PT_CLOSE, PT_RESULT_IS_BYTES) |          \
     IF((klass) != PT_PROCESS && ((shape) == PT_SHAPE_FD || (shape) == PT_SHAPE_SEEK || IS_COPY(shape) ||   \
                                  (shape) == PT_SHAPE_TRUNC || (shape) == PT_SHAPE_PTRUNC ||                \
                                  (shape) == PT_SHAPE_SPAN_AT),                                             \
        PT_OFFSET_IS_PLACE) |                                                                               \
     IF((klass) != PT_PROCESS && ((shape) == PT_SHAPE_FD || (shape) == PT_SHAPE_OPEN || IS_COPY(shape) ||   \
                                  (shape) == PT_SHAPE_SEEK || (shape) == PT_SHAPE_DUP ||                    \
                                  (shape) == PT_SHAPE_TRUNC || (shape) == PT_SHAPE_COMMAND),                \
        PT_HAS_DESCRIPTOR) |                                                                                \
     IF((shape) == PT_SHAPE_PATH || (shape) == PT_SHAPE_PATH2 || (shape) == PT_SHAPE_OPEN ||                \
        (shape) == PT_SHAPE_PTRUNC, PT_NAMES_PATH) |                                                        \
     IF((shape) == PT_SHAPE_PATH2 || IS_COPY(shape) || IS_SPAN(shape), PT_AUX_IS_ID) |                      \
     IF((shape) == PT_SHAPE_OPEN || (shape) == PT_SHAPE_DUP || (shape) == PT_SHAPE_SPAN, PT_OFFSET_IS_ID))

#define TRAITS_OF_ROWS(layer, klass, shape)                                                                 \
    (IF((klass) == PT_INTERNAL, PT_HIDDEN) |                                                                \
     IF(IS_SPAN(shape) || (klass) == PT_OPEN, PT_ENCLOSES) |                                                \
     IF(IS_CALL(layer, klass, shape), PT_TAKES_PARENT))

#define SPAN_KIND(layer, exceptions)                                                                 \
    ((exceptions) & WAITS         ? PT_SPAN_WAIT                                                            \
     : (exceptions) & GROUPS      ? PT_SPAN_CONTAINER                                                       \
     : (exceptions) & STARTS      ? PT_SPAN_STARTING                                                        \
     : (layer) == PT_POSIX        ? PT_SPAN_NONE                                                            \
     : (layer) == PT_USER         ? PT_SPAN_CONTAINER                                                       \
                                  : PT_SPAN_REQUEST)
/* clang-format on */

#define EXCEPTIONS (UNCOUNTED | WAITS | GROUPS | STARTS)

const struct pt_op_row pt_operation_table[PT_MAX_OPS] = {
#define OP_WITH(id, name_, layer_, klass_, shape_, exceptions)                                          \
    [PT_OP_##id] = {.name = name_,                                                                      \
                    .layer = PT_##layer_,                                                               \
                    .klass = PT_##klass_,                                                               \
                    .shape = PT_SHAPE_##shape_,                                                         \
                    .span = SPAN_KIND(PT_##layer_, exceptions),                                         \
                    .traits = TRAITS_OF_DATA(PT_##layer_, PT_##klass_, PT_SHAPE_##shape_, exceptions) | \
                              TRAITS_OF_POSITION(PT_##layer_, PT_##klass_, PT_SHAPE_##shape_) |         \
                              TRAITS_OF_FIELDS(PT_##klass_, PT_SHAPE_##shape_) |                        \
                              TRAITS_OF_ROWS(PT_##layer_, PT_##klass_, PT_SHAPE_##shape_) |             \
                              ((exceptions) & ~EXCEPTIONS)},
#include "format/operations.def"
#undef OP_WITH
};

/* Names need room for their NUL. */
#define OP_WITH(id, name_, layer, klass, shape, exceptions) \
    _Static_assert(sizeof name_ <= sizeof pt_operation_table[0].name, "name of an operation: " #id);
#include "format/operations.def"
#undef OP_WITH

const char *pt_op_name(unsigned op)
{
    return op < PT_OP_COUNT ? pt_operation_table[op].name : "";
}
