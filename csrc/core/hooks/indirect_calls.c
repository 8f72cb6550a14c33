/* Hooks of the two ways to bypass patched slots: syscall() bypasses libc's functions, dlsym finds them without a
 * slot. */
#include "hooks/hooks.h"
#include "patch/patch.h"
#include "process/process.h"

#include <dlfcn.h>
#include <sched.h>
#include <string.h>

/* ---- system calls by number -------------------------------------------------------------- */

static const short by_descriptor[] = {SYS_read,   SYS_write,    SYS_pread64, SYS_pwrite64,        SYS_readv,
                                      SYS_writev, SYS_preadv,   SYS_pwritev, SYS_copy_file_range, SYS_ftruncate,
                                      SYS_fsync,  SYS_fdatasync};
static const short by_path[] = {SYS_openat, SYS_renameat, SYS_renameat2, SYS_unlinkat, SYS_mkdirat, SYS_statx};

static bool is_among(long number, const short *numbers, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (number == numbers[i])
            return true;
    return false;
}

/* Is it a call on a file?  Calls on what is left out by kind or path are not: some interpreters read /proc so before
 * they run any code. */
static bool uses_files(long number, long first)
{
    if (is_among(number, by_path, sizeof by_path / sizeof *by_path))
        return true;
    return is_among(number, by_descriptor, sizeof by_descriptor / sizeof *by_descriptor) &&
           !pt_fd_is_left_out_slow((int)first);
}

static uint32_t blind_spot(const struct pt_process *p, long number, long first)
{
    if (number == SYS_io_uring_setup)
        return PT_BLIND_IO_URING;
    if (__atomic_load_n(&p->blind, __ATOMIC_RELAXED) & PT_BLIND_SYSCALL)
        return 0; /* noted already */
    return uses_files(number, first) ? PT_BLIND_SYSCALL : 0;
}

/* Does this system call create a process with its own memory? No atfork handler runs in such a child. */
static bool forks(long number, long a)
{
    uint64_t flags = 0;
    if (number == SYS_clone)
        flags = (uint64_t)a;
    else if (number == SYS_clone3 && a)
        memcpy(&flags, (const void *)a, sizeof flags);
#if defined(SYS_fork)
    else if (number == SYS_fork)
        return true;
#endif
    else
        return false;
    return !(flags & CLONE_VM);
}

/* syscall() is no recorded operation, but its use on files is noted. */
PT_HOOK_DECLARE(long, syscall, long, long, long, long, long, long, long);
long hook_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    struct pt_thread *t = pt_enter();
    uint32_t blind = t && t->process_id ? blind_spot(t->process, number, a) : 0;
    if (blind)
        __atomic_fetch_or(&t->process->blind, blind, __ATOMIC_RELAXED);
    bool forking = forks(number, a);
    if (PT_UNLIKELY(forking))
        pt_has_forked();
    long result = real_syscall(number, a, b, c, d, e, f);
    if (PT_UNLIKELY(forking && result == 0))
        pt_enter_forked_child(false);
    else if (PT_UNLIKELY(forking && result > 0))
        pt_forked((uint32_t)result, 0, false);
    return result;
}

/* ---- the loader ------------------------------------------------------------------------
 *
 * What was loaded is patched when a symbol of it is first asked for, which is
 * before its first use.  dlsym searches on behalf of its caller (RTLD_NEXT),
 * known by the return address: so it is jumped to, never called. */

void *(*real_dlsym)(void *, const char *);
void hook_dlsym(void);
void *pt_dlsym_answer(void *handle, const char *name);

/* Returns our function for a hooked name; NULL for anything else: the caller jumps to the real dlsym. */
void *pt_dlsym_answer(void *handle, const char *name)
{
    if ((pt.gate & PT_GATE_OFF))
        return NULL;
    pt_got_patch_new();
    struct pt_hook *h = handle != RTLD_NEXT && name ? pt_hook_find(name) : NULL;
    bool library = handle != RTLD_NEXT && name && pt_library_has_name(name);
    if (!library && (!h || !h->address))
        return NULL;
    int saved = errno;
    void *found = real_dlsym(handle, name);
    errno = saved;
    if (library)
        return pt_library_for_symbol(name, found);
    return found && (found == h->address || found == *h->original) ? h->function : NULL;
}

#if defined(__x86_64__)
__asm__(".text\n.hidden real_dlsym\n.hidden pt_dlsym_answer\n.hidden hook_dlsym\n"
        ".globl hook_dlsym\n.type hook_dlsym,@function\nhook_dlsym:\n  endbr64\n"
        "  pushq %rdi\n  pushq %rsi\n  subq $8, %rsp\n  call pt_dlsym_answer\n  addq $8, %rsp\n"
        "  popq %rsi\n  popq %rdi\n  testq %rax, %rax\n  jne 1f\n  jmp *real_dlsym(%rip)\n1: ret\n"
        ".size hook_dlsym,.-hook_dlsym\n");
#else
__asm__(".text\n.hidden real_dlsym\n.hidden pt_dlsym_answer\n.hidden hook_dlsym\n"
        ".globl hook_dlsym\n.type hook_dlsym,%function\nhook_dlsym:\n"
        "  stp x29, x30, [sp, #-32]!\n  stp x0, x1, [sp, #16]\n  bl pt_dlsym_answer\n  mov x16, x0\n"
        "  ldp x0, x1, [sp, #16]\n  ldp x29, x30, [sp], #32\n  cbz x16, 1f\n  mov x0, x16\n  ret\n"
        "1: adrp x16, real_dlsym\n  ldr x16, [x16, #:lo12:real_dlsym]\n  br x16\n");
#endif
