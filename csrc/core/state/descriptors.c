/* The descriptor table: what each descriptor of this process is.
 *
 * It grows with the descriptors: leaves of 4096 entries, mapped when first needed.  fork copies it with the rest of
 * memory; it follows dup.  A descriptor that was not seen to open is looked up once, through /proc/self/fd.  An entry
 * points to a pt_desc in the log, which names the open file description ("root") that dup and fork share. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/sys.h"
#include "log/chunks.h"
#include "log/ids.h"
#include "log/intern.h"
#include "patch/patch.h"
#include "state/filter.h"
#include "state/positions.h"
#include "state/summed_descriptors.h"
#include "state/threads.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <errno.h>

PT_TABLE pt_fd_entry *pt_fd_leaves[1u << PT_FD_TOP_BITS];
static uint32_t highest; /* atomic: the highest descriptor that has had an entry; walks end there */

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
    if (__atomic_compare_exchange_n(top, &leaf, fresh, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
        return fresh;
    pt_memory_back(fresh, LEAF_BYTES);
    return leaf;
}

static bool in_range(int fd)
{
    return (uint32_t)fd < (1u << (PT_FD_LEAF_BITS + PT_FD_TOP_BITS));
}

static void note_highest(uint32_t fd)
{
    uint32_t seen = __atomic_load_n(&highest, __ATOMIC_RELAXED);
    while (fd > seen && !__atomic_compare_exchange_n(&highest, &seen, fd, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

pt_fd_entry *pt_fd_next_place(uint32_t *fd)
{
    uint32_t last = __atomic_load_n(&highest, __ATOMIC_RELAXED);
    for (; *fd <= last; *fd = (*fd | (LEAF_ENTRIES - 1)) + 1) { /* past a leaf that does not exist */
        pt_fd_entry *leaf = __atomic_load_n(&pt_fd_leaves[*fd >> PT_FD_LEAF_BITS], __ATOMIC_ACQUIRE);
        if (leaf)
            return &leaf[*fd & (LEAF_ENTRIES - 1)];
    }
    return NULL;
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
        pt_position_new(fd);
    pt_fd_entry *leaf = leaf_slow(fd);
    if (!leaf)
        return;
    note_highest((uint32_t)fd);
    /* Release: whoever reads the entry reads the pt_desc next. */
    __atomic_store_n(&leaf[(uint32_t)fd & (LEAF_ENTRIES - 1)], e, __ATOMIC_RELEASE);
}

void pt_fd_replace(int fd, pt_fd_entry seen, pt_fd_entry by)
{
    pt_fd_entry *leaf = __atomic_load_n(&pt_fd_leaves[(uint32_t)fd >> PT_FD_LEAF_BITS], __ATOMIC_ACQUIRE);
    __atomic_compare_exchange_n(&leaf[(uint32_t)fd & (LEAF_ENTRIES - 1)], &seen, by, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
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
    for (uint32_t fd = first; pt_fd_next_place(&fd) && fd <= last; fd++)
        pt_fd_forget(t, (int)fd);
}

void pt_fd_reset(void)
{
    pt_fd_entry *at;
    for (uint32_t fd = 0; (at = pt_fd_next_place(&fd)); fd++)
        __atomic_store_n(at, 0, __ATOMIC_RELAXED);
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

uint32_t pt_fd_opened(struct pt_thread *t, int fd, uint32_t path, uint32_t flags, uint32_t record)
{
    uint32_t known = pt_profiling() ? pt_summed_desc(t, path, flags) : 0;
    if (known) {
        pt_fd_set(t, fd, entry(known, PT_DESC_UNKNOWN));
        return known;
    }
    struct pt_desc *d = new_desc(t, fd, path);
    if (!d) {
        pt_fd_forget(t, fd);
        return 0;
    }
    d->open_flags = flags;
    d->opened_by = record;
    if (pt_profiling())
        pt_summed_desc_keep(t, d);
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
    const struct pt_desc *from = pt_desc_at(pt_entry_id(e));
    if (from && pt_profiling()) {
        struct pt_desc *root = pt_desc_root(from);
        if (root && root->gap < PT_GAP_LOST)
            root->gap = PT_GAP_LOST;
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
    /* Another thread may be identifying it (pt_fd_identify). */
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
    pt_got_look(pt_ticks());
    uint32_t id = duplicated(t, old, fd, record);
    if (!t->borrowed_memory) {
        pt_position_shared(old);
        pt_position_shared(fd);
    }
    return id;
}

static uint32_t kind_of_file(const char *path)
{
    switch (path[0] == '/' ? path[1] : 0) { /* most paths are decided by this character */
    case 'm': return strncmp(path, "/memfd:", 7) == 0 ? PT_DESC_ANON : PT_DESC_REGULAR;
    case 'p': return strncmp(path, "/proc/", 6) == 0 ? PT_DESC_PROC : PT_DESC_REGULAR;
    case 's': return strncmp(path, "/sys/", 5) == 0 ? PT_DESC_SYS : PT_DESC_REGULAR;
    default: return PT_DESC_REGULAR;
    }
}

static uint32_t kind_of(const struct stat *st, const char *path)
{
    switch (st->st_mode & S_IFMT) {
    case S_IFREG: return kind_of_file(path);
    case S_IFDIR: return PT_DESC_DIRECTORY;
    case S_IFIFO: return strncmp(path, "pipe:", 5) == 0 ? PT_DESC_PIPE : PT_DESC_FIFO;
    case S_IFSOCK: return PT_DESC_SOCKET;
    case S_IFCHR:
        if (strncmp(path, "/dev/pts/", 9) == 0 || strncmp(path, "/dev/tty", 8) == 0 ||
            strcmp(path, "/dev/console") == 0)
            return PT_DESC_TERMINAL;
        return PT_DESC_DEVICE;
    case S_IFBLK: return PT_DESC_DEVICE;
    default: return PT_DESC_ANON; /* epoll, eventfd, ... */
    }
}

/* "/proc/self/fd/N" without stdio. */
static void fd_link_name(char *out, int fd)
{
    char digits[12], *p = out + 14;
    int n = 0;
    strcpy(out, "/proc/self/fd/");
    do
        digits[n++] = (char)('0' + fd % 10);
    while (fd /= 10);
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

/* ---- descriptors that were not seen to open ------------------------------------
 *
 * A descriptor may have been inherited over exec, opened before the start, or
 * by a call that no hook sees.  The kernel is asked about it once:
 *   1. fstat tells its kind, and whether it is open at all;
 *   2. its link in /proc/self/fd tells its path;
 *   3. the filter judges kind and path;
 *   4. if it is recorded, it gets a pt_desc with its flags and its position.
 * The entry is flagged PT_FD_IDENTIFIED, so nobody asks again.  Two threads may
 * do this at once: each writes a pt_desc, the later entry stays, both are right. */

struct link_text {
    char *page; /* NULL: no memory, and no path */
    long length;
};

static struct link_text read_link(int fd)
{
    char name[32];
    fd_link_name(name, fd);
    struct link_text link = {.page = pt_memory(PT_PAGE)};
    if (link.page)
        link.length = pt_sys(SYS_readlinkat, AT_FDCWD, name, link.page, PT_PAGE - 1);
    return link;
}

static uint32_t path_of_link(const struct link_text *link)
{
    return link->length > 0 ? pt_location(link->page, (size_t)link->length, 0) : 0;
}

static void drop_link(struct link_text *link)
{
    if (link->page)
        pt_memory_back(link->page, PT_PAGE);
}

/* The entry of what is left out, by its kind or its path; 0: it is recorded. */
static pt_fd_entry entry_if_left_out(uint32_t kind, const struct link_text *link)
{
    if (pt.left_out_kinds >> kind & 1)
        return entry(0, kind);
    uint32_t why =
        link->length > 0 && *link->page == '/' ? pt_select_path_slow(link->page, (size_t)link->length, 0) : 0;
    return why ? pt_left_out_entry(why) : 0;
}

static pt_fd_entry describe(struct pt_thread *t, int fd, const struct stat *st, uint32_t kind, uint32_t path)
{
    struct pt_desc *d = new_desc(t, fd, path);
    if (!d)
        return entry(0, kind);
    d->kind = kind;
    d->dev = st->st_dev;
    d->ino = st->st_ino;
    long flags = pt_sys(SYS_fcntl, fd, F_GETFL), position = pt_sys(SYS_lseek, fd, 0, SEEK_CUR);
    d->open_flags = flags < 0 ? 0 : (uint32_t)flags;
    d->position = position < 0 ? -1 : position;
    d->gap = pt_profiling() ? PT_GAP_LOST : PT_GAP_NONE;
    pt_heap_publish(d, PT_HEAP_DESC);
    return entry(pt_id_of(d), kind);
}

pt_fd_entry pt_fd_resolve_slow(struct pt_thread *t, int fd)
{
    struct stat st;
    pt_fd_entry known;
    if (t->borrowed_memory && pt_vfork_fd_get(t, fd, &known))
        return known;
    if (fd < 0 || !in_range(fd) || raw_fstat(fd, &st) != 0)
        return 0;
    struct link_text link = read_link(fd);
    uint32_t kind = kind_of(&st, link.page ? link.page : "");
    pt_fd_entry e = entry_if_left_out(kind, &link);
    if (!e)
        e = describe(t, fd, &st, kind, path_of_link(&link));
    e |= PT_FD_IDENTIFIED;
    pt_fd_set(t, fd, e);
    drop_link(&link);
    return e;
}

bool pt_fd_is_left_out_slow(int fd)
{
    struct stat st;
    if (raw_fstat(fd, &st) != 0)
        return true; /* the call on it will fail */
    struct link_text link = read_link(fd);
    bool left_out = entry_if_left_out(kind_of(&st, link.page ? link.page : ""), &link) != 0;
    drop_link(&link);
    return left_out;
}

uint32_t pt_fd_path_slow(int fd)
{
    struct link_text link = read_link(fd);
    uint32_t path = path_of_link(&link);
    drop_link(&link);
    return path;
}

/* Takes the file's identity from the program's own fstat, at no cost. */
void pt_fd_identify(int fd, const struct stat *st)
{
    pt_fd_entry e = pt_fd_peek(fd);
    if (!pt_entry_id(e) || (e & PT_FD_IDENTIFIED))
        return;
    if (pt_self && (pt_self->gate & PT_GATE_VFORK))
        return; /* the table is the parent's; the child may have another file under this number */
    struct pt_desc *d = pt_desc_at(pt_entry_id(e));
    if (!d)
        return;
    uint32_t kind = kind_of(st, "/");
    __atomic_store_n(&d->ino, (uint64_t)st->st_ino, __ATOMIC_RELAXED); /* several threads may store the same */
    __atomic_store_n(&d->kind, kind, __ATOMIC_RELAXED);
    __atomic_store_n(&d->dev, (uint64_t)st->st_dev, __ATOMIC_RELEASE);
    pt_fd_entry known = entry(pt_entry_id(e), kind == PT_DESC_ANON ? PT_DESC_UNKNOWN : kind) | PT_FD_IDENTIFIED |
                        (e & (PT_FD_GAP | PT_FD_STALE));
    pt_fd_replace(fd, e, known);
}

void pt_fd_identify_before_close(int fd)
{
    struct stat st;
    pt_fd_entry e = pt_fd_peek(fd);
    if (!pt_entry_id(e) || (e & PT_FD_IDENTIFIED))
        return;
    pt_got_look(pt_ticks());
    if (raw_fstat(fd, &st) == 0)
        pt_fd_identify(fd, &st);
}

#define MOST_AT_END 4096u /* of one process: each costs a system call */

/* Those that the process leaves to the kernel to close. */
void pt_fd_identify_open_ones(void)
{
    pt_fd_entry *at;
    uint32_t looked = 0;
    for (uint32_t fd = 0; looked < MOST_AT_END && (at = pt_fd_next_place(&fd)); fd++) {
        pt_fd_entry e = __atomic_load_n(at, __ATOMIC_RELAXED);
        if (!pt_entry_id(e) || (e & PT_FD_IDENTIFIED))
            continue;
        looked++;
        pt_fd_identify_before_close((int)fd);
    }
}
