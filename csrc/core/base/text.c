/* JSON and other text under construction, in a fixed place. */
#include "base/text.h"

#include <string.h>

void pt_text_add_bytes(struct pt_text *s, const char *bytes, size_t n)
{
    size_t room = sizeof s->bytes - s->length;
    n = n < room ? n : room;
    memcpy(s->bytes + s->length, bytes, n);
    s->length += (unsigned)n;
}

void pt_text_add(struct pt_text *s, const char *text)
{
    pt_text_add_bytes(s, text, strlen(text));
}

void pt_text_add_escaped(struct pt_text *s, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    for (const char *c = text; *c; c++) {
        char code[] = {'\\', 'u', '0', '0', hex[(*c >> 4) & 15], hex[*c & 15]};
        if ((unsigned char)*c < 0x20)
            pt_text_add_bytes(s, code, sizeof code);
        else if (*c == '"' || *c == '\\')
            pt_text_add_bytes(s, (char[]){'\\', *c}, 2);
        else
            pt_text_add_bytes(s, c, 1);
    }
}

void pt_text_object(struct pt_text *s)
{
    s->length = 0;
    pt_text_add(s, "{");
}

void pt_text_member(struct pt_text *s, const char *key)
{
    pt_text_add(s, s->bytes[s->length - 1] != '{' ? ", \"" : "\"");
    pt_text_add_escaped(s, key);
    pt_text_add(s, "\": ");
}

void pt_text_add_number(struct pt_text *s, uint64_t n)
{
    char digits[20];
    unsigned at = sizeof digits;
    do
        digits[--at] = (char)('0' + n % 10);
    while (n /= 10);
    pt_text_add_bytes(s, digits + at, sizeof digits - at);
}
