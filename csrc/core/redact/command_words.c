/* Redacts the words of a command before they are cut to fit. */
#include "redact/scanning.h"

#include <string.h>

void pt_words_begin(struct pt_words *w, char *out, size_t room)
{
    *w = (struct pt_words){.out = out, .room = room};
}

static void put_word(struct pt_words *w, const char *word, size_t n)
{
    if (w->length >= w->room) /* full, and ended by a NUL */
        return;
    size_t fits = n < w->room - w->length - 1 ? n : w->room - w->length - 1;
    memcpy(w->out + w->length, word, fits);
    w->out[w->length + fits] = 0;
    w->length += fits + 1;
}

static void put_mark(struct pt_words *w)
{
    put_word(w, PT_REDACTED, strlen(PT_REDACTED));
}

bool pt_is_option(const char *word, const char *end)
{
    const char *p = word;
    while (p < end && !is_blank(*p) && !is_quote(*p))
        p++;
    return p - word >= 2 && *word == '-' && (word[1] == '-' || (p - word == 2 && is_alnum(word[1])));
}

/* Letters after a single dash: is this the last one? */
static bool is_flag(const char *word, size_t n, char letter)
{
    return n >= 2 && n <= 8 && word[0] == '-' && word[1] != '-' && word[n - 1] == letter;
}

static void put_text(struct pt_words *w, const char *word, size_t n)
{
    if (w->length >= w->room)
        return;
    size_t length = pt_redact_word(word, n, w->out + w->length, w->room - w->length - 1, &w->value_next);
    w->out[w->length + length] = 0;
    w->length += length + 1;
}

/* NAME=value or --NAME=value: the value is the rest of the word, whatever it contains. */
static void put_argument(struct pt_words *w, const char *word, size_t n)
{
    const char *end = word + n, *bare = word, *stop;
    while (bare < end && *bare == '-')
        bare++;
    for (stop = bare; stop < end && is_part(*stop);)
        stop++;
    bool alone = stop == end && bare > word, valued = stop + 1 < end && *stop == '=';
    if (stop == bare || !(alone || valued) || !pt_is_secret(bare, stop) ||
        (valued && pt_is_harmless(pt_harmless_of(bare, stop), stop + 1, end))) {
        put_text(w, word, n);
    } else if (valued) {
        put_word(w, word, (size_t)(stop + 1 - word));
        w->length--; /* overwrites the NUL */
        put_mark(w);
    } else {
        put_word(w, word, n);
        w->value_next = !pt_is_negated(bare, stop);
        w->harmless_next = pt_harmless_of(bare, stop);
    }
}

static bool is_python(const char *program, size_t n)
{
    const char *slash = memrchr(program, '/', n), *base = slash ? slash + 1 : program;
    size_t length = n - (size_t)(base - program);
    return (length >= 6 && memcmp(base, "python", 6) == 0) || (length >= 4 && memcmp(base, "pypy", 4) == 0);
}

/* --redact argv: keeps the program, and for Python the script or module. */
static void put_name_only(struct pt_words *w, const char *word, size_t n)
{
    if (w->count == 1) {
        put_word(w, word, n);
        w->done = !is_python(word, n);
        return;
    }
    bool skip = w->skip_next || w->done, option = n > 1 && *word == '-' && !w->script_next;
    w->skip_next = !skip && option && (is_flag(word, n, 'W') || is_flag(word, n, 'X'));
    if (skip || w->skip_next)
        return;
    w->done = !option || is_flag(word, n, 'c');
    w->script_next = is_flag(word, n, 'm');
    if (w->done || w->script_next)
        put_word(w, word, n);
}

void pt_words_add(struct pt_words *w, const char *word, size_t n)
{
    bool value = w->value_next, code = w->code_next;
    w->count++;
    if (pt_redact_names_only) {
        put_name_only(w, word, n);
        return;
    }
    w->value_next = false;
    w->code_next = code ? n == 2 && memcmp(word, "--", 2) == 0 : is_flag(word, n, 'c');
    bool harmless = value && pt_is_harmless((enum pt_harmless)w->harmless_next, word, word + n);
    w->harmless_next = PT_HARMLESS_NONE;
    if (value && !harmless && !pt_is_option(word, word + n))
        put_mark(w);
    else if (code && pt_redact_code && !w->code_next)
        put_mark(w);
    else if (code)
        put_text(w, word, n);
    else
        put_argument(w, word, n);
}

uint32_t pt_redact_argv(char *const *argv, char *out, size_t room)
{
    struct pt_words w;
    pt_words_begin(&w, out, room);
    for (; argv && *argv && w.length < room; argv++)
        pt_words_add(&w, *argv, strlen(*argv));
    return (uint32_t)w.length;
}

uint32_t pt_redact_block(const char *words, size_t n, char *out, size_t room)
{
    struct pt_words w;
    const char *end = words + n;
    pt_words_begin(&w, out, room);
    while (words < end && w.length < room) {
        size_t length = strnlen(words, (size_t)(end - words));
        pt_words_add(&w, words, length);
        words += length + 1;
    }
    return (uint32_t)w.length;
}
