/* Loaded objects: their tables, and what these say about the versions and addresses of hooked names. */
#include "patch/objects.h"
#include "base/memory.h"
#include "patch/patch.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>

/* ---- tables ------------------------------------------------------------------- */

static const ElfW(Dyn) * scan_segments(const struct dl_phdr_info *info, struct pt_object *o, bool *program)
{
    const ElfW(Dyn) *dynamic = NULL;
    uintptr_t page = pt_kernel_page();
    memset(o, 0, sizeof *o);
    o->base = info->dlpi_addr;
    o->low = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = o->base + p->p_vaddr;
        if (p->p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)at;
        *program |= p->p_type == PT_INTERP;
        if (p->p_type == PT_LOAD) {
            o->low = at < o->low ? at : o->low;
            o->high = at + p->p_memsz > o->high ? at + p->p_memsz : o->high;
            if (p->p_flags & PF_W) {
                o->data = o->data ? o->data : at;
                o->data_end = at + p->p_memsz;
            }
        }
        if (p->p_type == PT_GNU_RELRO) {
            o->relro = at & ~(page - 1);
            o->relro_end = (at + p->p_memsz) & ~(page - 1);
        }
    }
    return dynamic;
}

/* glibc relocates the addresses of d_ptr entries; musl and the vDSO do not. */
static uintptr_t dynamic_address(const struct pt_object *o, ElfW(Addr) value)
{
    return value >= o->base && o->base ? value : o->base + value;
}

/* The index of the first symbol that has a hash; all that follow it have one.  A library hashes only the symbols that
 * it defines; a program also hashes some of its stubs for library functions.  SIZE_MAX: no symbol has a hash, and the
 * number in the table is meaningless. */
static size_t first_hashed(const uint32_t *hash)
{
    uint32_t buckets = hash[0], words = hash[2];
    const uint32_t *bucket = hash + 4 + 2 * words;
    return buckets > 1 || (buckets == 1 && *bucket) ? hash[1] : SIZE_MAX;
}

bool pt_object_read(const struct dl_phdr_info *info, struct pt_object *o)
{
    bool program = false;
    const ElfW(Dyn) *d = scan_segments(info, o, &program);
    size_t nameless = 0; /* relocations without a symbol, at the beginning of rela */
    if (!d)
        return false;
    for (; d->d_tag != DT_NULL; d++) {
        uintptr_t at = dynamic_address(o, d->d_un.d_ptr);
        switch (d->d_tag) {
        case DT_STRTAB: o->strings = (const char *)at; break;
        case DT_SYMTAB: o->symbols = (const ElfW(Sym) *)at; break;
        case DT_VERSYM: o->versions = (const ElfW(Half) *)at; break;
        case DT_VERNEED: o->needs = (const ElfW(Verneed) *)at; break;
        case DT_GNU_HASH: o->gnu_hash = (const uint32_t *)at; break;
        case DT_HASH: o->sysv_hash = (const uint32_t *)at; break;
        case DT_RELA: o->rela = (const ElfW(Rela) *)at; break;
        case DT_RELASZ: o->rela_count = d->d_un.d_val / sizeof(ElfW(Rela)); break;
        case DT_RELACOUNT: nameless = d->d_un.d_val; break;
        case DT_JMPREL: o->plt = (const ElfW(Rela) *)at; break;
        case DT_PLTRELSZ: o->plt_count = d->d_un.d_val / sizeof(ElfW(Rela)); break;
        }
    }
    if (nameless <= o->rela_count) {
        o->rela += nameless;
        o->rela_count -= nameless;
    }
    o->defined = o->gnu_hash && !program ? first_hashed(o->gnu_hash) : SIZE_MAX;
    return o->strings && o->symbols;
}

