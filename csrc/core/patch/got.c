/* Patches the global offset tables of the loaded objects, and undoes it.
 *
 * In each object but libc, the dynamic linker and our own libraries, every slot that holds the address of a hooked
 * name is pointed at our function: JUMP_SLOT, GLOB_DAT and absolute 64-bit relocations (sqlite keeps a table of
 * function pointers in its data).  A slot that holds neither the lazy stub nor the address that the name resolves to
 * belongs to another tool and is left alone; that tool calls on through its own object, which is patched.  A library
 * of which a process may have several copies resolves its names itself (struct pt_patched_library).  Every change is
 * written down, and pt_got_restore undoes exactly those.  Slots that were patched are looked at again at each pass, as
 * another tool may have taken them over or put them back. */
#include "patch/patch.h"
#include "base/clock.h"
#include "base/state.h"
#include "patch/slots.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

/* Objects already patched: walking them at every import would be slow. */
#define MAX_DONE 4096
static PT_TABLE uintptr_t done_objects[MAX_DONE];
static unsigned done_count;
static unsigned long long unloads_seen;

static unsigned long long loads_done;                        /* the loader's count of loads at the latest pass */
static pthread_mutex_t patching = PTHREAD_MUTEX_INITIALIZER; /* control path only, never a hook's usual path */

/* ---- one object --------------------------------------------------------------- */

static bool ours_to_patch(const struct pt_object *o, const struct pt_hook *h, const void *value)
{
    return value == h->address || value == *h->original || (!h->is_anothers && pt_object_holds(o, (uintptr_t)value));
}

/* The function that a slot for a libc name should lead to; NULL: it stays. */
static void *for_libc_slot(const struct pt_object *o, const ElfW(Rela) * r, const char *name, const void *value)
{
    struct pt_hook *h = pt_hook_find(name);
    if (!h || !h->address || value == h->function || !ours_to_patch(o, h, value))
        return NULL;
    if (pt_object_wants_old(o, ELF64_R_SYM(r->r_info), h->name))
        return NULL;
    if (ELF64_R_TYPE(r->r_info) != R_SLOT && value != h->address && value != *h->original)
        return NULL; /* a canonical stub in another object, whose own slot is patched */
    return h->function;
}

/* Returns true if some slots cannot be decided yet. */
static bool patch_relocations(const struct pt_object *o, const ElfW(Rela) * r, size_t count)
{
    bool undecided = false;
    for (size_t i = 0; i < count; i++) {
        if (ELF64_R_SYM(r[i].r_info) >= o->defined) /* nearly all of a library's thousands */
            continue;
        uint32_t type = ELF64_R_TYPE(r[i].r_info);
        if (type != R_SLOT && type != R_DATA && !(type == R_ABS && r[i].r_addend == 0))
            continue;
        const ElfW(Sym) *symbol = &o->symbols[ELF64_R_SYM(r[i].r_info)];
        if (symbol->st_shndx != SHN_UNDEF)
            continue;
        const char *name = o->strings + symbol->st_name;
        void **slot = (void **)(o->base + r[i].r_offset);
        void *value = *slot;
        const struct pt_patched_library *library = pt_library_of(name);
        void *ours = library ? library->for_slot(o, name, value, type == R_SLOT, &undecided)
                             : for_libc_slot(o, &r[i], name, value);
        if (ours)
            pt_slot_point(o, slot, value, ours);
    }
    return undecided;
}

/* ---- which objects -------------------------------------------------------------- */

/* Objects appear in the loader's list before they are relocated.  Touching one then would race with the loader, and
 * might even seal a page it is writing to.  So a pass first notes what is in the list, then waits until every load
 * under way is done, and only then patches what it noted.
 *
 * If objects were both unloaded and loaded meanwhile, one that is still loading may have the place of one that was
 * noted.  Such a pass is stale: it stops, and another one begins.  Where threads load and unload all the time, a third
 * of the passes are stale. */
