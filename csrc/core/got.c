/* Patching the global offset tables of the loaded objects, and undoing it.
 *
 * In each object but libc, the dynamic linker and our own libraries, every slot
 * that holds a hooked name's address is pointed at our function: JUMP_SLOT,
 * GLOB_DAT and absolute 64-bit relocations (sqlite keeps a table of function
 * pointers in its data).  A slot that holds something other than the lazy stub
 * or the address the name resolves to belongs to another tool and is left to it;
 * it calls on through its own object, which is patched.  Names of the HDF5
 * library lead to one of several copies of it (hdf5_copies.c).  What was changed
 * is written down, and pt_got_restore undoes exactly that. */
#include "hdf5.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

struct patch {
    void **slot;
    void *before;
    void *ours;
};
static struct patch *patches; /* mapped for MAX_PATCHES, touched as used */
static unsigned patch_count;
#define MAX_PATCHES (1u << 18)

/* Objects already done: walking them again at every import would be slow. */
#define MAX_DONE 4096
static uintptr_t done_objects[MAX_DONE];
static unsigned done_count;
static unsigned long long unloads_seen;

static unsigned long long loads_done; /* loads the process had made when they were last patched */
static pthread_mutex_t patching = PTHREAD_MUTEX_INITIALIZER; /* control path only, never a hook's usual path */

/* ---- one object --------------------------------------------------------------- */

/* Makes the slot writable for as long as it takes, and as it was afterwards. */
static void store(const struct pt_object *o, void **slot, void *value)
{
    uintptr_t at = (uintptr_t)slot;
    bool sealed = at >= o->relro && at < o->relro_end;
    uintptr_t size = pt_kernel_page(), page = at & ~(size - 1);
    if (sealed && pt_sys(SYS_mprotect, page, size, PROT_READ | PROT_WRITE) != 0)
        return;
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    if (sealed)
        pt_sys(SYS_mprotect, page, size, PROT_READ);
}

static bool ours_to_patch(const struct pt_object *o, const struct pt_hook *h, const void *value)
{
    uintptr_t v = (uintptr_t)value;
    return value == h->address || value == *h->original || (!h->is_anothers && v >= o->low && v < o->high);
}

/* What a slot of libc's is to lead to; NULL: it stays. */
static void *for_libc_slot(const struct pt_object *o, const ElfW(Rela) * r, const char *name, const void *value)
{
    struct pt_hook *h = pt_hook_find(name);
    if (!h || !h->address || value == h->function || !ours_to_patch(o, h, value))
        return NULL;
    if (pt_object_wants_old(o, ELF64_R_SYM(r->r_info), h->name))
        return NULL;
    if (ELF64_R_TYPE(r->r_info) != R_SLOT && value != h->address && value != *h->original)
        return NULL; /* a canonical stub elsewhere: that object's own slot leads on */
    return h->function;
}

/* Returns whether there are slots that cannot be told yet. */
static bool patch_relocations(const struct pt_object *o, const ElfW(Rela) * r, size_t count)
{
    bool undecided = false;
    for (size_t i = 0; i < count; i++) {
        uint32_t type = ELF64_R_TYPE(r[i].r_info);
        if (type != R_SLOT && type != R_DATA && !(type == R_ABS && r[i].r_addend == 0))
            continue;
        const ElfW(Sym) *symbol = &o->symbols[ELF64_R_SYM(r[i].r_info)];
        if (symbol->st_shndx != SHN_UNDEF)
            continue;
        const char *name = o->strings + symbol->st_name;
        void **slot = (void **)(o->base + r[i].r_offset);
        void *value = *slot;
        void *ours = name[0] == 'H' ? pt_h5_for_slot(o, name, value, type == R_SLOT, &undecided)
                                    : for_libc_slot(o, &r[i], name, value);
        if (!ours || patch_count == MAX_PATCHES)
            continue;
        patches[patch_count++] = (struct patch){slot, value, ours};
        store(o, slot, ours);
    }
    return undecided;
}

/* ---- which objects -------------------------------------------------------------- */

static bool left_alone(const struct dl_phdr_info *info, const struct pt_object *o)
{
    uintptr_t here = (uintptr_t)&patch_count;
    if (here >= o->low && here < o->high)
        return true;
    return strncmp(pt_object_file(info->dlpi_name), "_capture.", 9) == 0 || /* our extension */
           pt_object_is_systems(info->dlpi_name);
}