const char *pt_object_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Is it libc, a part of libc, or a sanitizer, whose functions come before libc's in the whole program? */
bool pt_object_is_systems(const char *path)
{
    static const char *const names[] = {
        "libc.so",  "libc-2.",    "libc.musl",  "ld-linux",   "ld-musl",    "ld-2.",       "libpthread", "libdl.so",
        "librt.so", "libutil.so", "libutil-2.", "linux-vdso", "libasan.so", "libubsan.so", "libtsan.so", "liblsan.so"};
    const char *name = pt_object_file(path);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

bool pt_object_is_left_alone(const struct dl_phdr_info *info, const struct pt_object *o)
{
    if (pt_object_holds(o, (uintptr_t)&pt_hook_count))
        return true;
    return strncmp(pt_object_file(info->dlpi_name), "_capture.", 9) == 0 || /* our extension */
           pt_object_is_systems(info->dlpi_name);
}

/* ---- what it defines ------------------------------------------------------------ */

static void *function_of(const struct pt_object *o, const ElfW(Sym) * s)
{
    bool function = ELF64_ST_TYPE(s->st_info) == STT_FUNC && s->st_shndx != SHN_UNDEF && s->st_value;
    return function ? (void *)(o->base + s->st_value) : NULL;
}

/* The i-th symbol, if it has that name, in the version that a search without a version finds. */
static const ElfW(Sym) * named_so(const struct pt_object *o, uint32_t i, const char *name)
{
    const ElfW(Sym) *s = &o->symbols[i];
    bool current = !o->versions || !(o->versions[i] & 0x8000);
    return current && strcmp(o->strings + s->st_name, name) == 0 ? s : NULL;
}

uint32_t pt_name_hash(const char *name)
{
    uint32_t h = 5381;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        h = h * 33 + *c;
    return h;
}

static const ElfW(Sym) * by_gnu_hash(const struct pt_object *o, const char *name, uint32_t h)
{
    uint32_t buckets = o->gnu_hash[0], first = o->gnu_hash[1], words = o->gnu_hash[2], shift = o->gnu_hash[3];
    const uint64_t *bloom = (const uint64_t *)(o->gnu_hash + 4);
    const uint32_t *bucket = (const uint32_t *)(bloom + words), *chain = bucket + buckets;
    uint64_t both = 1ull << h % 64 | 1ull << (h >> shift) % 64;
    if (!buckets || !words || (bloom[h / 64 & (words - 1)] & both) != both) /* words: a power of two */
        return NULL;
    for (uint32_t i = bucket[h % buckets]; i >= first; i++) {
        uint32_t theirs = chain[i - first];
        const ElfW(Sym) *found = (theirs | 1) == (h | 1) ? named_so(o, i, name) : NULL;
        if (found || theirs & 1)
            return found;
    }
    return NULL;
}

void *pt_object_variable(const struct pt_object *o, const char *name)
{
    const ElfW(Sym) *s = o->gnu_hash ? by_gnu_hash(o, name, pt_name_hash(name)) : NULL;
    bool variable = s && ELF64_ST_TYPE(s->st_info) == STT_OBJECT && s->st_shndx != SHN_UNDEF && s->st_value;
    return variable ? (void *)(o->base + s->st_value) : NULL;
}

void *pt_object_symbol(const struct pt_object *o, const char *name)
{
    const ElfW(Sym) *found = o->gnu_hash ? by_gnu_hash(o, name, pt_name_hash(name)) : NULL;
    for (uint32_t i = 0; !o->gnu_hash && o->sysv_hash && !found && i < o->sysv_hash[1]; i++) {
        found = named_so(o, i, name);
        found = found && function_of(o, found) ? found : NULL;
    }
    return found ? function_of(o, found) : NULL;
}

/* ---- what a name leads to -------------------------------------------------------
 * dlsym(RTLD_DEFAULT), for the hundreds of names that are asked for at each
 * start: a tenth of a millisecond less.  Whatever is not plainly as usual is
 * left to dlsym. */

static int add_to_scope(struct dl_phdr_info *info, size_t size, void *data)
{
    struct pt_scope *s = data;
    struct pt_object *o = &s->objects[s->count];
    (void)size;
    bool read = s->count < PT_SCOPE && pt_object_read(info, o);
    if (read && pt_object_holds(o, getauxval(AT_SYSINFO_EHDR)))
        return 0; /* the only listed object in which no names are looked up */
    s->whole = read && o->gnu_hash;
    if (!s->whole)
        return 1;
    s->count++;
    if (!s->to_libc && pt_object_holds(o, s->libc))
        s->to_libc = s->count;
    return 0;
}

/* For glibc only: the lists of other loaders need not be in search order. */
void pt_scope_read(struct pt_scope *s)
{
    s->count = s->to_libc = 0;
    s->whole = false;
    s->libc = (uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
    if (s->libc)
        dl_iterate_phdr(add_to_scope, s);
}

/* The first object that has the name decides: the loader searches in list order, up to libc.  A name that no object
 * has need not be looked up either: libc lacks those of other versions and other libcs. */
void *pt_scope_symbol(const struct pt_scope *s, const char *name, uint32_t hash)
{
    for (unsigned i = 0; s->to_libc && i < s->count; i++) {
        const ElfW(Sym) *found = by_gnu_hash(&s->objects[i], name, hash);
        if (found && i + 1 == s->to_libc && function_of(&s->objects[i], found))
            return function_of(&s->objects[i], found);
        if (found) /* in the program it may be a stub; elsewhere before libc, a weak symbol may have to give way */
            return dlsym(RTLD_DEFAULT, name);
    }
    return s->to_libc && s->whole ? NULL : dlsym(RTLD_DEFAULT, name);
}

/* ---- versions ------------------------------------------------------------------ */

/* libc keeps old versions of some functions under the same name.  Our hooks call the new ones, so an unbound slot for
 * an old version stays. */
#if defined(__x86_64__)
static const char oldest[] = "GLIBC_2.2.5";
static const char *const changed[] = {"glob",   "glob64",      "lio_listio",   "lio_listio64", "nftw",
                                      "nftw64", "posix_spawn", "posix_spawnp", "realpath"};
#else
static const char oldest[] = "GLIBC_2.17";
static const char *const changed[] = {"glob", "glob64"};
#endif

static const char *required_version(const struct pt_object *o, size_t symbol)
{
    if (!o->versions || !o->needs)
        return "";
    ElfW(Half) wanted = o->versions[symbol] & 0x7fff;
    for (const ElfW(Verneed) *n = o->needs;; n = (const void *)((const char *)n + n->vn_next)) {
        const ElfW(Vernaux) *a = (const void *)((const char *)n + n->vn_aux);
        for (int i = 0; i < n->vn_cnt; i++, a = (const void *)((const char *)a + a->vna_next))
            if (a->vna_other == wanted)
                return o->strings + a->vna_name;
        if (!n->vn_next)
            return "";
    }
}

bool pt_object_wants_old(const struct pt_object *o, size_t symbol, const char *name)
{
    for (unsigned i = 0; i < sizeof changed / sizeof *changed; i++)
        if (strcmp(name, changed[i]) == 0)
            return strcmp(required_version(o, symbol), oldest) == 0;
    return false;
}

/* ---- originals ---------------------------------------------------------------
 * In a program that is not position-independent, a function whose address is
 * taken has its address in the program: a stub there, which jumps through the
 * program's slot.  dlsym, too, answers with that stub.  It is no original: the
 * slot it jumps through is one that we patch. */

static char stub[1]; /* stands for the address of a hook of which only a stub is known */

static int mark_stubs(struct dl_phdr_info *info, size_t size, void *any)
{
    struct pt_object o;
    (void)size;
    for (size_t i = 0; pt_object_read(info, &o) && i < o.plt_count; i++) {
        const ElfW(Sym) *symbol = &o.symbols[ELF64_R_SYM(o.plt[i].r_info)];
        struct pt_hook *h = pt_hook_find(o.strings + symbol->st_name);
        if (h && symbol->st_shndx == SHN_UNDEF && symbol->st_value &&
            h->address == (void *)(o.base + symbol->st_value)) {
            h->address = stub;
            *(bool *)any = true;
        }
    }
    return 1; /* the first object is the program */
}

#define BEYOND 64 /* libraries at the program's start, including libc; further ones are ignored */
struct beyond {
    const char *names[BEYOND];
    uintptr_t low[BEYOND], high[BEYOND];
    unsigned count, seen;
};

static int note_library(struct dl_phdr_info *info, size_t size, void *data)
{
    struct beyond *b = data;
    struct pt_object o;
    (void)size;
    if (b->seen++ == 0 || b->count == BEYOND || !pt_object_read(info, &o))
        return 0;
    b->names[b->count] = info->dlpi_name;
    b->low[b->count] = o.low;
    b->high[b->count++] = o.high;
    return 0;
}

/* The first object after the program that has the name, as the program's own slot is bound. */
static void *find_beyond_program(const struct beyond *b, const char *name)
{
    for (unsigned i = 0; i < b->count; i++) {
        void *library = dlopen(b->names[i], RTLD_LAZY | RTLD_NOLOAD);
        void *found = library ? dlsym(library, name) : NULL;
        if (library)
            dlclose(library);
        if ((uintptr_t)found >= b->low[i] && (uintptr_t)found < b->high[i])
            return found;
    }
    return NULL;
}

void pt_resolve_stubs(void)
{
    struct beyond libraries = {0};
    bool any = false;
    dl_iterate_phdr(mark_stubs, &any);
    if (!any)
        return;
    dl_iterate_phdr(note_library, &libraries);
    for (unsigned i = 0; i < pt_hook_count; i++)
        if (pt_hooks[i].address == stub)
            pt_hooks[i].address = find_beyond_program(&libraries, pt_hooks[i].name);
}
