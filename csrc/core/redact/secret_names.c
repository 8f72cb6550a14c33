/* The names that mark secrets: of options, variables, JSON members and URL parameters.  Case does not matter, nor do
 * - and _. docs/reference/modes.md has the same tables. */
#include "base/globs.h"
#include "redact/scanning.h"

#include <string.h>

#define LONGEST_NAME 256 /* of a longer one, only the end counts */

/* Anywhere in a name, without its - and _. */
static const char *const within[] = {"password", "passwd", "accesstoken", "authtoken",
                                     "apikey",   "secret", "credentials"};
/* At the end of a name. */
static const char *const endings[] = {
    "token",      "passphrase",    "pwd",
    "passcode",   "pswd",          "credential",
    "accesskey",  "accountkey",    "privatekey",
    "sharedkey",  "storagekey",    "signingkey",
    "masterkey",  "encryptionkey", "decryptionkey",
    "licensekey", "licencekey",    "subscriptionkey",
    "sessionkey", "authkey",       "deploykey",
    "hmackey",    "fernetkey",     "jwt",
    "cookie",     "cookies",       "sharedaccesssignature",
    "dbpass",     "userpass",      "rootpass",
    "pgpass",
};
/* Names of secrets, if they are the whole name or follow a - _ or . at its end. */
static const char *const last_parts[] = {"pass", "pw"};
/* Before `token` or `pass`, these make names of ordinary things: tokens of a text, filters, loops. */
static const char *const ordinary[] = {
    "max", "min",   "pad",  "eos", "bos",  "unk",  "mask", "sep", "cls",    "stop",  "special", "image", "per", "next",
    "num", "first", "last", "low", "high", "band", "one",  "two", "single", "multi", "second",  "by",    "all",
};
/* Names of the place where a secret is, not of the secret itself. */
static const char *const places[] = {"file", "path", "dir", "env", "name"};
/* At the end of the name of a URL's parameter. */
static const char *const parameters[] = {"signature", "token", "key"};

static char also[2048]; /* the patterns of --redact, without - and _, each ended by a NUL; an empty one comes last */
bool pt_redact_names_only, pt_redact_code;

/* ---- names -------------------------------------------------------------------------- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

/* In lower case, without - and _.  Returns the length. */
static size_t simple(const char *name, const char *end, char out[LONGEST_NAME])
{
    size_t n = 0;
    if (end - name > LONGEST_NAME)
        name = end - LONGEST_NAME;
    for (; name < end; name++)
        if (*name != '-' && *name != '_')
            out[n++] = lower(*name);
    return n;
}

bool pt_ends_in(const char *name, size_t n, const char *word)
{
    size_t length = strlen(word);
    return n >= length && memcmp(name + n - length, word, length) == 0;
}

static bool holds(const char *name, size_t n, const char *word)
{
    return memmem(name, n, word, strlen(word)) != NULL;
}

static bool matches_also(const char *name, size_t n)
{
    const char *last = memrchr(name, '.', n), *end = name + n;
    for (const char *p = also; *p; p += strlen(p) + 1)
        if (pt_glob_matches(p, p + strlen(p), name, end) || (last && pt_glob_matches(p, p + strlen(p), last + 1, end)))
            return true;
    return false;
}

static bool is_place(const char *name, const char *end)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        size_t n = strlen(places[i]);
        if ((size_t)(end - name) <= n || strchr("-_.", end[-(ptrdiff_t)n - 1]) == NULL)
            continue;
        size_t same = 0;
        while (same < n && lower(end[(ptrdiff_t)same - (ptrdiff_t)n]) == places[i][same])
            same++;
        if (same == n)
            return true;
    }
    return false;
}

static bool is_separator(char c)
{
    return c == '-' || c == '_' || c == '.';
}

static bool same_letters(const char *p, const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (lower(p[i]) != word[i])
            return false;
    return true;
}

