/* Becomes a program without exec.
 *
 * exec makes a process one that sends SIGCHLD at its end, and that its parent's wait() finds.  The sampler of a program
 * that adopts orphans must be neither, so the forked child does what the kernel does in exec: it maps the program and
 * its loader, lays out the stack, gives back all other memory, and jumps to the loader.
 *
 * The child calls nothing that takes a lock, since other threads may have held any at the fork; and nothing of libc at
 * all once memory is given back, because that takes libc away. */
#include "process/program.h"

#include "base/memory.h"
#include "base/sys.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>

#define HEADERS_MOST 32u
#define NEAR_THE_THREAD (64u << 10) /* the kernel may write to the thread's own block: the area of rseq */
#define AUXILIARY_MOST 64u          /* types of the auxiliary vector */
#define KEPT 6u

/* Code that runs when nothing but its own library is mapped. */
#define ALONE __attribute__((noinline, no_sanitize_address, no_sanitize_undefined))

/* ---- mapping -------------------------------------------------------------------------- */

static bool failed(long result)
{
    return result < 0 && result > -4096;
}

static uintptr_t down(uintptr_t at)
{
    return at / pt_kernel_page() * pt_kernel_page();
}

static uintptr_t up(uintptr_t at)
{
    return down(at + pt_kernel_page() - 1);
}

static int map_segment(long fd, const Elf64_Phdr *h, uintptr_t base)
{
    int protection = (h->p_flags & PF_R ? PROT_READ : 0) | (h->p_flags & PF_W ? PROT_WRITE : 0) |
                     (h->p_flags & PF_X ? PROT_EXEC : 0);
    uintptr_t low = base + down(h->p_vaddr), filled = base + h->p_vaddr + h->p_filesz,
              end = base + h->p_vaddr + h->p_memsz;
    long at = 0;
    if (h->p_filesz)
        at = pt_sys(SYS_mmap, low, filled - low, protection, MAP_PRIVATE | MAP_FIXED, fd, down(h->p_offset));
    if (!failed(at) && h->p_memsz > h->p_filesz && up(end) > up(filled))
        at = pt_sys(SYS_mmap, up(filled), up(end) - up(filled), protection, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1,
                    0);
    if (failed(at))
        return (int)-at;
    if (h->p_memsz > h->p_filesz && (h->p_flags & PF_W))
        memset((void *)filled, 0, up(filled) - filled);
    return 0;
}

