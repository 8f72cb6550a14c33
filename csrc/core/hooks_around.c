/* Hooks of the two ways around the slots that are patched: syscall() goes past
 * libc's functions, dlsym finds them without a slot. */
#include "hdf5.h"
#include "hooks.h"
#include "process.h"

#include <dlfcn.h>
#include <sched.h>
#include <string.h>

/* ---- system calls by number -------------------------------------------------------------- */

static bool moves_files(long number)
{
    static const short numbers[] = {SYS_openat, SYS_read, SYS_write, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev,
                                    SYS_preadv, SYS_pwritev, SYS_copy_file_range, SYS_renameat, SYS_renameat2,
                                    SYS_unlinkat, SYS_mkdirat, SYS_statx, SYS_ftruncate, SYS_fsync, SYS_fdatasync};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (number == numbers[i])
            return true;
    return false;
}

/* A process made by a bare system call, with memory of its own: no atfork handler has run in it. */
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

/* syscall() is not recorded as an operation; that it was used on files is. */
PT_HOOK_DECLARE(long, syscall, long, long, long, long, long, long, long);
long hook_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    struct pt_thread *t = pt_enter();
    uint32_t blind = number == SYS_io_uring_setup ? PT_BLIND_IO_URING : moves_files(number) ? PT_BLIND_SYSCALL : 0;
    if (t && blind && t->process_id)
        __atomic_fetch_or(&t->process->blind, blind, __ATOMIC_RELAXED);
    if (PT_UNLIKELY(forks(number, a)))
        pt_has_forked();
    long result = real_syscall(number, a, b, c, d, e, f);
    if (PT_UNLIKELY(result == 0 && forks(number, a)))
        pt_enter_forked_child();
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

/* A hooked name gets our function; anything else NULL: jump to the real one. */
void *pt_dlsym_answer(void *handle, const char *name)
{
    if ((pt.gate & PT_GATE_OFF))
        return NULL;
    pt_got_patch_new();
    struct pt_hook *h = handle != RTLD_NEXT && name ? pt_hook_find(name) : NULL;
    bool hdf5 = handle != RTLD_NEXT && name && pt_h5_named(name);
    if (!hdf5 && (!h || !h->address))
        return NULL;
    int saved = errno;
    void *found = real_dlsym(handle, name);
    errno = saved;
    if (hdf5)
        return pt_h5_for_symbol(name, found);
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