#define NOTED 512u /* this lies on the stack of any caller of dlsym */
#define MOST_FULL (MAX_DONE / NOTED)
#define MOST_STALE 64
struct pass {
    unsigned long long loads, unloads; /* the loader's counts when the objects were noted */
    bool stale;
    unsigned count;
    uintptr_t objects[NOTED];
};

static bool is_among(uintptr_t object, const uintptr_t *objects, unsigned count)
{
    for (unsigned i = count; i-- > 0;) /* the newest are the ones looked for */
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
    p->unloads = info->dlpi_subs;
    pt_slots_set_unloads(info->dlpi_subs);
    if (info->dlpi_subs != unloads_seen) {
        unloads_seen = info->dlpi_subs;
        done_count = 0;
        for (unsigned i = 0; i < pt_library_count; i++)
            pt_libraries[i]->objects_unloaded();
    }
    if (p->count < NOTED && !is_among(object, done_objects, done_count))
        p->objects[p->count++] = object;
    return 0;
}

static bool is_stale(const struct dl_phdr_info *info, struct pass *p)
{
    p->stale = info->dlpi_adds != p->loads && info->dlpi_subs != p->unloads;
    return p->stale;
}

static bool is_to_do(uintptr_t object, const struct pass *p)
{
    return is_among(object, p->objects, p->count) && !is_among(object, done_objects, done_count);
}

/* Before any object is patched, because it may depend on a later one. */
static int look_for_libraries(struct dl_phdr_info *info, size_t size, void *data)
{
    struct pt_object o;
    (void)size;
    if (is_stale(info, data))
        return 1;
    if (is_to_do((uintptr_t)info->dlpi_phdr, data) && pt_object_read(info, &o) && !pt_object_is_left_alone(info, &o))
        for (unsigned i = 0; i < pt_library_count; i++)
            pt_libraries[i]->object_found(&o);
    return 0;
}

static int patch_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct pass *p = data;
    uintptr_t object = (uintptr_t)info->dlpi_phdr;
    struct pt_object o;
    bool undecided = false;
    (void)size;
    if (is_stale(info, p))
        return 1;
    if (!is_to_do(object, p))
        return 0;
    if (pt_object_read(info, &o) && !pt_object_is_left_alone(info, &o)) {
        undecided |= patch_relocations(&o, o.rela, o.rela_count);
        undecided |= patch_relocations(&o, o.plt, o.plt_count);
    }
    if (!undecided && done_count < MAX_DONE) {
        done_objects[done_count++] = object;
        if (!pt_object_is_left_alone(info, &o)) {
            pt_note_loaded(info->dlpi_name);
            pt_look_for_liburing(&o);
        }
    }
    return 0;
}

/* dladdr takes the lock that a load holds from its first step to its last.  `patching` is not held meanwhile: a
 * constructor that is running may want it. */
static void wait_for_loads(void)
{
    Dl_info unused;
    dladdr(&patching, &unused);
    pt_find_name_spaces();
}

#define MOST_SECONDS_BETWEEN 1

uint64_t pt_slots_due; /* atomic: ticks when the slots should be looked at again */

static void calls_are_missing(void)
{
    if (pt.process_id)
        __atomic_fetch_or(&pt.process->blind, PT_BLIND_UNPATCHED, __ATOMIC_RELAXED);
}

static void looked_just_now(void)
{
    uint64_t pause = MOST_SECONDS_BETWEEN * 1000000ull * pt_ticks_per_us();
    __atomic_store_n(&pt_slots_due, pt_ticks() + pause, __ATOMIC_RELAXED);
}

/* A tool that took slots over (a memory profiler) may have left, and put libc's functions back.  What one still holds
 * may not come to us, which the log says. */
static void look_again(void)
{
    looked_just_now();
    if (pt_slots_look_again())
        calls_are_missing();
    pt_note_unseen_code();
}

/* A tool that puts slots back need not load a library afterwards, so hooks look now and then.  Hooks may interrupt
 * anything, so they do it without the loader's lock. */
