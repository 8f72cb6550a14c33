/* Patterns of names and paths (globs.h). */
#include "base/globs.h"

#include <stdint.h>
#include <string.h>

#define NO_UTF8 0xdc00u /* added to a byte that is no part of a character, as in Python's surrogateescape */

/* The character at *at.  Moves *at past it. */
static uint32_t character(const char **at, const char *end)
{
    const unsigned char *p = (const unsigned char *)*at;
    unsigned more = *p < 0xc0 ? 0 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : *p < 0xf8 ? 3 : 0;
    uint32_t value = more ? *p & (0x3fu >> more) : *p < 0x80 ? *p : NO_UTF8 + *p;
    *at += 1;
    for (unsigned i = 1; i <= more; i++) {
        if (p + i == (const unsigned char *)end || (p[i] & 0xc0) != 0x80)
            return NO_UTF8 + *p;
        value = value << 6 | (p[i] & 0x3fu);
    }
    *at += more;
    return value;
}

/* Does one of [abc], [a-z], [!a-z] at *p match a character?  Moves *p past it. */
static bool in_set(const char **p, const char *end, uint32_t c)
{
    const char *at = *p + 1;
    bool not = at < end && (*at == '!' || *at == '^'), found = false, first = true;
    if (not)
        at++;
    for (; at < end && (first || *at != ']'); first = false) {
        uint32_t low = character(&at, end), high = low;
        if (at + 1 < end && at[0] == '-' && at[1] != ']') {
            at++;
            high = character(&at, end);
        }
        found |= low <= c && c <= high;
    }
    if (at == end) { /* no ] */
        *p += 1;
        return c == '[';
    }
    *p = at + 1;
    return found != not;
}

/* Does the pattern's next element match the text's next character?  Moves both past them if so. */
static bool one_matches(const char **pattern, const char *pattern_end, const char **text, const char *text_end)
{
    const char *p = *pattern, *s = *text;
    if (p == pattern_end || s == text_end)
        return false;
    uint32_t c = character(&s, text_end);
    bool same;
    if (*p == '[') {
        same = in_set(&p, pattern_end, c) && c != '/';
    } else if (*p == '?') {
        p++;
        same = c != '/';
    } else {
        same = character(&p, pattern_end) == c;
    }
    if (same) {
        *pattern = p;
        *text = s;
    }
    return same;
}

/* Where to go on if the text after a star does not match: the star takes more of the text. */
struct star {
    const char *pattern; /* what follows the star; NULL: there was none */
    const char *text;
    bool folders; /* a component **: takes whole folders */
};

static bool take_more(struct star *star, const char *text_end, bool across_slashes)
{
    if (!star->pattern || star->text == text_end)
        return false;
    if (star->folders) {
        const char *slash = memchr(star->text, '/', (size_t)(text_end - star->text));
        if (!slash)
            return false;
        star->text = slash + 1;
        return true;
    }
    if (!across_slashes && *star->text == '/')
        return false;
    character(&star->text, text_end);
    return true;
}

/* It is enough to go back to the latest `*` and the latest `**`: an earlier one
 * that took more would leave the later ones with less to choose from. */
bool pt_glob_matches(const char *pattern, const char *pattern_end, const char *text, const char *text_end)
{
    const char *p = pattern, *s = text;
    struct star one = {0}, any = {0};
    while (s < text_end || p < pattern_end) {
        if (p + 1 < pattern_end && p[0] == '*' && p[1] == '*') {
            bool component = (p == pattern || p[-1] == '/') && p + 2 < pattern_end && p[2] == '/';
            p += component ? 3 : 2;
            any = (struct star){p, s, component};
            one.pattern = NULL;
        } else if (p < pattern_end && *p == '*') {
            one = (struct star){++p, s, false};
        } else if (one_matches(&p, pattern_end, &s, text_end)) {
            continue;
        } else if (take_more(&one, text_end, false)) {
            p = one.pattern;
            s = one.text;
        } else if (take_more(&any, text_end, true)) {
            p = any.pattern;
            s = any.text;
            one.pattern = NULL;
        } else {
            return false;
        }
    }
    return true;
}

bool pt_glob_matches_path(const char *pattern, const char *pattern_end, const char *path, size_t length)
{
    const char *end = path + length;
    while (pattern_end > pattern + 1 && pattern_end[-1] == '/')
        pattern_end--;
    if (pattern_end == pattern + 1 && *pattern == '/')
        return true;
    if (memchr(pattern, '/', (size_t)(pattern_end - pattern))) {
        for (const char *at = path + 1; at <= end; at++)
            if ((at == end || *at == '/') && pt_glob_matches(pattern, pattern_end, path, at))
                return true;
        return false;
    }
    for (const char *name = path; name < end;) {
        const char *stop = memchr(name, '/', (size_t)(end - name));
        stop = stop ? stop : end;
        if (stop > name && pt_glob_matches(pattern, pattern_end, name, stop))
            return true;
        name = stop + 1;
    }
    return false;
}
