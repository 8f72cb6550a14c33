/* The descriptor table: what each descriptor of this process is.
 *
 * It grows with the descriptors (leaves of 4096 entries, mapped when first
 * needed), is copied by fork along with the rest of memory, follows dup, and
 * looks up a descriptor it has not seen opened once, through /proc/self/fd.
 * An entry points to a pt_desc in the log, which names the open file
 * description ("root") that dup and fork share. */
#include "call.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <errno.h>

pt_fd_entry *pt_fd_leaves[1u << PT_FD_TOP_BITS];
static uint32_t highest_leaf; /* spares pt_fd_reset the two megabytes that nothing ever used */

#define LEAF_ENTRIES (1u << PT_FD_LEAF_BITS)
#define LEAF_BYTES (LEAF_ENTRIES * sizeof(pt_fd_entry))

static pt_fd_entry *leaf_slow(int fd)
{
    pt_fd_entry **top = &pt_fd_leaves[(uint32_t)fd >> PT_FD_LEAF_BITS];
    pt_fd_entry *leaf = __atomic_load_n(top, __ATOMIC_ACQUIRE);
    if (leaf)
        return leaf;
    pt_fd_entry *fresh = pt_memory(LEAF_BYTES);
    if (!fresh)
        return NULL;
    uint32_t index = (uint32_t)fd >> PT_FD_LEAF_BITS, seen = __atomic_load_n(&highest_leaf, __ATOMIC_RELAXED);
    while (index > seen &&
           !__atomic_compare_exchange_n(&highest_leaf, &seen, index, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
    if (__atomic_compare_exchange_n(top, &leaf, fresh, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
        return fresh;
    pt_memory_back(fresh, LEAF_BYTES);
    return leaf;
}

static bool in_range(int fd)
{
    return (uint32_t)fd < (1u << (PT_FD_LEAF_BITS + PT_FD_TOP_BITS));
}

void pt_fd_set(struct pt_thread *t, int fd, pt_fd_entry e)
{
    if (PT_UNLIKELY(t->borrowed_memory)) {
        pt_vfork_fd_set(t, fd, e);
        return;
    }
    if (!in_range(fd))
        return;
    if (PT_UNLIKELY(__atomic_load_n(&pt_positions_followed, __ATOMIC_RELAXED) || pt_ever_forked))
        pt_profile_new(fd);
    pt_fd_entry *leaf = leaf_slow(fd);
    if (leaf) /* release: who finds the entry looks into the descriptor it names */
        __atomic_store_n(&leaf[(uint32_t)fd & (LEAF_ENTRIES - 1)], e, __ATOMIC_RELEASE);
}

void pt_fd_forget(struct pt_thread *t, int fd)
{
    if (t->borrowed_memory)
        pt_vfork_fd_forget_range(t, (unsigned)fd, (unsigned)fd);
    else if (pt_fd_peek(fd))
        pt_fd_set(t, fd, 0);
}

void pt_fd_forget_range(struct pt_thread *t, unsigned first, unsigned last)
{
    if (t->borrowed_memory) {
        pt_vfork_fd_forget_range(t, first, last);
        return;
    }
    if (last >= 1u << (PT_FD_LEAF_BITS + PT_FD_TOP_BITS))
        last = (1u << (PT_FD_LEAF_BITS + PT_FD_TOP_BITS)) - 1;
    if (last >> PT_FD_LEAF_BITS > highest_leaf)
        last = (highest_leaf << PT_FD_LEAF_BITS) | (LEAF_ENTRIES - 1);
    for (uint64_t fd = first; fd <= last; fd++) {
        if (!pt_fd_leaves[fd >> PT_FD_LEAF_BITS]) {
            fd |= LEAF_ENTRIES - 1; /* the whole leaf is empty */
            continue;
        }
        pt_fd_forget(t, (int)fd);
    }
}

void pt_fd_reset(void)
{
    for (uint32_t i = 0; i <= highest_leaf; i++)
        if (pt_fd_leaves[i])
            memset(pt_fd_leaves[i], 0, LEAF_BYTES);
}

static pt_fd_entry entry(uint32_t id, uint32_t kind)
{
    pt_fd_entry e = id | (pt_fd_entry)kind << 32;
    if (pt.left_out_kinds >> kind & 1)
        e |= PT_FD_EXCLUDED;
    return e;
}

static struct pt_desc *new_desc(struct pt_thread *t, int fd, uint32_t path)
{
    struct pt_desc *d = pt_heap_alloc_slow(sizeof *d);
    if (!d)
        return NULL;
    d->fd = fd;
    d->path = path;
    d->root = pt_id_of(d);
    d->process = t->process_id;
    return d;
}

/* Where only sums are kept, a file has one descriptor object however often it is
 * opened: what is kept must not grow with time. */
static uint64_t shared_desc(const struct pt_thread *t, uint32_t path)
{
    uint64_t key = (uint64_t)path << 32 | t->process_id;
    return pt_hash_bytes(&key, sizeof key, 0x4445534300000000ull);
}

uint32_t pt_fd_opened(struct pt_thread *t, int fd, uint32_t path, uint32_t flags, uint32_t record)
{
    bool shared = pt_profiling();
    uint32_t known = shared ? pt_intern_find(shared_desc(t, path)) : 0;
    if (known) {
        pt_fd_set(t, fd, entry(known, PT_DESC_UNKNOWN));
        return known;
    }
    struct pt_desc *d = new_desc(t, fd, path);
    if (!d) {
        pt_fd_forget(t, fd);
        return 0;
    }
    if (shared) {
        d->gap = PT_GAP_LOST;
        pt_intern_add(shared_desc(t, path), pt_id_of(d));
    }
    d->open_flags = flags;
    d->opened_by = record;
    pt_heap_publish(d, PT_HEAP_DESC);
    pt_fd_set(t, fd, entry(pt_id_of(d), PT_DESC_UNKNOWN));
    return pt_id_of(d);
}

static uint32_t duplicated(struct pt_thread *t, int old, int fd, uint32_t record)
{
    pt_fd_entry e = pt_fd_get(t, old);
    if (!e) {
        pt_fd_forget(t, fd);
        return 0;
    }
    const struct pt_desc *from = pt_entry_id(e) ? pt_at(pt_entry_id(e)) : NULL;
    if (from && pt_profiling()) {
        ((struct pt_desc *)pt_at(from->root))->gap = PT_GAP_LOST;
        pt_fd_set(t, fd, e);
        return pt_entry_id(e);
    }
    struct pt_desc *d = from ? new_desc(t, fd, from->path) : NULL;
    if (!d) {
        pt_fd_set(t, fd, e & PT_FD_EXCLUDED ? e : 0);
        return 0;
    }
    d->root = from->root;
    d->open_flags = from->open_flags;
    d->opened_by = record;
    /* Another thread may be finding out what it is (pt_fd_identify). */
    d->kind = __atomic_load_n(&from->kind, __ATOMIC_RELAXED);
    d->dev = __atomic_load_n(&from->dev, __ATOMIC_ACQUIRE);
    d->ino = __atomic_load_n(&from->ino, __ATOMIC_RELAXED);
    d->position = from->position;
    pt_heap_publish(d, PT_HEAP_DESC);
    pt_fd_set(t, fd, (e & ~(pt_fd_entry)UINT32_MAX) | pt_id_of(d));
    return pt_id_of(d);
}

uint32_t pt_fd_duplicated(struct pt_thread *t, int old, int fd, uint32_t record)
{
    uint32_t id = duplicated(t, old, fd, record);
    if (!t->borrowed_memory) {
        pt_profile_shared(old);
        pt_profile_shared(fd);
    }
    return id;
}

static uint32_t kind_of_file(const char *path)
{
    switch (path[0] == '/' ? path[1] : 0) { /* most differ in this already */
    case 'm':
        return strncmp(path, "/memfd:", 7) == 0 ? PT_DESC_ANON : PT_DESC_REGULAR;
    case 'p':
        return strncmp(path, "/proc/", 6) == 0 ? PT_DESC_PROC : PT_DESC_REGULAR;
    case 's':
        return strncmp(path, "/sys/", 5) == 0 ? PT_DESC_SYS : PT_DESC_REGULAR;
    default:
        return PT_DESC_REGULAR;
    }
}

static uint32_t kind_of(const struct stat *st, const char *path)
{
    switch (st->st_mode & S_IFMT) {
    case S_IFREG:
        return kind_of_file(path);
    case S_IFDIR:
        return PT_DESC_DIRECTORY;
    case S_IFIFO:
        return strncmp(path, "pipe:", 5) == 0 ? PT_DESC_PIPE : PT_DESC_FIFO;
    case S_IFSOCK:
        return PT_DESC_SOCKET;
    case S_IFCHR:
        if (strncmp(path, "/dev/pts/", 9) == 0 || strncmp(path, "/dev/tty", 8) == 0 || strcmp(path, "/dev/console") == 0)
            return PT_DESC_TERMINAL;
        return PT_DESC_DEVICE;
    case S_IFBLK:
        return PT_DESC_DEVICE;
    default:
        return PT_DESC_ANON; /* epoll, eventfd, ... */
    }
}

/* "/proc/self/fd/N" without stdio. */
static void fd_link_name(char *out, int fd)
{
    char digits[12];
    int n = 0;
    strcpy(out, "/proc/self/fd/");
    do
        digits[n++] = (char)('0' + fd % 10);
    while (fd /= 10);
    char *p = out + 14;
    while (n)
        *p++ = digits[--n];
    *p = 0;
}

static int raw_fstat(int fd, struct stat *st)
{
    int saved = errno; /* fstat is libc's: it may set errno */
    int r = fstat(fd, st);
    errno = saved;
    return r;
}

pt_fd_entry pt_fd_resolve_slow(struct pt_thread *t, int fd)
{
    struct stat st;
    char name[32], none[1] = "";
    pt_fd_entry known;
    if (t->borrowed_memory && pt_vfork_fd_get(t, fd, &known))
        return known;
    if (fd < 0 || !in_range(fd) || raw_fstat(fd, &st) != 0)
        return 0;
    fd_link_name(name, fd);
    char *page = pt_memory(PT_PAGE), *path = page ? page : none;
    long n = page ? pt_sys(SYS_readlinkat, AT_FDCWD, name, path, PT_PAGE - 1) : 0;
    uint32_t kind = kind_of(&st, path);
    pt_fd_entry e = entry(0, kind);
    if (!(e & PT_FD_EXCLUDED) && n > 0 && *path == '/') {
        uint32_t why = pt_select_path_slow(path, (size_t)n, 0);
        e = why ? pt_left_out_entry(why) : e;
    }
    if (!(e & PT_FD_EXCLUDED)) {
        struct pt_desc *d = new_desc(t, fd, n > 0 ? pt_string(path, (size_t)n, 0) : 0);
        if (d) {
            d->kind = kind;
            d->dev = st.st_dev;
            d->ino = st.st_ino;
            long flags = pt_sys(SYS_fcntl, fd, F_GETFL);
            d->open_flags = flags < 0 ? 0 : (uint32_t)flags;
            long position = pt_sys(SYS_lseek, fd, 0, SEEK_CUR);
            d->position = position < 0 ? -1 : position;
            d->gap = pt_profiling() ? PT_GAP_LOST : PT_GAP_NONE;
            pt_heap_publish(d, PT_HEAP_DESC);
            e = entry(pt_id_of(d), kind);
        }
    }
    e |= PT_FD_IDENTIFIED;
    pt_fd_set(t, fd, e);
    if (page)
        pt_memory_back(page, PT_PAGE);
    return e;
}

uint32_t pt_fd_path_slow(int fd)
{
    char name[32];
    fd_link_name(name, fd);
    char *page = pt_memory(PT_PAGE);
    if (!page)
        return 0;
    long n = pt_sys(SYS_readlinkat, AT_FDCWD, name, page, PT_PAGE - 1);
    uint32_t id = n > 0 ? pt_string(page, (size_t)n, 0) : 0;
    pt_memory_back(page, PT_PAGE);
    return id;
}

/* The program's own fstat tells the file's identity at no cost. */
void pt_fd_identify(int fd, const struct stat *st)
{
    pt_fd_entry e = pt_fd_peek(fd);
    if (!pt_entry_id(e) || (e & PT_FD_IDENTIFIED))
        return;
    if (pt_self && (pt_self->gate & PT_GATE_VFORK))
        return; /* the table is the parent's, the descriptors are not: the child may have put another file there */
    struct pt_desc *d = pt_at(pt_entry_id(e));
    uint32_t kind = kind_of(st, "/");
    __atomic_store_n(&d->ino, (uint64_t)st->st_ino, __ATOMIC_RELAXED); /* several threads may, all the same */
    __atomic_store_n(&d->kind, kind, __ATOMIC_RELAXED);
    __atomic_store_n(&d->dev, (uint64_t)st->st_dev, __ATOMIC_RELEASE);
    pt_fd_entry *leaf = __atomic_load_n(&pt_fd_leaves[(uint32_t)fd >> PT_FD_LEAF_BITS], __ATOMIC_ACQUIRE);
    pt_fd_entry known = entry(pt_entry_id(e), kind == PT_DESC_ANON ? PT_DESC_UNKNOWN : kind) |
                        PT_FD_IDENTIFIED | (e & (PT_FD_GAP | PT_FD_STALE));
    __atomic_compare_exchange_n(&leaf[(uint32_t)fd & (LEAF_ENTRIES - 1)], &e, known, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void pt_fd_identify_before_close(int fd)
{
    struct stat st;
    pt_fd_entry e = pt_fd_peek(fd);
    if (pt_entry_id(e) && !(e & PT_FD_IDENTIFIED) && raw_fstat(fd, &st) == 0)
        pt_fd_identify(fd, &st);
}

/* ---- positions that moved while nothing was recorded ------------------------------ */

static void lost(uint32_t id, uint32_t process)
{
    struct pt_desc *d = pt_at(id), *root = pt_at(d->root);
    /* Somebody else may go on from where it now is, and there is one note for each descriptor only. */
    uint32_t gap = d == root && d->process == process && !pt_ever_forked ? PT_GAP_RESUMED : PT_GAP_LOST;
    if (__atomic_load_n(&root->gap, __ATOMIC_RELAXED) < gap)
        __atomic_store_n(&root->gap, gap, __ATOMIC_RELAXED);
}

void pt_position_gap(struct pt_thread *t, int fd)
{
    pt_fd_entry e = pt_fd_peek(fd);
    if (!pt_entry_id(e) || (e & (PT_FD_EXCLUDED | PT_FD_GAP)))
        return;
    lost(pt_entry_id(e), t->process_id);
    if (t->borrowed_memory)
        return;
    pt_fd_entry *leaf = pt_fd_leaves[(uint32_t)fd >> PT_FD_LEAF_BITS];
    __atomic_compare_exchange_n(&leaf[(uint32_t)fd & (LEAF_ENTRIES - 1)], &e, e | PT_FD_GAP, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
}

/* After a call that was noted ahead: who found the position out meanwhile may have done so too early. */
void pt_position_gap_ended(struct pt_thread *t, int fd)
{
    pt_fd_entry e = pt_fd_peek(fd);
    if (!pt_entry_id(e) || (e & (PT_FD_EXCLUDED | PT_FD_GAP)))
        return;
    struct pt_desc *d = pt_at(pt_entry_id(e)), *root = pt_at(d->root);
    __atomic_store_n(&root->gap, PT_GAP_LOST, __ATOMIC_RELAXED);
    pt_position_gap(t, fd);
}

/* Another program that this process has started has ended.  It may have had any descriptor (close-on-exec is no sign: a
 * copy goes on the same description), and have moved its position unseen. */
void pt_positions_stale(void)
{
    for (uint32_t i = 0; i <= highest_leaf; i++) {
        pt_fd_entry *leaf = __atomic_load_n(&pt_fd_leaves[i], __ATOMIC_ACQUIRE);
        for (uint32_t n = 0; leaf && n < LEAF_ENTRIES; n++) {
            pt_fd_entry e = __atomic_load_n(&leaf[n], __ATOMIC_RELAXED);
            uint32_t kind = pt_entry_kind(e);
            if (pt_entry_id(e) && !(e & PT_FD_EXCLUDED) && (kind == PT_DESC_REGULAR || kind == PT_DESC_UNKNOWN))
                __atomic_compare_exchange_n(&leaf[n], &e, e | PT_FD_STALE, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        }
    }
}

/* The first call after a gap: where the position is now, once, from the kernel. */
PT_COLD void pt_position_found_slow(struct pt_thread *t, int fd, pt_fd_entry e)
{
    uint64_t now = pt_ticks(); /* before the look: what another thread moves from then on comes after it */
    long position = pt_sys(SYS_lseek, fd, 0, SEEK_CUR);
    struct pt_record *r = pt_claim(t);
    if (!r || t->borrowed_memory)
        return;
    r->op = PT_OP_RESUME;
    r->desc = pt_entry_id(e);
    r->aux = (uint32_t)fd;
    r->offset = position < 0 ? -1 : position;
    r->size = r->result = PT_NO_BYTES;
    r->begin = now;
    __atomic_store_n(&r->flags, PT_DONE, __ATOMIC_RELEASE);
    pt_fd_entry *leaf = pt_fd_leaves[(uint32_t)fd >> PT_FD_LEAF_BITS];
    __atomic_compare_exchange_n(&leaf[(uint32_t)fd & (LEAF_ENTRIES - 1)], &e, e & ~(PT_FD_GAP | PT_FD_STALE), false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
}
