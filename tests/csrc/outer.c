/* A library that loads another one late, by a name that only its own RUNPATH
 * ($ORIGIN/inner) can find: calling dlopen on its behalf breaks that. */
#include <dlfcn.h>
#include <stdio.h>

int through_inner(const char *path, int times)
{
    void *inner = dlopen("libinner.so", RTLD_NOW);
    if (!inner) {
        fprintf(stderr, "%s\n", dlerror());
        return __LINE__;
    }
    int (*plain_calls)(const char *, int) = (int (*)(const char *, int))dlsym(inner, "plain_calls");
    int result = plain_calls ? plain_calls(path, times) : __LINE__;
    return dlclose(inner) ? __LINE__ : result;
}
