/* Patching the global offset tables of the loaded objects, and undoing it.
 *
 * In each object but libc, the dynamic linker and our own libraries, every slot
 * that holds a hooked name's address is pointed at our function: JUMP_SLOT,
 * GLOB_DAT and absolute 64-bit relocations (sqlite keeps a table of function
 * pointers in its data).  A slot that holds something other than the lazy stub
 * or the address the name resolves to belongs to another tool and is left to it;
 * it calls on through its own object, which is patched.  What was changed is
 * written down, and pt_got_restore undoes exactly that. */
#include "core.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__x86_64__)
#define R_SLOT R_X86_64_JUMP_SLOT
#define R_DATA R_X86_64_GLOB_DAT
#define R_ABS R_X86_64_64
#elif defined(__aarch64__)
#define R_SLOT R_AARCH64_JUMP_SLOT
#define R_DATA R_AARCH64_GLOB_DAT
#define R_ABS R_AARCH64_ABS64
#endif

struct patch {
    void **slot;
    void *before;
    struct pt_hook *hook;
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

/* ---- names ------------------------------------------------------------------ */

#define NAME_SLOTS 2048u
static uint16_t name_index[NAME_SLOTS]; /* index + 1 into pt_hooks */

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

void pt_hooks_resolve(void)
{
    static bool resolved;
    if (resolved)
        return;
    resolved = true;
    for (unsigned i = 0; i < pt_hook_count; i++) {
        struct pt_hook *h = &pt_hooks[i];
        h->address = dlsym(RTLD_DEFAULT, h->name);
        if (h->address && !*h->original)
            *h->original = h->address;
        uint32_t at = name_hash(h->name);
        while (name_index[at % NAME_SLOTS])
            at++;
        name_index[at % NAME_SLOTS] = (uint16_t)(i + 1);
    }
}

/* ---- one object --------------------------------------------------------------- */

struct object {
    uintptr_t base, low, high;  /* load bias; range of its segments, holes included */
    uintptr_t data, data_end;   /* of its writable segment */
    uintptr_t relro, relro_end; /* page-aligned; 0: none */
    const char *strings;
    const ElfW(Sym) * symbols;
    const ElfW(Rela) * rela, *plt;
    size_t rela_count, plt_count;
};

static const ElfW(Dyn) * scan_segments(const struct dl_phdr_info *info, struct object *o)
{
    const ElfW(Dyn) *dynamic = NULL;
    memset(o, 0, sizeof *o);
    o->base = info->dlpi_addr;
    o->low = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = o->base + p->p_vaddr;
        if (p->p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)at;
        if (p->p_type == PT_LOAD) {
            o->low = at < o->low ? at : o->low;
            o->high = at + p->p_memsz > o->high ? at + p->p_memsz : o->high;
            if (p->p_flags & PF_W) {
                o->data = o->data ? o->data : at;
                o->data_end = at + p->p_memsz;
            }
        }
        if (p->p_type == PT_GNU_RELRO) {
            o->relro = at & ~(uintptr_t)(PT_PAGE - 1);
            o->relro_end = (at + p->p_memsz) & ~(uintptr_t)(PT_PAGE - 1);
        }
    }
    return dynamic;
}

/* glibc stores the addresses of d_ptr entries relocated; musl and the vDSO do not. */
static uintptr_t dynamic_address(const struct object *o, ElfW(Addr) value)
{
    return value >= o->base && o->base ? value : o->base + value;
}

static bool read_object(const struct dl_phdr_info *info, struct object *o)
{
    const ElfW(Dyn) *d = scan_segments(info, o);
    if (!d)
        return false;
    for (; d->d_tag != DT_NULL; d++) {
        uintptr_t at = dynamic_address(o, d->d_un.d_ptr);
        switch (d->d_tag) {
        case DT_STRTAB: o->strings = (const char *)at; break;
        case DT_SYMTAB: o->symbols = (const ElfW(Sym) *)at; break;
        case DT_RELA: o->rela = (const ElfW(Rela) *)at; break;
        case DT_RELASZ: o->rela_count = d->d_un.d_val / sizeof(ElfW(Rela)); break;
        case DT_JMPREL: o->plt = (const ElfW(Rela) *)at; break;
        case DT_PLTRELSZ: o->plt_count = d->d_un.d_val / sizeof(ElfW(Rela)); break;
        }
    }
    return o->strings && o->symbols;
}

/* Makes the slot writable for as long as it takes, and as it was afterwards. */
static void store(const struct object *o, void **slot, void *value)
{
    uintptr_t at = (uintptr_t)slot;
    bool sealed = at >= o->relro && at < o->relro_end;
    char *page = (char *)(at & ~(uintptr_t)(PT_PAGE - 1));
    if (sealed && pt_sys(SYS_mprotect, page, PT_PAGE, PROT_READ | PROT_WRITE) != 0)
        return;
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    if (sealed)
        pt_sys(SYS_mprotect, page, PT_PAGE, PROT_READ);
}

