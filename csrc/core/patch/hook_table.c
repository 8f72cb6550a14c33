/* The hooked names: looked up by name, and the originals that our functions call. */
#include "patch/patch.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct pt_hook *pt_hooks;
unsigned pt_hook_count;

void pt_hooks_register(struct pt_hook *hooks, unsigned count)
{
    pt_hooks = hooks;
    pt_hook_count = count;
}

/* ---- by name: half empty at most, so that a name that is not there is soon known not to be ------- */

#define NAME_SLOTS (2 * PT_MAX_HOOKS)
static uint16_t name_index[NAME_SLOTS]; /* index + 1 into pt_hooks */

struct pt_hook *pt_hook_find(const char *name)
{
    for (uint32_t i = pt_name_hash(name);; i++) {
        uint16_t n = name_index[i % NAME_SLOTS];
        if (!n)
            return NULL;
        if (strcmp(pt_hooks[n - 1].name, name) == 0)
            return &pt_hooks[n - 1];
    }
}

/* ---- whose function a name leads to ---------------------------------------------------
 * A program, or a library that it is linked with, may have a function of its own
 * under a name of libc's; it may be of quite another kind.  Such functions are
 * called as if there were no hooks.  A preloaded library stands in for libc on
 * purpose: its functions count as libc's where it has all spellings of a name. */

enum owner { NOBODYS, SYSTEMS, PRELOADED, PROGRAMS };

struct owned {
    uintptr_t low, high; /* low: on entry, the address to look up */
    enum owner owner;
    const char *name; /* to look up in a system library instead */
    void *found;
};

static bool intercepts(const struct pt_object *o)
{
    static const char *const sanitizers[] = {"__asan_init", "__tsan_init", "__msan_init", "__hwasan_init",
                                             "__lsan_init"};
    for (unsigned i = 0; i < sizeof sanitizers / sizeof *sanitizers; i++)
        if (pt_object_symbol(o, sanitizers[i]))
            return true;
    return false;
}

static bool is_preloaded(const char *path)
{
    const char *list = getenv("LD_PRELOAD");
    return list && *path && strstr(list, pt_object_file(path));
}

static enum owner owner_of_object(const struct dl_phdr_info *info, const struct pt_object *o)
{
    if (pt_object_is_systems(info->dlpi_name) || pt_object_symbol(o, "__libc_start_main") || intercepts(o))
        return SYSTEMS;
    return is_preloaded(info->dlpi_name) ? PRELOADED : PROGRAMS;
}

static int find_owner(struct dl_phdr_info *info, size_t size, void *data)
{
    struct owned *a = data;
    struct pt_object o;
    (void)size;
    if (!pt_object_read(info, &o) || !pt_object_holds(&o, a->low))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD || a->low < at || a->low >= at + p->p_memsz)
            continue;
        *a = (struct owned){.low = at, .high = at + p->p_memsz, .owner = owner_of_object(info, &o)};
        return 1;
    }
    return 0;
}

static enum owner owner_of(const void *address)
{
    static struct owned latest; /* nearly always libc */
    uintptr_t at = (uintptr_t)address;
    if (at < latest.low || at >= latest.high) {
        struct owned found = {.low = at};
        if (!address || !dl_iterate_phdr(find_owner, &found))
            return NOBODYS;
        latest = found;
    }
    return latest.owner;
}

static int find_in_systems(struct dl_phdr_info *info, size_t size, void *data)
{
    struct owned *a = data;
    struct pt_object o;
    (void)size;
    if (pt_object_is_systems(info->dlpi_name) && pt_object_read(info, &o))
        a->found = pt_object_symbol(&o, a->name);
    return a->found != NULL;
}

/* Slots that are bound to libc's function are patched all the same. */
static void leave_to_another(struct pt_hook *h)
{
    struct owned libcs = {.name = h->name};
    dl_iterate_phdr(find_in_systems, &libcs);
    h->address = libcs.found;
    h->is_anothers = true;
}

/* All spellings of a name share one original. */
static void choose_originals(void)
{
    for (unsigned i = 0; i < pt_hook_count; i++)
        if (owner_of(pt_hooks[i].address) == PROGRAMS)
            leave_to_another(&pt_hooks[i]);
    for (unsigned i = 0; i < pt_hook_count; i++) {
        struct pt_hook *h = &pt_hooks[i];
        if (h->name[0] != '_' && !*h->original && owner_of(h->address) == SYSTEMS)
            *h->original = h->address;
    }
    for (unsigned i = 0; i < pt_hook_count; i++) {
        struct pt_hook *h = &pt_hooks[i];
        enum owner owner = owner_of(h->address), originals = owner_of(*h->original);
        if (owner == PRELOADED && originals == SYSTEMS)
            leave_to_another(h);
        else if (owner == SYSTEMS && originals == PRELOADED)
            h->address = NULL;
        else if (!*h->original)
            *h->original = h->address;
    }
}

/* Our function for a variadic form calls another name.  If the two names belong to different libraries, somebody has
 * interposed the variadic form, and it is left alone. */
static bool is_bypassed(const struct pt_hook *h)
{
    const struct pt_hook *other = pt_hook_find(h->through);
    const void *through = other ? other->address : dlsym(RTLD_DEFAULT, h->through);
    return !through || owner_of(h->address) != owner_of(through);
}

bool pt_hooks_are_of_one_library(const char *name, const char *other)
{
    const struct pt_hook *one = pt_hook_find(name), *two = pt_hook_find(other);
    return one && two && *one->original && *two->original && owner_of(*one->original) == owner_of(*two->original);
}

void pt_hooks_resolve(void)
{
    static bool resolved;
    if (resolved)
        return;
    resolved = true;
    struct pt_scope scope;
    pt_scope_read(&scope);
    /* Already zero.  But if a new page is read first, the first write to it faults again. */
    memset(name_index, 0, sizeof name_index);
    for (unsigned i = 0; i < pt_hook_count; i++) {
        struct pt_hook *h = &pt_hooks[i];
        uint32_t at = pt_name_hash(h->name);
        h->address = pt_scope_symbol(&scope, h->name, at);
        while (name_index[at % NAME_SLOTS])
            at++;
        name_index[at % NAME_SLOTS] = (uint16_t)(i + 1);
    }
    pt_resolve_stubs();
    choose_originals();
    for (unsigned i = 0; i < pt_hook_count; i++)
        if (pt_hooks[i].address && pt_hooks[i].through && is_bypassed(&pt_hooks[i]))
            pt_hooks[i].address = NULL;
}
