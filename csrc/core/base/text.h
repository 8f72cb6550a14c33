/* Text under construction, mostly JSON; what does not fit is dropped. */
#ifndef PYIO_TRACE_TEXT_H
#define PYIO_TRACE_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct pt_text {
    unsigned length;
    char bytes[2048];
};
void pt_text_add_bytes(struct pt_text *s, const char *bytes, size_t n);
void pt_text_add(struct pt_text *s, const char *text);
void pt_text_add_escaped(struct pt_text *s, const char *text); /* as part of a JSON string */
void pt_text_add_number(struct pt_text *s, uint64_t n);
void pt_text_object(struct pt_text *s);                  /* begins one */
void pt_text_member(struct pt_text *s, const char *key); /* its value follows */

#endif