/* interpreter: gets the name of the program's loader, or stays empty. */
static int map_object(const char *path, struct pt_object *o, char *interpreter, size_t room)
{
    Elf64_Ehdr head;
    Elf64_Phdr headers[HEADERS_MOST];
    long fd = pt_sys(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return (int)-fd;
    long size = pt_sys(SYS_pread64, fd, &head, sizeof head, 0), all = 0;
    if (size != sizeof head || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_type != ET_DYN ||
        head.e_phnum > HEADERS_MOST || head.e_phentsize != sizeof *headers)
        return ENOEXEC;
    all = head.e_phnum * (long)sizeof *headers;
    if (pt_sys(SYS_pread64, fd, headers, all, head.e_phoff) != all)
        return ENOEXEC;
    uintptr_t end = 0;
    for (unsigned i = 0; i < head.e_phnum; i++) {
        const Elf64_Phdr *h = &headers[i];
        if (h->p_type == PT_LOAD && h->p_vaddr + h->p_memsz > end)
            end = h->p_vaddr + h->p_memsz;
        if (h->p_type == PT_INTERP && interpreter && h->p_filesz < room)
            pt_sys(SYS_pread64, fd, interpreter, h->p_filesz, h->p_offset);
    }
    long base = pt_sys(SYS_mmap, 0, up(end), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (failed(base))
        return (int)-base;
    *o = (struct pt_object){{(uintptr_t)base, (uintptr_t)base + up(end)},
                            (uintptr_t)base,
                            (uintptr_t)base + head.e_entry,
                            (uintptr_t)base + head.e_phoff,
                            head.e_phnum};
    int error = 0;
    for (unsigned i = 0; i < head.e_phnum && !error; i++)
        if (headers[i].p_type == PT_LOAD)
            error = map_segment(fd, &headers[i], o->base);
    pt_sys(SYS_close, fd);
    return error;
}

int pt_program_map(const char *path, struct pt_program *p)
{
    char loader[256] = "";
    int error = map_object(path, &p->program, loader, sizeof loader);
    if (!error && *loader)
        error = map_object(loader, &p->loader, NULL, 0);
    return error;
}

/* ---- the stack that a program starts with ------------------------------------------------ */

static bool is_copied(unsigned long type)
{
    switch (type) {
    case AT_PHDR:
    case AT_PHENT:
    case AT_PHNUM:
    case AT_BASE:
    case AT_ENTRY:
    case AT_RANDOM:
    case AT_PLATFORM: /* these three are addresses of texts that will not be there */
    case AT_EXECFN:
    case AT_BASE_PLATFORM: return false;
    default: return true;
    }
}

static char *put_text(char **top, const char *text)
{
    *top -= strlen(text) + 1;
    return strcpy(*top, text);
}

void pt_program_arguments(struct pt_program *p, const char *name, const char *argument)
{
    char *top = (char *)p->stack.high;
    uintptr_t words[16 + 2 * AUXILIARY_MOST];
    size_t n = 0;
    uintptr_t first = (uintptr_t)put_text(&top, name), second = (uintptr_t)put_text(&top, argument);
    top = (char *)((uintptr_t)(top - 16) / 16 * 16);
    pt_sys(SYS_getrandom, top, 16, 0);
    words[n++] = 2; /* argc */
    words[n++] = first;
    words[n++] = second;
    words[n++] = 0;
    words[n++] = 0; /* no environment */
    const uintptr_t ours[][2] = {{AT_PHDR, p->program.headers},       {AT_PHENT, sizeof(Elf64_Phdr)},
                                 {AT_PHNUM, p->program.header_count}, {AT_BASE, p->loader.base},
                                 {AT_ENTRY, p->program.entry},        {AT_RANDOM, (uintptr_t)top}};
    for (unsigned i = 0; i < sizeof ours / sizeof *ours; i++) {
        words[n++] = ours[i][0];
        words[n++] = ours[i][1];
    }
    for (unsigned long type = AT_PHDR; type < AUXILIARY_MOST; type++) {
        errno = 0;
        unsigned long value = is_copied(type) ? getauxval(type) : 0;
        if (is_copied(type) && (value || !errno)) {
            words[n++] = type;
            words[n++] = value;
        }
    }
    words[n++] = AT_NULL;
    words[n++] = 0;
    p->start = ((uintptr_t)top - n * sizeof *words) / 16 * 16;
    memcpy((void *)p->start, words, n * sizeof *words);
}

/* ---- giving back what was there before --------------------------------------------------- */

ALONE static void give_back(uintptr_t low, uintptr_t high, const struct pt_range *kept)
{
    for (uintptr_t at = low, end; at < high; at = end) {
        bool keep = false;
        end = high;
        for (unsigned i = 0; i < KEPT && !keep; i++) {
            if (kept[i].low <= at && at < kept[i].high) {
                keep = true;
                end = kept[i].high;
            } else if (kept[i].low > at && kept[i].low < end) {
                end = kept[i].low;
            }
        }
        if (!keep)
            pt_sys(SYS_munmap, at, end - at);
    }
}

/* Reads /proc/self/maps byte by byte: LOW-HIGH and the rest of a line.  The kernel's own ([vdso]) and the code that runs
 * now stay. */
ALONE static void give_back_all(long maps, const struct pt_range *kept)
{
    char text[4096], before = 0;
    uintptr_t value = 0, low = 0, high = 0, here = (uintptr_t)give_back_all;
    bool is_kernels = false;
    enum { LOW, HIGH, REST } part = LOW;
    for (long n; (n = pt_sys(SYS_read, maps, text, sizeof text)) > 0;) {
        for (long i = 0; i < n; i++) {
            char c = text[i];
            if (c == '\n') {
                if (!is_kernels && !(low <= here && here < high))
                    give_back(low, high, kept);
                part = LOW;
                value = 0;
                is_kernels = false;
            } else if (part == REST) {
                is_kernels |= before == '[' && c == 'v';
            } else if (c == '-' || c == ' ') {
                *(part == LOW ? &low : &high) = value;
                value = 0;
                part = part == LOW ? HIGH : REST;
            } else {
                value = value << 4 | (uintptr_t)(c <= '9' ? c - '0' : c - 'a' + 10);
            }
            before = c;
        }
    }
    pt_sys(SYS_close, maps);
}

ALONE static uintptr_t thread_pointer(void)
{
    uintptr_t at;
#if defined(__x86_64__)
    __asm__("mov %%fs:0, %0" : "=r"(at));
#else
    __asm__("mrs %0, tpidr_el0" : "=r"(at));
#endif
    return at;
}

ALONE static _Noreturn void jump(uintptr_t entry, uintptr_t stack)
{
#if defined(__x86_64__)
    __asm__ volatile("mov %1, %%rsp\n xor %%edx, %%edx\n xor %%ebp, %%ebp\n jmp *%0" ::"a"(entry), "c"(stack)
                     : "memory");
#else
    register uintptr_t x8 __asm__("x8") = entry;
    register uintptr_t x9 __asm__("x9") = stack;
    __asm__ volatile("mov sp, %1\n mov x0, xzr\n mov x29, xzr\n mov x30, xzr\n br %0" ::"r"(x8), "r"(x9) : "memory");
#endif
    __builtin_unreachable();
}

ALONE _Noreturn void pt_program_become(const struct pt_program *p, struct pt_range shared, uint32_t *word,
                                       uint32_t number)
{
    const uintptr_t thread = thread_pointer(), page = pt_kernel_page();
    struct pt_range kept[KEPT];
    kept[0] = p->stack;
    kept[1] = p->program.place;
    kept[2] = p->loader.place;
    kept[3] = shared;
    kept[4].low = (thread - NEAR_THE_THREAD) / page * page;
    kept[4].high = (thread + NEAR_THE_THREAD) / page * page;
    kept[5] = kept[0];
    uintptr_t entry = p->loader.entry ? p->loader.entry : p->program.entry, start = p->start;
    long maps = pt_sys(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    if (maps >= 0)
        give_back_all(maps, kept);
    __atomic_store_n(word, number, __ATOMIC_RELEASE);
    pt_sys(SYS_futex, word, PT_FUTEX_WAKE, 1, 0, 0, 0);
    pt_sys(SYS_munmap, shared.low, shared.high - shared.low);
    jump(entry, start);
}
