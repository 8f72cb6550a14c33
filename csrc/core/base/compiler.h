/* Shorthands for compiler attributes: symbol visibility, branch prediction, thread-local storage. */
#ifndef PYIO_TRACE_COMPILER_H
#define PYIO_TRACE_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PT_LIKELY(x) __builtin_expect(!!(x), 1)
#define PT_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define PT_API __attribute__((visibility("default")))
/* The core's own variables. Nothing may interpose them, so the core reaches them without its global offset table. */
#ifdef PT_BUILDING_CORE
#define PT_DATA __attribute__((visibility("protected")))
#else
#define PT_DATA PT_API
#endif
/* A variable that only the core uses, from several files: not exported, and also reached directly. */
#define PT_INNER __attribute__((visibility("hidden")))
#define PT_COLD __attribute__((noinline, cold))
/* For large, sparsely used tables.  The linker places them together (CMakeLists.txt).  Scattered among the small
 * variables, they would spread those over more pages, and each page costs every process a fault. */
#define PT_TABLE __attribute__((aligned(4096)))

/* Initial-exec, because a hook must not call the dynamic TLS allocator. musl refuses that model in a library loaded
 * by dlopen, but has allocated all TLS when dlopen returns, so its default model is safe. */
#if defined(__GLIBC__)
#define PT_THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))
#else
#define PT_THREAD_LOCAL __thread
#endif

#endif
