/* Removes secrets from commands, URLs and other texts before they are stored.
 *
 * Async-signal-safe: uses only the caller's memory. */
#ifndef PYIO_TRACE_REDACT_H
#define PYIO_TRACE_REDACT_H

#include "base/compiler.h"

#define PT_REDACTED "***" /* replaces a secret */
/* Bytes that the output for n bytes of text may need: a one-byte secret becomes "***". */
#define PT_REDACTED_ROOM(n) (2 * (n) + 16)

/* Which secrets to look for: all kinds, or only those of a URL. */
enum pt_redact { PT_REDACT_ALL, PT_REDACT_URL };

/* Copies the text with its secrets replaced, cut off at `room` bytes.  Returns the length written. */
PT_API size_t pt_redact(enum pt_redact what, const char *text, size_t n, char *out, size_t room);
/* Likewise for a shell command; with --redact argv only the program's name is kept. */
PT_API size_t pt_redact_command(const char *command, size_t n, char *out, size_t room);

/* Collects the words of a command, each followed by a NUL. */
struct pt_words {
    char *out;
    size_t room, length;
    unsigned count;
    unsigned harmless_next; /* enum pt_harmless: what that value may be */
    bool value_next;        /* the next word is the value of an option ... */
    bool code_next;         /* ... or the code of -c */
    bool script_next;       /* --redact argv: ... or the script or module */
    bool skip_next;         /* --redact argv: ... or of no interest */
    bool done;              /* --redact argv: the rest is dropped */
};
void pt_words_begin(struct pt_words *w, char *out, size_t room);
void pt_words_add(struct pt_words *w, const char *word, size_t n);
/* All words of a NULL-terminated array, or of a block of NUL-separated words. Return the length. */
uint32_t pt_redact_argv(char *const *argv, char *out, size_t room);
PT_API uint32_t pt_redact_block(const char *words, size_t n, char *out, size_t room);

/* --redact: comma-separated patterns of names, and the words argv and code. NULL: none. */
void pt_redact_also(const char *words);

#endif