/* Objects are in the loader's list before they are relocated.  To touch one
 * then would be to race with the loader, down to sealing a page under its hand.
 * So a pass first notes what is there, then waits until every load under way
 * has come to its end, and only then patches what it has noted. */
#define NOTED 512u /* it is on the stack of whoever calls dlsym */
struct pass {
    unsigned long long loads;
    unsigned count;
    uintptr_t objects[NOTED];
};

static bool is_among(uintptr_t object, const uintptr_t *objects, unsigned count)
{
    for (unsigned i = count; i-- > 0;) /* the newest are the ones asked for */
        if (objects[i] == object)
            return true;
    return false;
}

static int note_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct pass *p = data;
    uintptr_t object = (uintptr_t)info->dlpi_phdr;
    (void)size;
    p->loads = info->dlpi_adds;
    if (info->dlpi_subs != unloads_seen) {
        unloads_seen = info->dlpi_subs;
        done_count = 0;
        pt_h5_look_again();
    }
    if (p->count < NOTED && !is_among(object, done_objects, done_count))
        p->objects[p->count++] = object;
    return 0;
}

static bool is_to_do(uintptr_t object, const struct pass *p)
{
    return is_among(object, p->objects, p->count) && !is_among(object, done_objects, done_count);
}

/* Before any is patched: an object may need what comes after it. */
static int look_for_hdf5(struct dl_phdr_info *info, size_t size, void *data)
{
    struct pt_object o;
    (void)size;
    if (is_to_do((uintptr_t)info->dlpi_phdr, data) && pt_object_read(info, &o) && !left_alone(info, &o))
        pt_h5_look(&o);
    return 0;
}

static int patch_object(struct dl_phdr_info *info, size_t size, void *data)
{
    const struct pass *p = data;
    uintptr_t object = (uintptr_t)info->dlpi_phdr;
    struct pt_object o;
    bool undecided = false;
    (void)size;
    if (!is_to_do(object, p))
        return 0;
    if (pt_object_read(info, &o) && !left_alone(info, &o)) {
        undecided |= patch_relocations(&o, o.rela, o.rela_count);
        undecided |= patch_relocations(&o, o.plt, o.plt_count);
    }
    if (!undecided && done_count < MAX_DONE)
        done_objects[done_count++] = object;
    return 0;
}

/* dladdr takes the lock that a load holds from its first step to its last.
 * `patching` is not held: a constructor that is being run may want it. */
static void wait_for_loads(void)
{
    Dl_info unused;
    dladdr(&patch_count, &unused);
}

