/* The slots that lead to our functions: what each held before, and how to put that back. */
#include "patch/slots.h"
#include "base/memory.h"
#include "base/state.h"
#include "base/sys.h"
#include "patch/patch.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

struct patch {
    void **slot;
    void *before;
    void *ours;
    unsigned long long unloads; /* the loader's count when it was patched */
};
static struct patch *patches; /* MAX_PATCHES of them, touched only as used */
static unsigned patch_count;
#define MAX_PATCHES (1u << 18)

static unsigned long long unloads_now;

/* The objects that are loaded, for pt_slots_look_again(). */
#define MOST_OBJECTS 1024u
static PT_TABLE struct pt_object loaded[MOST_OBJECTS];
static unsigned loaded_count;

bool pt_slots_prepare(void)
{
    if (!patches) {
        void *at = mmap(NULL, MAX_PATCHES * sizeof *patches, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        patches = at == MAP_FAILED ? NULL : at;
    }
    return patches != NULL;
}

/* Stores into a slot, making its page writable while it does. */
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

bool pt_slot_point(const struct pt_object *o, void **slot, void *before, void *ours)
{
    if (!patches || patch_count == MAX_PATCHES)
        return false;
    patches[patch_count++] = (struct patch){slot, before, ours, unloads_now};
    store(o, slot, ours);
    return true;
}

void pt_slots_restore(const struct pt_object *o)
{
    for (unsigned i = patch_count; i-- > 0;) {
        struct patch *p = &patches[i];
        uintptr_t at = (uintptr_t)p->slot;
        /* A slot that was changed since belongs to whoever changed it.  A slot of an unloaded object may now lie in a
         * hole of another object. */
        if (at >= o->data && at + sizeof(void *) <= o->data_end && *p->slot == p->ours)
            store(o, p->slot, p->before);
    }
}

void pt_slots_forget(void)
{
    patch_count = 0;
}

/* ---- slots that another tool has changed since -------------------------------------- */

void pt_slots_set_unloads(unsigned long long unloads)
{
    unloads_now = unloads;
}

static int add_loaded(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    if (loaded_count < MOST_OBJECTS && info->dlpi_subs == unloads_now && pt_object_read(info, &loaded[loaded_count]))
        loaded_count++;
    return 0;
}

static bool lies_in(const struct pt_object *o, const struct patch *p)
{
    uintptr_t at = (uintptr_t)p->slot;
    return at >= o->data && at + sizeof(void *) <= o->data_end;
}

/* Whether the value is what the tool would have found if we were not there. */
static bool is_original(const struct patch *p, const void *value)
{
    if (value == p->before)
        return true;
    for (unsigned i = 0; i < pt_hook_count; i++)
        if (pt_hooks[i].function == p->ours)
            return value == pt_hooks[i].address || value == *pt_hooks[i].original;
    return false;
}

/* Whether a later patch of the same slot has put it there. */
static bool is_ours(void *const *slot, const void *value)
{
    for (unsigned i = patch_count; i-- > 0;)
        if (patches[i].slot == slot && patches[i].ours == value)
            return true;
    return false;
}

/* Slots that were patched before an object was unloaded are left out: they may lie in another one by now.  After an
 * unload every object is patched anew anyway. */
static unsigned look_again(void)
{
    unsigned taken = 0, at = 0;
    loaded_count = 0;
    dl_iterate_phdr(add_loaded, NULL);
    for (unsigned i = 0; i < patch_count && loaded_count; i++) {
        const struct patch *p = &patches[i];
        if (p->unloads != unloads_now)
            continue;
        for (unsigned tries = 0; tries < loaded_count && !lies_in(&loaded[at], p); tries++)
            at = (at + 1) % loaded_count; /* an object's slots follow each other */
        void *value = lies_in(&loaded[at], p) ? __atomic_load_n(p->slot, __ATOMIC_ACQUIRE) : p->ours;
        if (value == p->ours)
            continue;
        if (is_original(p, value))
            store(&loaded[at], p->slot, p->ours);
        else
            taken += !is_ours(p->slot, value);
    }
    return taken;
}

/* The first object is enough: while it is shown, the loader's lock is held, and no object can be unloaded. */
static int look_at_all(struct dl_phdr_info *info, size_t size, void *taken)
{
    (void)info;
    (void)size;
    *(unsigned *)taken = look_again();
    return 1;
}

unsigned pt_slots_look_again(void)
{
    unsigned taken = 0;
    dl_iterate_phdr(look_at_all, &taken);
    return taken;
}

#define COPIED 4096u

/* The slots are read through the kernel, which refuses where an object was unloaded, and which counts that as reads of the
 * process. */
bool pt_slots_put_back(void)
{
    static char page[COPIED];
    uintptr_t at = 0;
    uint64_t copied = 0;
    bool known = false, found = false;
    long fd = pt_sys(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC, 0);
    for (unsigned i = 0; fd >= 0 && i < patch_count && !found; i++) {
        const struct patch *p = &patches[i];
        uintptr_t slot = (uintptr_t)p->slot;
        if (at != (slot & ~(uintptr_t)(COPIED - 1)) || !i) {
            at = slot & ~(uintptr_t)(COPIED - 1);
            known = pt_sys(SYS_pread64, fd, page, COPIED, at) == COPIED;
            copied += known ? COPIED : 0;
        }
        void *value = p->ours;
        if (known && slot - at <= COPIED - sizeof value)
            memcpy(&value, page + (slot - at), sizeof value);
        found = value != p->ours && is_original(p, value);
    }
    if (fd >= 0)
        pt_sys(SYS_close, fd);
    if (pt.process_id)
        __atomic_fetch_add(&pt.process->own_read, copied, __ATOMIC_RELAXED);
    return found;
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
        if (!pt_hook_find(name) && !pt_library_has_name(name))
            continue;
        s->out[s->count++] = o->base + r[i].r_offset;
        s->out[s->count++] = *(uint64_t *)(o->base + r[i].r_offset);
    }
}

static int snapshot_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct pt_object o;
    (void)size;
    if (pt_object_read(info, &o) && !pt_object_is_left_alone(info, &o)) {
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
