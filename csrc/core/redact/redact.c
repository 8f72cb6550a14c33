/* Replaces secrets with *** before a command, URL or detail is stored.
 *
 * A secret is recognised by the name before it (redact/secret_names.c), or by its own form (secret_shapes.c).  Where its
 * value ends is not always certain, since the text may be shell, Python or JSON.  When in doubt, too much is replaced
 * rather than too little. */
#include "redact/scanning.h"

#include <string.h>

/* ---- the text and where it goes ------------------------------------------------------- */

struct text {
    const char *start, *at, *end;
    char *out;
    size_t room, length;
    enum pt_redact what;
    char quote;      /* the quote that `at` is inside of; 0: none */
    bool value_next; /* the text ends where a value is expected */
};

static void put(struct text *t, const char *bytes, size_t n)
{
    size_t fits = n < t->room - t->length ? n : t->room - t->length;
    memcpy(t->out + t->length, bytes, fits);
    t->length += fits;
}

static void mark(struct text *t)
{
    put(t, PT_REDACTED, strlen(PT_REDACTED));
}

static void copy(struct text *t, const char *to)
{
    put(t, t->at, (size_t)(to - t->at));
    for (; t->at < to; t->at++) {
        if (*t->at == '\\')
            t->at += t->at + 1 < to;
        else if (is_quote(*t->at) && (!t->quote || t->quote == *t->at))
            t->quote = t->quote ? 0 : *t->at;
    }
}

static const char *past_blanks(const char *p, const char *end)
{
    while (p < end && is_blank(*p))
        p++;
    return p;
}

/* ---- values --------------------------------------------------------------------------- */

/* The position after the quote that closes the one before `p`; that quote is preceded by the same number of
 * backslashes. */
static const char *closing(const struct text *t, const char *p, char quote, size_t escapes, bool *closed)
{
    size_t backslashes = 0;
    for (; p < t->end; p++) {
        if (*p == '\\') {
            backslashes++;
            continue;
        }
        if (*p == quote && (escapes ? backslashes == escapes || backslashes == 0 : backslashes % 2 == 0)) {
            *closed = backslashes == escapes || escapes == 0;
            return *closed ? p + 1 : p;
        }
        backslashes = 0;
    }
    *closed = false;
    return p;
}

static bool ends_value(char c)
{
    return is_blank(c) || c == '&' || c == ';';
}
static bool ends_quoted(char c)
{
    return ends_value(c) || c == ',' || c == ')' || c == ']' || c == '}' || c == ':';
}

/* The end of an unquoted value, which may contain quoted parts, as in a shell. */
static const char *end_of_bare(const struct text *t, const char *p)
{
    while (p < t->end && !ends_value(*p)) {
        bool closed;
        if (*p == '\\' && p + 1 < t->end) {
            if (t->quote && is_quote(p[1]))
                return p;
            p += 2;
        } else if (t->quote ? *p == t->quote : is_quote(*p)) {
            if (t->quote)
                return p;
            p = closing(t, p + 1, *p, 0, &closed);
            if (p < t->end && ends_quoted(*p))
                return p;
        } else {
            p++;
        }
    }
    return p;
}

/* A list, a JSON object, an ODBC value in braces. */
static const char *end_of_brackets(const struct text *t, const char *p)
{
    int depth = 0;
    for (; p < t->end; p++) {
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        if (depth == 0)
            return p + 1;
    }
    return p;
}

static void redact_quoted(struct text *t, const char *quote)
{
    size_t escapes = (size_t)(quote - t->at);
    bool closed;
    const char *end = closing(t, quote + 1, *quote, escapes, &closed), *inner = closed ? end - 1 - escapes : end;
    bool more = closed && !escapes && end < t->end && !ends_quoted(*end); /* continues after the quote, as in a shell */
    put(t, t->at, escapes + 1);
    if (inner > quote + 1 || more)
        mark(t);
    if (closed)
        put(t, inner, (size_t)(end - inner));
    t->at = more ? end_of_bare(t, end) : end;
}

/* A quote inside single quotes of a shell: 'x'\''y', or 'x'"'"'y' as shlex.quote() writes it. */
static const char *past_shells_quote(const struct text *t, const char *p)
{
    size_t left = t->quote == '\'' ? (size_t)(t->end - p) : 0;
    if (left >= 4 && memcmp(p, "'\\''", 4) == 0)
        return p + 4;
    return left >= 5 && memcmp(p, "'\"'\"'", 5) == 0 ? p + 5 : NULL;
}

