/* Shared by the files of redaction. */
#ifndef PYIO_TRACE_REDACT_INNER_H
#define PYIO_TRACE_REDACT_INNER_H

#include "redact/redact.h"

static inline bool is_quote(char c)
{
    return c == '"' || c == '\'' || c == '`';
}
static inline bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}
static inline bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
static inline bool is_part(char c)
{
    return is_alnum(c) || c == '_' || c == '-' || c == '.';
} /* of a name */

/* secret_names.c; a name is given by its first character and the position after its last. */
extern bool pt_redact_names_only, pt_redact_code; /* --redact argv, --redact code */
bool pt_ends_in(const char *name, size_t n, const char *word);
bool pt_is_secret(const char *name, const char *end);
bool pt_is_secret_parameter(const char *name, const char *end); /* of a URL */
bool pt_is_negated(const char *name, const char *end);
bool pt_is_header(const char *name, const char *end);
/* Values that are no secrets although their name says so: the path in --private-key PATH (no PEM or DER key begins like a
 * path), and the digit in ffmpeg's -pass 1. */
enum pt_harmless { PT_HARMLESS_NONE, PT_HARMLESS_PATH, PT_HARMLESS_DIGIT };
enum pt_harmless pt_harmless_of(const char *name, const char *end);
bool pt_is_harmless(enum pt_harmless which, const char *value, const char *end);
bool pt_is_named(const char *name, const char *end, const char *word);

/* secret_shapes.c.  Looks for a secret inside a word.  Sets `found` to its start and returns its end; NULL: the word has
 * none. */
const char *pt_shaped_secret(const char *begin, const char *end, const char **found);
const char *pt_private_key(const char *p, const char *end); /* the end of a PEM block that begins at p */

/* redact.c. value_next: the text ends where a value is expected. */
bool pt_is_option(const char *word, const char *end);
size_t pt_redact_word(const char *word, size_t n, char *out, size_t room, bool *value_next);

#endif
