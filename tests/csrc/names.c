/* Compares the symbol lookup of csrc/core/patch/objects.c with dlsym.
 *
 * Prints the names for which they differ; then how many names were looked up without dlsym, and how many there are.
 *
 * The program has a function of its own for `creat`, and takes the address of `getpid`: not position-independent, it has
 * a stub of that name. */
#include <dlfcn.h>

static unsigned asked;
static void *counted_dlsym(void *handle, const char *name)
{
    asked++;
    return (dlsym)(handle, name);
}
#define dlsym(handle, name) counted_dlsym(handle, name)
#include "patch/objects.c"
#undef dlsym

#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

static const char *const words[] = {
#define HOOK(name, family) #name,
#define THROUGH(name, family, other) #name,
#include "hooks/hooks.def"
    "getpid",
    "memcpy",
    "no_such_function",
    "environ",
};

struct pt_hook *pt_hooks; /* for the rest of objects.c */
unsigned pt_hook_count;
struct pt_hook *pt_hook_find(const char *name)
{
    (void)name;
    return NULL;
}

int creat(const char *path, mode_t mode)
{
    (void)path, (void)mode;
    return -1;
}

pid_t (*volatile address)(void) = getpid;

int main(void)
{
    struct pt_scope scope;
    unsigned count = sizeof words / sizeof *words;
    pt_scope_read(&scope);
    asked = 0;
    for (unsigned i = 0; i < count; i++)
        if (pt_scope_symbol(&scope, words[i], pt_name_hash(words[i])) != dlsym(RTLD_DEFAULT, words[i]))
            printf("%s\n", words[i]);
    printf("%u %u\n", count - asked, count);
    return address() == 0;
}
