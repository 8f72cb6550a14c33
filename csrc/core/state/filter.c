/* What is recorded, and what is only counted: --include and --exclude.
 *
 * Rules are words separated by commas.  A word names a kind of descriptor or call (pipes, imports, ...), or starts
 * with layer:, op: or process:, or is a pattern of paths.  Rules are parsed once, at the start.  A path is judged
 * when it is first met, a descriptor when it is opened, so a rule costs nothing where it does not apply. */
#include "state/filter.h"
#include "base/globs.h"
#include "base/memory.h"
#include "log/ids.h"
#include "format/operations.h"

#include <errno.h>
#include <string.h>

#define TEXT_ROOM 16384
#define RULES 256

enum rule_kind { RULE_PATH, RULE_LAYER, RULE_OP, RULE_PROCESS };
struct rule {
    const char *text;
    uint32_t length;
    uint8_t kind;
    bool include;
};

static PT_TABLE char text[TEXT_ROOM]; /* the rules' copy of their words */
static struct rule rules[RULES];
static unsigned rule_count;
static bool any_path, any_path_include;
static uint8_t op_left_out[PT_MAX_OPS];

static const struct {
    const char *name;
    uint32_t kinds;
} categories[] = {
    {"imports", 1u << PT_LEFT_IMPORT}, {"proc", 1u << PT_DESC_PROC},          {"sys", 1u << PT_DESC_SYS},
    {"dev", 1u << PT_DESC_DEVICE},     {"pipes", 1u << PT_DESC_PIPE},         {"sockets", 1u << PT_DESC_SOCKET},
    {"anonymous", 1u << PT_DESC_ANON}, {"terminals", 1u << PT_DESC_TERMINAL},
};
#define CATEGORIES (sizeof categories / sizeof *categories)

/* ---- rules ------------------------------------------------------------------------ */

static uint32_t judged_by_rules(const char *path, size_t length)
{
    bool included = !any_path_include;
    for (unsigned i = 0; i < rule_count; i++) {
        if (rules[i].kind != RULE_PATH ||
            !pt_glob_matches_path(rules[i].text, rules[i].text + rules[i].length, path, length))
            continue;
        if (!rules[i].include)
            return PT_LEFT_PATH;
        included = true;
    }
    return included ? 0 : PT_LEFT_PATH;
}

/* ---- paths ----------------------------------------------------------------------------- */

static bool below(const char *path, size_t length, const char *folder)
{
    size_t n = strlen(folder);
    return length >= n && memcmp(path, folder, n) == 0 && (length == n || path[n] == '/');
}

static uint32_t pseudo(const char *path, size_t length)
{
    uint32_t kind = 0;
    if (below(path, length, "/proc"))
        kind = PT_DESC_PROC;
    else if (below(path, length, "/sys"))
        kind = PT_DESC_SYS;
    else if (below(path, length, "/dev") && !below(path, length, "/dev/shm"))
        kind = PT_DESC_DEVICE;
    return pt.left_out_kinds >> kind & 1 ? kind : 0;
}

/* Writes base/path to out, cut to its room. Returns the length. */
static size_t join(char *out, size_t room, const char *path, size_t length, uint32_t base, int depth)
{
    size_t n = 0;
    if (base && depth < 8 && !(length && *path == '/')) {
        uint32_t folder_length, folder_base;
        const char *folder = pt_string_at(base, &folder_length, &folder_base);
        if (folder)
            n = join(out, room, folder, folder_length, folder_base, depth + 1);
        if (n < room)
            out[n++] = '/';
    }
    size_t fits = length < room - n ? length : room - n;
    memcpy(out + n, path, fits);
    return n + fits;
}

#define JOINED_ROOM 16384

static bool plain(const char *path, size_t length)
{
    for (size_t i = 0; i + 1 < length; i++)
        if (path[i] == '/' && (path[i + 1] == '/' || path[i + 1] == '.'))
            return false;
    return !(length && *path == '.');
}

/* Removes `//`, `.` and, as the log's reader does, `..` from an absolute path; symbolic links stay. */
static size_t normal(char *path, size_t length)
{
    size_t out = 0;
    for (size_t at = 0; at < length;) {
        size_t name = ++at; /* after a slash */
        while (at < length && path[at] != '/')
            at++;
        size_t n = at - name;
        if (n == 0 || (n == 1 && path[name] == '.'))
            continue;
        if (n == 2 && path[name] == '.' && path[name + 1] == '.') {
            while (out && path[--out] != '/')
                continue;
            continue;
        }
        path[out++] = '/';
        memmove(path + out, path + name, n);
        out += n;
    }
    if (!out)
        path[out++] = '/';
    return out;
}

static uint32_t judged(const char *path, size_t length)
{
    uint32_t kind = pseudo(path, length);
    return kind || !any_path ? kind : judged_by_rules(path, length);
}

uint32_t pt_select_path_slow(const char *path, size_t length, uint32_t base)
{
    if (length && *path == '/' && plain(path, length))
        return judged(path, length);
    uint32_t folder_length = 0, folder_base = 0;
    const char *folder = pt_string_at(base, &folder_length, &folder_base);
    if (!any_path && folder && !folder_base && folder_length > 1 && plain(folder, folder_length) &&
        plain(path, length) && !pseudo(folder, folder_length))
        return 0; /* nothing below an ordinary folder */
    char *joined = pt_memory(JOINED_ROOM);
    if (!joined)
        return 0;
    size_t n = join(joined, JOINED_ROOM, path, length, base, 0);
    uint32_t kind = judged(joined, n && *joined == '/' ? normal(joined, n) : n);
    pt_memory_back(joined, JOINED_ROOM);
    return kind;
}

