/* What csrc/core/base/globs.c answers: reads a line "pattern TAB path" at a time, prints 1 or 0 for each. */
#include "base/globs.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        char *tab = strchr(line, '\t'), *end = strchr(line, '\n');
        if (!tab || !end)
            return 1;
        puts(pt_glob_matches_path(line, tab, tab + 1, (size_t)(end - tab - 1)) ? "1" : "0");
    }
    return 0;
}
