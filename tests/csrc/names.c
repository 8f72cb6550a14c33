/* Whether a name leads where dlsym says: csrc/core/objects.c against the loader.
 *
 * Prints the names for which it does not; then how many names were found without dlsym, and how many there are.
 *
 * The program has a function of its own for `creat`, and takes the address of `getpid`: not position-independent, it has
 * a stub of that name. */
#include "../../csrc/core/objects.c"

#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

static const char *const words[] = {
#define HOOK(name, family) #name,
#define THROUGH(name, family, other) #name,
#include "../../csrc/core/hooks.def"
    "getpid", "memcpy", "no_such_function", "environ",
};

struct pt_hook pt_hooks[1]; /* for the rest of objects.c */
const unsigned pt_hook_count = 0;
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
    unsigned found = 0, count = sizeof words / sizeof *words;
    pt_scope_read(&scope);
    for (unsigned i = 0; i < count; i++) {
        found += found_in(&scope, words[i]) != NULL;
        if (pt_scope_symbol(&scope, words[i]) != dlsym(RTLD_DEFAULT, words[i]))
            printf("%s\n", words[i]);
    }
    printf("%u %u\n", found, count);
    return address() == 0;
}