static bool one_pass(void)
{
    struct pass pass = {0};
    pthread_mutex_lock(&patching);
    if (!patches) {
        void *at = mmap(NULL, MAX_PATCHES * sizeof *patches, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        patches = at == MAP_FAILED ? NULL : at;
    }
    dl_iterate_phdr(note_object, &pass);
    pthread_mutex_unlock(&patching);
    wait_for_loads();
    pthread_mutex_lock(&patching);
    if (patches) {
        dl_iterate_phdr(look_for_hdf5, &pass);
        dl_iterate_phdr(patch_object, &pass);
    }
    loads_done = pass.loads; /* what has come since it was noted is for the next pass */
    pthread_mutex_unlock(&patching);
    return pass.count < NOTED;
}

void pt_got_patch(void)
{
    int saved = errno;
    for (int i = 0; i < 8 && !one_pass(); i++)
        continue;
    errno = saved;
}

/* A child must not begin while another thread is in here: it would inherit that
 * thread's lock on the loader's list (glibc resets not all of its own), and
 * hang in its first dlopen.  Tried, not waited for: a signal handler that
 * forks may have interrupted the very pass. */

static PT_THREAD_LOCAL bool held_for_fork;

void pt_got_before_fork(void)
{
    for (int i = 0; i < 100000 && !held_for_fork; i++) {
        held_for_fork = pthread_mutex_trylock(&patching) == 0;
        if (!held_for_fork)
            sched_yield();
    }
}

void pt_got_after_fork(bool child)
{
    if (child)
        patching = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    else if (held_for_fork)
        pthread_mutex_unlock(&patching);
    held_for_fork = false;
}

static int count_loads(struct dl_phdr_info *info, size_t size, void *loads)
{
    (void)size;
    *(unsigned long long *)loads = info->dlpi_adds;
    return 1; /* the first object knows */
}

/* Has anything been loaded since the last pass?  Then another one. */
void pt_got_patch_new(void)
{
    unsigned long long loads = 0;
    if (held_for_fork)
        return; /* another library's atfork handler */
    pthread_mutex_lock(&patching);
    dl_iterate_phdr(count_loads, &loads);
    bool done = loads == loads_done;
    pthread_mutex_unlock(&patching);
    if (!done)
        pt_got_patch();
}

static int restore_object(struct dl_phdr_info *info, size_t size, void *unused)
{
    struct pt_object o;
    (void)size;
    (void)unused;
    if (!pt_object_read(info, &o))
        return 0;
    for (unsigned i = patch_count; i-- > 0;) {
        struct patch *p = &patches[i];
        uintptr_t at = (uintptr_t)p->slot;
        /* A slot that somebody has changed since is theirs, and one of an object that is
         * gone may lie in a hole of another that took its place. */
        if (at >= o.data && at + sizeof(void *) <= o.data_end && *p->slot == p->ours)
            store(&o, p->slot, p->before);
    }
    return 0;
}

void pt_got_restore(void)
{
    pthread_mutex_lock(&patching);
    if (patches)
        dl_iterate_phdr(restore_object, NULL);
    patch_count = 0;
    done_count = 0;
    loads_done = 0;
    pthread_mutex_unlock(&patching);
}

/* ---- one name in one object ---------------------------------------------------------- */

struct pointing {
    uintptr_t within;
    const char *name;
    void *ours;
    unsigned count;
};

static void point_relocations(const struct pt_object *o, const ElfW(Rela) * r, size_t count, struct pointing *p)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t type = ELF64_R_TYPE(r[i].r_info);
        const ElfW(Sym) *symbol = &o->symbols[ELF64_R_SYM(r[i].r_info)];
        void **slot = (void **)(o->base + r[i].r_offset);
        if ((type != R_SLOT && type != R_DATA) || symbol->st_shndx != SHN_UNDEF || *slot == p->ours ||
            strcmp(o->strings + symbol->st_name, p->name) != 0 || patch_count == MAX_PATCHES)
            continue;
        patches[patch_count++] = (struct patch){slot, *slot, p->ours};
        store(o, slot, p->ours);
        p->count++;
    }
}

static int point_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct pointing *p = data;
    struct pt_object o;
    (void)size;
    if (!pt_object_read(info, &o) || p->within < o.low || p->within >= o.high)
        return 0;
    point_relocations(&o, o.rela, o.rela_count, p);
    point_relocations(&o, o.plt, o.plt_count, p);
    return 1;
}

/* It is loaded, and stays: its caller has a module of it. */
unsigned pt_got_point(const void *within, const char *name, void *ours)
{
    struct pointing p = {(uintptr_t)within, name, ours, 0};
    pthread_mutex_lock(&patching);
    if (patches)
        dl_iterate_phdr(point_object, &p);
    pthread_mutex_unlock(&patching);
    return p.count;
}

const char *pt_hook_name(unsigned i)
{
    return i < pt_hook_count ? pt_hooks[i].name : pt_h5_name(i - pt_hook_count);
}

/* ---- what tests compare ------------------------------------------------------------ */

struct snapshot {
    uint64_t *out;
    unsigned room, count;
};

static void snapshot_relocations(const struct pt_object *o, const ElfW(Rela) * r, size_t count, struct snapshot *s)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t type = ELF64_R_TYPE(r[i].r_info);
        if ((type != R_SLOT && type != R_DATA && type != R_ABS) || !ELF64_R_SYM(r[i].r_info) || s->count + 2 > s->room)
            continue;
        const char *name = o->strings + o->symbols[ELF64_R_SYM(r[i].r_info)].st_name;
        if (!pt_hook_find(name) && !pt_h5_named(name))
            continue;
        s->out[s->count++] = o->base + r[i].r_offset;
        s->out[s->count++] = *(uint64_t *)(o->base + r[i].r_offset);
    }
}

static int snapshot_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct pt_object o;
    (void)size;
    if (pt_object_read(info, &o) && !left_alone(info, &o)) {
        snapshot_relocations(&o, o.rela, o.rela_count, data);
        snapshot_relocations(&o, o.plt, o.plt_count, data);
    }
    return 0;
}

unsigned pt_got_snapshot(uint64_t *out, unsigned room)
{
    struct snapshot s = {out, room, 0};
    pt_hooks_resolve();
    dl_iterate_phdr(snapshot_object, &s);
    return s.count;
}
