/* What a child's environment says about its part in the run. */
#include "process/process.h"

#include <string.h>

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
            return strstr(*env, "/libpyio_trace.so") != NULL;
    return false;
}