static bool ours_to_patch(const struct object *o, const struct pt_hook *h, const void *value)
{
    uintptr_t v = (uintptr_t)value;
    return value == h->address || value == *h->original || (v >= o->low && v < o->high);
}

static void patch_relocations(const struct object *o, const ElfW(Rela) * r, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t type = ELF64_R_TYPE(r[i].r_info);
        if (type != R_SLOT && type != R_DATA && !(type == R_ABS && r[i].r_addend == 0))
            continue;
        const ElfW(Sym) *symbol = &o->symbols[ELF64_R_SYM(r[i].r_info)];
        if (symbol->st_shndx != SHN_UNDEF)
            continue;
        struct pt_hook *h = pt_hook_find(o->strings + symbol->st_name);
        if (!h || !h->address)
            continue;
        void **slot = (void **)(o->base + r[i].r_offset);
        void *value = *slot;
        if (value == h->function || !ours_to_patch(o, h, value) || patch_count == MAX_PATCHES)
            continue;
        if (type != R_SLOT && value != h->address && value != *h->original)
            continue; /* a canonical stub elsewhere: that object's own slot leads on */
        patches[patch_count++] = (struct patch){slot, value, h};
        store(o, slot, h->function);
    }
}

/* ---- which objects -------------------------------------------------------------- */

static bool named(const char *path, const char *prefix)
{
    const char *base = strrchr(path, '/');
    return strncmp(base ? base + 1 : path, prefix, strlen(prefix)) == 0;
}

static bool left_alone(const struct dl_phdr_info *info, const struct object *o)
{
    static const char *const names[] = {"libc.so", "libc-2.", "ld-linux", "ld-musl", "ld-2.", "libpthread", "libdl.so",
                                        "librt.so", "linux-vdso", "libasan.so", "libubsan.so", "libtsan.so"};
    uintptr_t here = (uintptr_t)&patch_count;
    if (here >= o->low && here < o->high)
        return true;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (named(info->dlpi_name, names[i]))
            return true;
    return named(info->dlpi_name, "_capture."); /* our extension */
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
    }
    if (p->count < NOTED && !is_among(object, done_objects, done_count))
        p->objects[p->count++] = object;
    return 0;
}

static int patch_object(struct dl_phdr_info *info, size_t size, void *data)
{
    const struct pass *p = data;
    uintptr_t object = (uintptr_t)info->dlpi_phdr;
    struct object o;
    (void)size;
    if (!is_among(object, p->objects, p->count) || is_among(object, done_objects, done_count))
        return 0;
    if (done_count < MAX_DONE)
        done_objects[done_count++] = object;
    if (!read_object(info, &o) || left_alone(info, &o))
        return 0;
    patch_relocations(&o, o.rela, o.rela_count);
    patch_relocations(&o, o.plt, o.plt_count);
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
    if (patches)
        dl_iterate_phdr(patch_object, &pass);
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

/* Spelt out: PT_TLS is the name of a segment type here (elf.h). */
static __thread bool held_for_fork __attribute__((tls_model("initial-exec")));

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
    struct object o;
    (void)size;
    (void)unused;
    if (!read_object(info, &o))
        return 0;
    for (unsigned i = patch_count; i-- > 0;) {
        struct patch *p = &patches[i];
        uintptr_t at = (uintptr_t)p->slot;
        /* A slot that somebody has changed since is theirs, and one of an object that is
         * gone may lie in a hole of another that took its place. */
        if (at >= o.data && at + sizeof(void *) <= o.data_end && *p->slot == p->hook->function)
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

/* ---- what tests compare ------------------------------------------------------------ */

struct snapshot {
    uint64_t *out;
    unsigned room, count;
};

static void snapshot_relocations(const struct object *o, const ElfW(Rela) * r, size_t count, struct snapshot *s)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t type = ELF64_R_TYPE(r[i].r_info);
        if ((type != R_SLOT && type != R_DATA && type != R_ABS) || !ELF64_R_SYM(r[i].r_info) || s->count + 2 > s->room)
            continue;
        if (!pt_hook_find(o->strings + o->symbols[ELF64_R_SYM(r[i].r_info)].st_name))
            continue;
        s->out[s->count++] = o->base + r[i].r_offset;
        s->out[s->count++] = *(uint64_t *)(o->base + r[i].r_offset);
    }
}

static int snapshot_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct object o;
    (void)size;
    if (read_object(info, &o) && !left_alone(info, &o)) {
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
