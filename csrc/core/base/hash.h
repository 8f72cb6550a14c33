/* Hashes of bytes. */
#ifndef PYIO_TRACE_HASH_H
#define PYIO_TRACE_HASH_H

#include "base/compiler.h"

PT_API uint64_t pt_hash_bytes(const void *data, size_t length, uint64_t seed);

#endif
