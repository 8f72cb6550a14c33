/* Hashes of bytes.  They keep no state, allocate nothing and call nothing but memcpy. */
#include "base/hash.h"

#include <string.h>

uint64_t pt_hash_bytes(const void *data, size_t length, uint64_t seed)
{
    const unsigned char *p = data;
    uint64_t h = seed * 0x9e3779b97f4a7c15ull + length;
    while (length >= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = (h ^ w) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
        p += 8;
        length -= 8;
    }
    uint64_t w = 0;
    memcpy(&w, p, length);
    h = (h ^ w) * 0xc4ceb9fe1a85ec53ull;
    h ^= h >> 29;
    h *= 0xff51afd7ed558ccdull;
    h ^= h >> 32;
    return h ? h : 1;
}
