/* The table of hooks: hooks.def as data, found by name.
 *
 * The functions and the places for their originals are known here by address
 * only, so they are declared without their types. */
#include "objects.h"

#include <dlfcn.h>
#include <string.h>

#define HOOK(name, family) extern char hook_##family[], real_##family[];
#include "hooks.def"
#undef HOOK

struct pt_hook pt_hooks[] = {
#define HOOK(name_, family) {.name = #name_, .function = hook_##family, .original = (void **)real_##family},
#define THROUGH(name_, family, other) \
    {.name = #name_, .function = hook_##family, .original = (void **)real_##family, .through = #other},
#include "hooks.def"
#undef HOOK
};
const unsigned pt_hook_count = sizeof pt_hooks / sizeof *pt_hooks;

/* ---- by name: half empty at most, so that a name that is not there is soon known not to be ------- */

#define NAME_SLOTS 2048u
static uint16_t name_index[NAME_SLOTS]; /* index + 1 into pt_hooks */
_Static_assert(sizeof pt_hooks / sizeof *pt_hooks < NAME_SLOTS / 2, "the index of names is half empty");

static uint32_t name_hash(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

struct pt_hook *pt_hook_find(const char *name)
{
    for (uint32_t i = name_hash(name);; i++) {
        uint16_t n = name_index[i % NAME_SLOTS];
        if (!n)
            return NULL;
        if (strcmp(pt_hooks[n - 1].name, name) == 0)
            return &pt_hooks[n - 1];
    }
}

struct range {
    uintptr_t low, high;
};

static int range_around(struct dl_phdr_info *info, size_t size, void *data)
{
    struct range *r = data; /* low: the address asked for */
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && r->low >= at && r->low < at + p->p_memsz) {
            *r = (struct range){at, at + p->p_memsz};
            return 1;
        }
    }
    return 0;
}

/* Our function for a variadic form goes on to another name.  Where the two are not of one library, somebody has put
 * a form of their own before libc's, and it is left to them. */
static bool is_bypassed(const struct pt_hook *h)
{
    static struct range code; /* of the last answer: nearly always libc's */
    const struct pt_hook *other = pt_hook_find(h->through);
    uintptr_t at = (uintptr_t)h->address;
    uintptr_t through = (uintptr_t)(other ? other->address : dlsym(RTLD_DEFAULT, h->through));
    if (at < code.low || at >= code.high) {
        struct range found = {at, 0};
        if (!dl_iterate_phdr(range_around, &found))
            return true;
        code = found;
    }
    return through < code.low || through >= code.high;
}

void pt_hooks_resolve(void)
{
    static bool resolved;
    if (resolved)
        return;
    resolved = true;
    struct pt_scope scope;
    pt_scope_read(&scope);
    for (unsigned i = 0; i < pt_hook_count; i++) {
        struct pt_hook *h = &pt_hooks[i];
        h->address = pt_scope_symbol(&scope, h->name);
        uint32_t at = name_hash(h->name);
        while (name_index[at % NAME_SLOTS])
            at++;
        name_index[at % NAME_SLOTS] = (uint16_t)(i + 1);
    }
    pt_look_beyond_stubs();
    for (unsigned i = 0; i < pt_hook_count; i++) {
        struct pt_hook *h = &pt_hooks[i];
        if (h->address && h->through && is_bypassed(h))
            h->address = NULL;
        if (h->address && !*h->original)
            *h->original = h->address;
    }
}
