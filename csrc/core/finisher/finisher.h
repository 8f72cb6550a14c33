/* The finisher: the process that packs the log and prints the summary after the run's first process has ended.
 *
 * Two programs start it: the stub (csrc/stub), which the first process becomes at its very end, and the core itself
 * where that cannot be.  child.c and words.c are part of both.  They call nothing of libc. */
#ifndef PYIO_TRACE_FINISHER_H
#define PYIO_TRACE_FINISHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Words before the finisher's own in the stub's argv. */
enum pt_stub_word {
    PT_STUB_NAME,
    PT_STUB_KIND,      /* "exit" or "signal" */
    PT_STUB_NUMBER,    /* of the status or the signal */
    PT_STUB_HEARD_AT,  /* descriptor for messages; "-": none */
    PT_STUB_LOG,       /* descriptor of the live log, to note what stderr cannot take; "-": none */
    PT_STUB_NOTE_AT,   /* where in the log the note goes */
    PT_STUB_NOTE_ROOM, /* bytes */
    PT_STUB_SEPARATOR, /* between the note and what is there already */
    PT_STUB_PATH,      /* of the live log, printable */
    PT_STUB_WORDS
};

struct pt_kernel_action { /* the kernel's sigaction; the handler is its first word on all architectures */
    void (*handler)(int);
    unsigned long rest[3];
};

struct pt_finisher {
    const char *const *argv;
    char *const *env;
    int heard_at;    /* descriptor that it writes to: the program's stderr, a file in memory, or -1: none */
    uint64_t heeded; /* signals of the keyboard that the program did not ignore, as a kernel's mask */
};

/* ---- child.c */
void pt_raise_limit(int which, uint64_t enough);
/* Becomes the finisher.  For a child that may share its parent's memory: system calls only.  Returns errno. */
int pt_finisher_become(const struct pt_finisher *f);

/* ---- words.c */
#define PT_DIGITS 21
/* Writes a number so that it ends where the buffer ends. */
const char *pt_digits(uint64_t number, char room[static PT_DIGITS]);
#define PT_FINISHER_WORDS 7
/* What to say of a finisher that was not started (error) or did not end well (status, as waitpid has it); returns how
 * many words, 0: nothing. */
unsigned pt_finisher_failure(const char *words[static PT_FINISHER_WORDS], char room[static PT_DIGITS], int error,
                             int status, const char *python, const char *log);
/* The line that begins what was written to the file in memory, if it is ours; returns its length without our name. */
size_t pt_finisher_heard(int heard_at, char *text, size_t room);

#endif