/* ---- processes --------------------------------------------------------------------------- */

bool pt_select_process(const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name, *end = name + strlen(name);
    bool included = true, asked = false;
    for (unsigned i = 0; i < rule_count; i++) {
        const struct rule *r = &rules[i];
        if (r->kind != RULE_PROCESS)
            continue;
        bool same = pt_glob_matches(r->text, r->text + r->length, base, end);
        if (same && !r->include)
            return false;
        if (r->include && !asked) {
            asked = true;
            included = false;
        }
        included |= r->include && same;
    }
    return included;
}

/* ---- reading the rules --------------------------------------------------------------------- */

static bool starts(const char *word, size_t length, const char *with)
{
    size_t n = strlen(with);
    return length >= n && memcmp(word, with, n) == 0;
}

static bool category(const char *word, size_t length, bool include)
{
    for (unsigned i = 0; i < CATEGORIES; i++) {
        if (strlen(categories[i].name) != length || memcmp(word, categories[i].name, length) != 0)
            continue;
        if (include)
            pt.left_out_kinds &= ~categories[i].kinds;
        else
            pt.left_out_kinds |= categories[i].kinds;
        return true;
    }
    return false;
}

static int add_rule(const char *word, size_t length, bool include)
{
    static const char *const prefixes[] = {[RULE_LAYER] = "layer:", [RULE_OP] = "op:", [RULE_PROCESS] = "process:"};
    if (length == 0 || category(word, length, include))
        return 0;
    if (rule_count == RULES)
        return -E2BIG;
    struct rule *r = &rules[rule_count++];
    *r = (struct rule){.text = word, .length = (uint32_t)length, .kind = RULE_PATH, .include = include};
    for (uint8_t kind = RULE_LAYER; kind <= RULE_PROCESS; kind++) {
        if (!starts(word, length, prefixes[kind]))
            continue;
        size_t n = strlen(prefixes[kind]);
        r->text += n;
        r->length -= (uint32_t)n;
        r->kind = kind;
    }
    if (r->kind == RULE_PATH) {
        any_path = true;
        any_path_include |= include;
    }
    return 0;
}

static int add_rules(const char *list, bool include, char **room)
{
    size_t n = list ? strlen(list) : 0;
    if (n + 1 > (size_t)(text + TEXT_ROOM - *room))
        return -E2BIG;
    if (!n)
        return 0;
    memcpy(*room, list, n + 1);
    char *word = *room, *end = *room + n;
    *room = end + 1;
    while (word <= end) {
        char *stop = memchr(word, ',', (size_t)(end - word));
        stop = stop ? stop : end;
        int error = add_rule(word, (size_t)(stop - word), include);
        if (error)
            return error;
        word = stop + 1;
    }
    return 0;
}

static bool op_named(const struct rule *r, unsigned op)
{
    const struct pt_op_row *row = pt_op_row(op);
    const char *name = r->kind == RULE_LAYER ? pt_layer_names[row->layer] : row->name;
    return pt_glob_matches(r->text, r->text + r->length, name, name + strlen(name));
}

bool pt_select_knows_op(const char *pattern)
{
    const char *end = pattern + strlen(pattern);
    for (unsigned op = 1; op < PT_OP_COUNT; op++)
        if (pt_glob_matches(pattern, end, pt_op_name(op), pt_op_name(op) + strlen(pt_op_name(op))))
            return true;
    return false;
}

/* The origin of a process is always recorded: without it, processes could not be told apart.  Waiting for one may be
 * left out. */
static bool leave_out(unsigned op)
{
    const struct pt_op_row *row = pt_op_row(op);
    bool wanted_layer = true, wanted_op = true;
    if (row->klass == PT_INTERNAL || (row->klass == PT_PROCESS && row->shape != PT_SHAPE_WAIT))
        return false;
    for (unsigned i = 0; i < rule_count; i++)
        if (rules[i].include && rules[i].kind == RULE_LAYER)
            wanted_layer = false;
        else if (rules[i].include && rules[i].kind == RULE_OP)
            wanted_op = false;
    for (unsigned i = 0; i < rule_count; i++) {
        const struct rule *r = &rules[i];
        if ((r->kind != RULE_LAYER && r->kind != RULE_OP) || !op_named(r, op))
            continue;
        if (!r->include)
            return true;
        if (r->kind == RULE_LAYER)
            wanted_layer = true;
        else
            wanted_op = true;
    }
    return !wanted_layer || !wanted_op;
}

int pt_select(const struct pt_selection *selection)
{
    static const struct pt_selection nothing;
    const struct pt_selection *s = selection ? selection : &nothing;
    char *room = text;
    rule_count = 0;
    any_path = any_path_include = false;
    pt.left_out_kinds = 1u << PT_DESC_PIPE | 1u << PT_DESC_SOCKET | 1u << PT_DESC_TERMINAL | 1u << PT_DESC_ANON |
                        1u << PT_DESC_DEVICE | 1u << PT_DESC_PROC | 1u << PT_DESC_SYS | 1u << PT_LEFT_IMPORT;
    int error = add_rules(s->include, true, &room);
    if (!error)
        error = add_rules(s->exclude, false, &room);
    for (unsigned op = 0; op < PT_MAX_OPS; op++)
        op_left_out[op] = !error && rule_count && op < PT_OP_COUNT && leave_out(op);
    return error;
}

bool pt_select_includes(void)
{
    return any_path_include;
}
bool pt_select_op(unsigned op)
{
    return !op_left_out[op];
}
