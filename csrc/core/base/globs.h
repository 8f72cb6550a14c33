/* The patterns of names and paths in --include, --exclude, --redact and --path.
 *
 * Self-contained: tests/csrc/globs.c runs it alone.  pyio_trace/globs.py is the
 * same for the reader; tests/support/globs.json lists the answers that both must give. */
#ifndef PYIO_TRACE_GLOBS_H
#define PYIO_TRACE_GLOBS_H

#include <stdbool.h>
#include <stddef.h>

/* Does the whole text match?  `*` and `?` do not match a slash, `**` does, and
 * a component `**` matches no folder or several.  [abc], [a-z] and [!a-z] match
 * one character that is no slash; without its ], a [ is a plain character. */
bool pt_glob_matches(const char *pattern, const char *pattern_end, const char *text, const char *text_end);

/* Does a pattern match an absolute path, or a folder that the path is in?  A
 * pattern without a slash is compared with each name in the path. */
bool pt_glob_matches_path(const char *pattern, const char *pattern_end, const char *path, size_t length);

#endif
