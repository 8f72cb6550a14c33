/* The environment of the finisher: what of the program's it gets, as it was when the run began.
 *
 * What the program sets later is for its children.  A PYTHONHOME or LD_LIBRARY_PATH of theirs could keep the finisher,
 * which runs this program's Python, from starting. */
#include "process/process.h"

#include <stdlib.h>
#include <string.h>

extern char **environ;

static bool begins_with_one_of(const char *variable, const char *const *words, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (strncmp(variable, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

/* A program that ignores its environment (-E, -I) may have been started by somebody with fewer rights.  Its finisher
 * gets only what the loader has already used, and variables for language, time and terminal.  Libraries that only the
 * finisher loads read more: OPENSSL_CONF names objects to load. */
static bool passes_to_isolated(const char *variable)
{
    static const char *const known[] = {"LD_",
                                        "LANG=",
                                        "LANGUAGE=",
                                        "LC_",
                                        "TZ=",
                                        "TERM=",
                                        "COLUMNS=",
                                        "LINES=",
                                        "NO_COLOR=",
                                        "OMP_NUM_THREADS=",
                                        "OPENBLAS_NUM_THREADS="};
    return begins_with_one_of(variable, known, sizeof known / sizeof *known);
}

/* Keeps where Python finds itself and how it encodes.  Other settings of the program's Python (interactive, warnings
 * as errors) are not for the finisher. */
static bool passes_to_finisher(const char *variable)
{
    static const char *const python[] = {
        "PYTHONPATH=", "PYTHONHOME=",       "PYTHONUSERBASE=",      "PYTHONNOUSERSITE=",
        "PYTHONUTF8=", "PYTHONIOENCODING=", "PYTHONCOERCECLOCALE=", "PYTHON_COLORS="};
    if (strncmp(variable, "PYIO_TRACE", 10) == 0)
        return false;
    if (strncmp(variable, "PYTHON", 6) != 0)
        return true;
    return begins_with_one_of(variable, python, sizeof python / sizeof *python);
}

/* Switches tracing off instead of unsetting it: a site's sitecustomize may switch it on for everyone, and finishers
 * would start finishers for ever. */
char **pt_finisher_environment(const char *const *argv)
{
    static char off[] = "PYIO_TRACE=0";
    bool isolated = argv[0] && argv[1] && strcmp(argv[1], "-I") == 0;
    size_t n = 0, count = 0;
    while (environ && environ[n])
        n++;
    char **kept = malloc((n + 2) * sizeof *kept);
    if (!kept)
        return NULL;
    kept[count++] = off;
    for (size_t i = 0; i < n; i++)
        if (isolated ? passes_to_isolated(environ[i]) : passes_to_finisher(environ[i])) {
            if (!(kept[count] = strdup(environ[i])))
                break; /* it starts without the rest */
            count++;
        }
    kept[count] = NULL;
    return kept;
}