/* The value between two of them. */
static bool redact_in_shells_quotes(struct text *t)
{
    const char *inner = past_shells_quote(t, t->at), *end = inner;
    if (!inner)
        return false;
    while (end < t->end && !past_shells_quote(t, end))
        end++;
    put(t, t->at, (size_t)(inner - t->at));
    mark(t);
    t->at = end;
    return true;
}

/* Replaces the value at `at`, if there is one. */
static void redact_value(struct text *t)
{
    const char *quote = t->at;
    if (redact_in_shells_quotes(t))
        return;
    while (quote < t->end && *quote == '\\')
        quote++;
    if (quote < t->end && is_quote(*quote)) {
        bool ends = t->quote == *quote && quote == t->at; /* it closes the quotes around the name: there is no value */
        if (!ends || (quote + 1 < t->end && !ends_quoted(quote[1]))) {
            redact_quoted(t, quote);
            return;
        }
    }
    const char *end =
        t->at < t->end && (*t->at == '{' || *t->at == '[') ? end_of_brackets(t, t->at) : end_of_bare(t, t->at);
    if (end > t->at)
        mark(t);
    t->at = end;
}

/* The rest of a header, up to the end of its quotes or its line. */
static void redact_header(struct text *t, bool spaced)
{
    const char *p = t->at;
    if (p < t->end && (is_quote(*p) || *p == '\\' || !(spaced || t->quote))) {
        redact_value(t);
        return;
    }
    while (p < t->end && *p != '\n' && *p != '\r' && !(t->quote && *p == t->quote))
        p++;
    if (p > t->at)
        mark(t);
    t->at = p;
}

/* ---- what comes between a name and its value -------------------------------------------- */

/* The value of an option, in the next word of the same text. */
static const char *value_of_option(const struct text *t, const char *from)
{
    const char *p = past_blanks(from, t->end);
    if (p == from || p == t->end || strchr("|&;<>)", *p) || pt_is_option(p, t->end))
        return NULL;
    return p;
}

/* The start of the value of the name that ends at `from`; NULL: it has none. Sets the separator; 0: only blanks. */
static const char *value_of(const struct text *t, const char *from, bool option, char *separator)
{
    const char *p = from, *end = t->end;
    bool quoted = false;
    for (; p < end && p - from < 8 && (is_quote(*p) || *p == '\\' || *p == ']'); p++)
        quoted |= is_quote(*p);
    const char *closed = p;
    p = past_blanks(p, end);
    if (p < end && (*p == ':' || *p == '=' || (quoted && *p == ','))) {
        bool spaced = p > closed;
        *separator = *p++;
        if (*separator == ':' && end - p >= 2 && p[0] == '/' && p[1] == '/')
            return NULL; /* a scheme */
        while (p < end && (*p == '=' || *p == '>'))
            p++;
        const char *value = past_blanks(p, end);
        bool next_word = value > p && *separator == '=' && !spaced; /* `NAME= command` */
        return next_word && value < end && !is_quote(*value) ? NULL : value;
    }
    *separator = 0;
    return option ? value_of_option(t, closed) : NULL;
}

/* ---- the rules --------------------------------------------------------------------------- */

/* `token: str = "..."` of Python */
static void redact_default(struct text *t)
{
    const char *p = past_blanks(t->at, t->end);
    if (p + 1 < t->end && *p == '=' && p[1] != '=') {
        copy(t, past_blanks(p + 1, t->end));
        redact_value(t);
    }
}

static void bearer(struct text *t)
{
    const char *p = t->at;
    while (p < t->end && (is_blank(*p) || *p == '+'))
        p++;
    if (t->end - p >= 3 && memcmp(p, "%20", 3) == 0)
        p += 3;
    if (p == t->end)
        t->value_next = true;
    if (p == t->at || p == t->end)
        return;
    copy(t, p);
    redact_value(t);
}

/* A parameter of a URL: after ? or &, and with = before its value. */
static bool redact_parameter(struct text *t, const char *name, const char *end)
{
    if (name == t->start || !strchr("?&", name[-1]) || end == t->end || *end != '=' ||
        !pt_is_secret_parameter(name, end))
        return false;
    copy(t, end + 1);
    redact_value(t);
    return true;
}

static void redact_named(struct text *t, const char *name, const char *end, bool option)
{
    char separator = 0;
    const char *value = value_of(t, end, option, &separator);
    if (!value)
        return;
    bool header = separator == ':' && pt_is_header(name, end);
    if (pt_is_harmless(pt_harmless_of(name, end), value, t->end))
        return;
    if (!header && (!pt_is_secret(name, end) || (!separator && pt_is_negated(name, end))))
        return;
    bool spaced = value > end && is_blank(value[-1]);
    copy(t, value);
    if (header) {
        t->value_next = t->at == t->end;
        redact_header(t, spaced);
        return;
    }
    redact_value(t);
    if (separator == ':')
        redact_default(t);
}