void pt_got_look_slow(void)
{
    if (pthread_mutex_trylock(&patching) != 0)
        return;
    looked_just_now();
    if (pt_slots_put_back()) {
        look_again();
        if (pt_slots_put_back())
            calls_are_missing();
    }
    pthread_mutex_unlock(&patching);
}

void pt_got_ends(void)
{
    if (pt_ticks() < __atomic_load_n(&pt_slots_due, __ATOMIC_RELAXED) || pthread_mutex_trylock(&patching) != 0)
        return;
    if (pt_slots_put_back())
        calls_are_missing();
    pthread_mutex_unlock(&patching);
}

enum pass_end { PASS_DONE, PASS_FULL, PASS_STALE };

static enum pass_end one_pass(void)
{
    struct pass pass = {0};
    pthread_mutex_lock(&patching);
    bool ready = pt_slots_prepare();
    dl_iterate_phdr(note_object, &pass);
    pthread_mutex_unlock(&patching);
    wait_for_loads();
    pthread_mutex_lock(&patching);
    if (ready) {
        dl_iterate_phdr(look_for_libraries, &pass);
        dl_iterate_phdr(patch_object, &pass);
        look_again();
    }
    if (!pass.stale)
        loads_done = pass.loads; /* later loads are for the next pass */
    pthread_mutex_unlock(&patching);
    return pass.stale ? PASS_STALE : pass.count == NOTED ? PASS_FULL : PASS_DONE;
}

void pt_got_patch(void)
{
    int saved = errno;
    unsigned passes[3] = {0};
    while (!passes[PASS_DONE] && passes[PASS_FULL] < MOST_FULL && passes[PASS_STALE] < MOST_STALE)
        passes[one_pass()]++;
    errno = saved;
}

/* A fork must not happen while another thread is in here: the child would inherit that thread's lock on the loader's
 * list (glibc does not reset all of its own), and hang in its first dlopen.  The lock is tried, not waited for: a
 * signal handler that forks may have interrupted this very code. */

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
    return 1; /* the first object has it */
}

/* Makes another pass if anything was loaded since the last one.  Otherwise, at times, looks at the slots only. */
void pt_got_patch_new(void)
{
    unsigned long long loads = 0;
    if (held_for_fork)
        return; /* called from another library's atfork handler */
    pthread_mutex_lock(&patching);
    dl_iterate_phdr(count_loads, &loads);
    bool done = loads == loads_done;
    if (done && pt_ticks() > __atomic_load_n(&pt_slots_due, __ATOMIC_RELAXED))
        look_again();
    pthread_mutex_unlock(&patching);
    if (!done)
        pt_got_patch();
}

static int restore_object(struct dl_phdr_info *info, size_t size, void *unused)
{
    struct pt_object o;
    (void)size;
    (void)unused;
    if (pt_object_read(info, &o))
        pt_slots_restore(&o);
    return 0;
}

void pt_got_restore(void)
{
    pthread_mutex_lock(&patching);
    dl_iterate_phdr(restore_object, NULL);
    pt_slots_forget();
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
            strcmp(o->strings + symbol->st_name, p->name) != 0)
            continue;
        p->count += pt_slot_point(o, slot, *slot, p->ours);
    }
}

static int point_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct pointing *p = data;
    struct pt_object o;
    (void)size;
    if (!pt_object_read(info, &o) || !pt_object_holds(&o, p->within))
        return 0;
    point_relocations(&o, o.rela, o.rela_count, p);
    point_relocations(&o, o.plt, o.plt_count, p);
    return 1;
}

/* The object stays loaded: the caller holds its module. */
unsigned pt_got_point(const void *within, const char *name, void *ours)
{
    struct pointing p = {(uintptr_t)within, name, ours, 0};
    pthread_mutex_lock(&patching);
    dl_iterate_phdr(point_object, &p);
    pthread_mutex_unlock(&patching);
    return p.count;
}

const char *pt_hook_name(unsigned i)
{
    return i < pt_hook_count ? pt_hooks[i].name : pt_library_name(i - pt_hook_count);
}