/* The start of the last part of a name, if that is this word; else NULL. */
static const char *last_part(const char *name, const char *end, const char *word)
{
    size_t n = strlen(word);
    const char *p = end - n;
    bool is = (size_t)(end - name) >= n && same_letters(p, word, n) && (p == name || is_separator(p[-1]));
    return is ? p : NULL;
}

/* --pad-token, --low-pass: no secrets. */
static bool is_ordinary(const char *name, const char *end)
{
    const char *p = last_part(name, end, "token");
    p = p ? p : last_part(name, end, "pass");
    for (size_t i = 0; p && p > name + 1 && i < sizeof ordinary / sizeof *ordinary; i++)
        if (last_part(name, p - 1, ordinary[i]))
            return true;
    return false;
}

bool pt_is_secret(const char *name, const char *end)
{
    char text[LONGEST_NAME];
    size_t n = simple(name, end, text);
    if (*also && matches_also(text, n))
        return true;
    if (is_place(name, end) || is_ordinary(name, end) || pt_ends_in(text, n, "secretary"))
        return false;
    for (size_t i = 0; i < sizeof last_parts / sizeof *last_parts; i++)
        if (last_part(name, end, last_parts[i]))
            return true;
    for (size_t i = 0; i < sizeof within / sizeof *within; i++)
        if (holds(text, n, within[i]))
            return true;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (pt_ends_in(text, n, endings[i]))
            return !pt_ends_in(text, n, "maxtoken");
    return false;
}

/* A header whose value goes to the end of its line. */
bool pt_is_header(const char *name, const char *end)
{
    return pt_is_named(name, end, "authorization") || pt_is_named(name, end, "cookie");
}

enum pt_harmless pt_harmless_of(const char *name, const char *end)
{
    if (pt_is_named(name, end, "privatekey"))
        return PT_HARMLESS_PATH;
    return last_part(name, end, "pass") == name ? PT_HARMLESS_DIGIT : PT_HARMLESS_NONE;
}

bool pt_is_harmless(enum pt_harmless which, const char *value, const char *end)
{
    while (value < end && is_quote(*value))
        value++;
    size_t n = (size_t)(end - value);
    if (which == PT_HARMLESS_PATH)
        return n > 1 && (*value == '/' || *value == '.' || (*value == '~' && value[1] == '/'));
    return which == PT_HARMLESS_DIGIT && n > 0 && *value >= '0' && *value <= '9' && (n == 1 || is_blank(value[1]));
}

/* --no-token has no value. */
bool pt_is_negated(const char *name, const char *end)
{
    return end - name > 3 && memcmp(name, "no-", 3) == 0;
}

bool pt_is_secret_parameter(const char *name, const char *end)
{
    char text[LONGEST_NAME];
    size_t n = simple(name, end, text);
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        if (pt_ends_in(text, n, parameters[i]))
            return true;
    return (n == 3 && memcmp(text, "sig", 3) == 0) || pt_is_secret(name, end);
}

bool pt_is_named(const char *name, const char *end, const char *word)
{
    char text[LONGEST_NAME];
    return pt_ends_in(text, simple(name, end, text), word);
}

/* ---- --redact --------------------------------------------------------------------------------- */

void pt_redact_also(const char *words)
{
    size_t n = 0;
    pt_redact_names_only = pt_redact_code = false;
    for (const char *p = words ? words : ""; *p;) {
        size_t length = strcspn(p, ",");
        if (length == 4 && memcmp(p, "argv", 4) == 0) {
            pt_redact_names_only = true;
        } else if (length == 4 && memcmp(p, "code", 4) == 0) {
            pt_redact_code = true;
        } else if (length && length < LONGEST_NAME && n + length + 2 <= sizeof also) {
            n += simple(p, p + length, also + n);
            also[n++] = 0;
        }
        p += length + (p[length] == ',');
    }
    also[n] = 0;
}
