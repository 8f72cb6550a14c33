/* What driver.c and forger.c share: a check that ends the program with its
 * place in the source, and the start of the core. */
#ifndef DEMAND_H
#define DEMAND_H

#include "core.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEMAND(condition)                                                                        \
    do                                                                                           \
        if (!(condition)) {                                                                      \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, strerror(errno)); \
            _exit(9);                                                                            \
        }                                                                                        \
    while (0)

static inline void start_core(const struct pt_options *options)
{
    int error = pt_start(options);
    if (error) {
        fprintf(stderr, "pt_start: %s\n", strerror(-error));
        _exit(8);
    }
}

#endif
