/* What a child's environment says about its part in the run. */
#include "process/process.h"
#include "base/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

static const char library[] = "/libpyio_trace.so";

/* Do Python children with this environment join the run? */
bool pt_names_run(char *const *env)
{
    for (; env && *env; env++)
        if (strncmp(*env, "PYIO_TRACE_LOG=", 15) == 0)
            return true;
    return false;
}

/* Do all other children join too? */
bool pt_preloads_us(char *const *env)
{
    if (!pt_names_run(env))
        return false;
    for (; *env; env++)
        if (strncmp(*env, "LD_PRELOAD=", 11) == 0)
            return strstr(*env, library) != NULL;
    return false;
}

/* Where our library's path begins and ends in LD_PRELOAD; false: it is not there. */
static bool find_ours(const char *variable, const char **begin, const char **end)
{
    const char *found = strncmp(variable, "LD_PRELOAD=", 11) == 0 ? strstr(variable, library) : NULL;
    if (!found)
        return false;
    *begin = found;
    *end = found + sizeof library - 1;
    while (*begin > variable + 11 && !strchr(": ", (*begin)[-1]))
        --*begin;
    return true;
}

/* Can the loader open our library, with the rights and the root folder that this process has now? */
static bool is_there(const char *begin, const char *end)
{
    char path[PATH_MAX];
    if ((size_t)(end - begin) >= sizeof path)
        return true;
    memcpy(path, begin, (size_t)(end - begin));
    path[end - begin] = 0;
    long fd = pt_sys(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd >= 0)
        pt_sys(SYS_close, fd);
    return fd >= 0;
}

size_t pt_preload_is_lost(char *const *env, size_t *words)
{
    const char *begin, *end;
    size_t length = 0;
    *words = 0;
    for (char *const *at = env; at && *at; at++, ++*words)
        if (!length && find_ours(*at, &begin, &end) && !is_there(begin, end))
            length = strlen(*at) + 1;
    return length;
}

void pt_without_preload(char *const *env, char **copy, char *variable)
{
    const char *begin, *end;
    for (; *env; env++) {
        if (!variable || !find_ours(*env, &begin, &end)) {
            *copy++ = *env;
            continue;
        }
        if (*end)
            end++; /* the separator after it; else the one before it */
        else if (begin[-1] != '=')
            begin--;
        size_t before = (size_t)(begin - *env);
        memcpy(variable, *env, before);
        strcpy(variable + before, end);
        if (variable[11]) /* other libraries remain */
            *copy++ = variable;
        variable = NULL;
    }
    *copy = NULL;
}
