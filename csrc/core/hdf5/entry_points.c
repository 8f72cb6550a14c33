/* The functions that slots are pointed at: each hook once for every copy of the library, which it passes on. */
#include "hdf5/spans.h"

/* clang-format off */
#define AT(copy, result, name, parameters, arguments) \
    static result name##_##copy parameters { return hook_##name(&pt_h5_copies[copy], PT_LIST arguments); }
#define H5(result, name, parameters, arguments)                                                     \
    AT(0, result, name, parameters, arguments) AT(1, result, name, parameters, arguments)           \
    AT(2, result, name, parameters, arguments) AT(3, result, name, parameters, arguments)           \
    AT(4, result, name, parameters, arguments) AT(5, result, name, parameters, arguments)           \
    AT(6, result, name, parameters, arguments) AT(7, result, name, parameters, arguments)
#include "hdf5/hdf5.def"

void *const pt_h5_entry_points[PT_H5_COPIES][PT_H5_COUNT] = {
#define TO(copy, name) [copy][PT_##name] = name##_##copy,
#define H5(result, name, parameters, arguments) \
    TO(0, name) TO(1, name) TO(2, name) TO(3, name) TO(4, name) TO(5, name) TO(6, name) TO(7, name)
#include "hdf5/hdf5.def"
};
_Static_assert(PT_H5_COPIES == 8, "a function for each copy");