static void name(struct text *t)
{
    const char *begin = t->at, *end = begin, *bare, *secret;
    while (end < t->end && is_part(*end))
        end++;
    const char *stop = pt_private_key(begin, t->end);
    if (!stop && (stop = pt_shaped_secret(begin, end, &secret)))
        copy(t, secret);
    if (stop) {
        mark(t);
        t->at = stop;
        return;
    }
    for (bare = begin; bare < end && *bare == '-';)
        bare++;
    copy(t, end);
    if (redact_parameter(t, bare, end) || t->what == PT_REDACT_URL)
        return;
    if (end - bare == 6 && pt_is_named(bare, end, "bearer"))
        bearer(t);
    else
        redact_named(t, bare, end, bare > begin);
}

/* The position after what may be user and password of a URL at `p`, at its @; NULL: there are none. */
static const char *end_of_user(const char *p, const char *end)
{
    const char *at = NULL, *from = p, *colon = NULL;
    for (; p < end && !is_blank(*p) && !is_quote(*p) && !strchr("/?#\\", *p); p++) {
        at = *p == '@' ? p : at;
        colon = *p == ':' && !colon ? p : colon;
    }
    if (at || !colon || *from == '[')
        return at;
    /* A password may contain a slash that should have been %2F; a port is a number. */
    const char *port = colon + 1;
    while (port < p && *port >= '0' && *port <= '9')
        port++;
    for (; port < p && p < end && !is_blank(*p) && !is_quote(*p); p++)
        at = *p == '@' ? p : at;
    return at;
}

/* At the :// of a URL. Keeps the user, unless it may be a token: alone before the @ of http, or without a password. */
static void user_of_url(struct text *t)
{
    bool http = t->at - t->start >= 4 && (pt_ends_in(t->start, (size_t)(t->at - t->start), "http") ||
                                          pt_ends_in(t->start, (size_t)(t->at - t->start), "https"));
    copy(t, t->at + 3);
    const char *at = end_of_user(t->at, t->end), *colon = at ? memchr(t->at, ':', (size_t)(at - t->at)) : NULL;
    if (!at || at == t->at)
        return;
    bool no_password = !colon || colon + 1 == at || pt_ends_in(colon, (size_t)(at - colon), ":x-oauth-basic");
    if (!no_password)
        copy(t, colon + 1);
    else if (!http)
        return;
    mark(t);
    t->at = at;
}

static void redact(struct text *t)
{
    while (t->at < t->end && t->length < t->room) {
        if (is_part(*t->at))
            name(t);
        else if (*t->at == ':' && t->end - t->at > 3 && t->at[1] == '/' && t->at[2] == '/')
            user_of_url(t);
        else
            copy(t, t->at + 1 + (*t->at == '\\' && t->at + 1 < t->end && !is_part(t->at[1])));
    }
}

size_t pt_redact(enum pt_redact what, const char *text, size_t n, char *out, size_t room)
{
    struct text t = {.start = text, .at = text, .end = text + n, .out = out, .room = room, .what = what};
    redact(&t);
    return t.length;
}

size_t pt_redact_word(const char *word, size_t n, char *out, size_t room, bool *value_next)
{
    struct text t = {.start = word, .at = word, .end = word + n, .out = out, .room = room};
    redact(&t);
    *value_next = t.value_next;
    return t.length;
}

/* The program that a shell command starts with, after any plain variables set for it. */
static size_t program_only(const char *p, size_t n, char *out, size_t room)
{
    struct text t = {.out = out, .room = room};
    const char *end = p + n, *word = p;
    bool plain = true;
    for (bool variable = true; variable && plain; variable = variable && word < end) {
        word = past_blanks(p, end);
        variable = false;
        for (p = word; p < end && !is_blank(*p); p++) {
            variable |= *p == '=';
            plain &= is_part(*p) || strchr("/=:,+", *p) != NULL;
        }
    }
    if (plain)
        put(&t, word, (size_t)(p - word));
    if (plain && p < end)
        put(&t, " ", 1);
    if (!plain || p < end)
        mark(&t);
    return t.length;
}

size_t pt_redact_command(const char *command, size_t n, char *out, size_t room)
{
    return pt_redact_names_only ? program_only(command, n, out, room) : pt_redact(PT_REDACT_ALL, command, n, out, room);
}
