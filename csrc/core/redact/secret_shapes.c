/* Secrets that are recognised by their own form, whatever stands before them: what services begin their tokens with,
 * JSON Web Tokens, private keys. */
#include "redact/scanning.h"

#include <string.h>

/* A secret begins with `prefix`.  After it come at least `run` letters and digits in a row, with at least one digit.
 * whole: exactly that many, and nothing else. */
static const struct shape {
    const char *prefix;
    size_t run;
    bool whole;
} shapes[] = {
    /* source code and packages */
    {"ghp_", 20, false},
    {"gho_", 20, false},
    {"ghu_", 20, false},
    {"ghs_", 20, false},
    {"ghr_", 20, false},
    {"github_pat_", 16, false},
    {"glpat-", 8, false},
    {"gldt-", 16, false},
    {"glrt-", 16, false},
    {"glcbt-", 8, false},
    {"glptt-", 16, false},
    {"npm_", 30, false},
    {"pypi-", 30, false},
    {"rubygems_", 30, false},
    {"dckr_pat_", 16, false},
    {"ATATT3x", 16, false},
    /* models */
    {"hf_", 20, false},
    {"sk-", 16, false},
    {"gsk_", 20, false},
    {"r8_", 30, false},
    {"nvapi-", 16, false},
    {"xai-", 20, false},
    {"pplx-", 20, false},
    /* clouds and others */
    {"AKIA", 16, true},
    {"ASIA", 16, true},
    {"AIza", 20, false},
    {"ya29.", 12, false},
    {"dop_v1_", 32, false},
    {"doo_v1_", 32, false},
    {"dapi", 32, false},
    {"hvs.", 16, false},
    {"hvb.", 16, false},
    {"tskey-", 12, false},
    {"glsa_", 16, false},
    {"sntrys_", 20, false},
    {"sk_live_", 16, false},
    {"sk_test_", 16, false},
    {"rk_live_", 16, false},
    {"rk_test_", 16, false},
    {"whsec_", 16, false},
    {"shpat_", 16, false},
    {"shpss_", 16, false},
    {"shpca_", 16, false},
    {"SG.", 16, false},
    {"xoxa-", 8, false},
    {"xoxb-", 8, false},
    {"xoxe-", 8, false},
    {"xoxp-", 8, false},
    {"xoxr-", 8, false},
    {"xoxs-", 8, false},
    {"xapp-", 8, false},
    {"lin_api_", 16, false},
    {"AGE-SECRET-KEY-", 16, false},
    {"figd_", 16, false},
    {"PMAK-", 16, false},
    {"sq0atp-", 16, false},
    {"sq0csp-", 16, false},
    {"xkeysib-", 32, false},
    {"LTAI5t", 16, false},
};

/* Whether at least (whole: exactly) this many letters and digits follow in a row, with at least one digit. */
static bool has_run(const char *p, const char *end, size_t least, bool whole)
{
    size_t run = 0;
    bool digit = false;
    for (; p <= end; p++) {
        if (p < end && is_alnum(*p)) {
            run++;
            digit |= *p <= '9';
            continue;
        }
        if (digit && (whole ? run == least : run >= least))
            return true;
        if (whole)
            return false;
        run = 0;
        digit = false;
    }
    return false;
}

/* The end of a JSON Web Token, which is two JSON objects in base64 and a signature; NULL: there is none. */
static const char *end_of_jwt(const char *p, const char *end)
{
    unsigned dots = 0;
    size_t part = 0;
    if (end - p < 20 || memcmp(p, "eyJ", 3) != 0)
        return NULL;
    for (; p < end; p++) {
        if (*p != '.') {
            part++;
        } else {
            if (part < 8 && dots == 0)
                return NULL;
            dots++;
            part = 0;
        }
    }
    return dots >= 2 ? end : NULL;
}

const char *pt_shaped_secret(const char *begin, const char *end, const char **found)
{
    for (const char *p = begin; p < end; p++) {
        if (p > begin && is_alnum(p[-1]))
            continue;
        *found = p;
        const char *stop = end_of_jwt(p, end);
        if (stop)
            return stop;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            size_t n = strlen(shapes[i].prefix);
            if ((size_t)(end - p) > n && memcmp(p, shapes[i].prefix, n) == 0 &&
                has_run(p + n, end, shapes[i].run, shapes[i].whole))
                return shapes[i].whole ? p + n + shapes[i].run : end;
        }
    }
    return NULL;
}

const char *pt_private_key(const char *p, const char *end)
{
    static const char begin[] = "-----BEGIN ", words[] = "PRIVATE KEY", stop[] = "-----END ", dashes[] = "-----";
    size_t n = (size_t)(end - p);
    if (n < sizeof begin || memcmp(p, begin, sizeof begin - 1) != 0 ||
        !memmem(p, n < 64 ? n : 64, words, sizeof words - 1))
        return NULL;
    const char *at = memmem(p, n, stop, sizeof stop - 1);
    const char *last =
        at ? memmem(at + sizeof stop, (size_t)(end - at) > sizeof stop ? (size_t)(end - at) - sizeof stop : 0, dashes,
                    sizeof dashes - 1)
           : NULL;
    return last ? last + sizeof dashes - 1 : end;
}
