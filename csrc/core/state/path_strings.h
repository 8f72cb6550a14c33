/* Names of files as strings of the log, and whether operations on them are left out. */
#ifndef PYIO_TRACE_PATHS_H
#define PYIO_TRACE_PATHS_H

#include "log/intern.h"

PT_API struct pt_named pt_name(const char *path); /* a relative path starts at the working directory */
struct pt_named pt_name_at(int dirfd, const char *path);
PT_API struct pt_named pt_name_to_open(const char *path); /* for opening: the file behind /dev/stdin (fd_paths.c) */
struct pt_named pt_name_of_fd_path_slow(const char *path,
                                        struct pt_named name);    /* likewise, for a name that is left out */
uint32_t pt_name_behind_fd_path(const char *path, uint32_t name); /* likewise; name: what it is if it is no such path */
static inline uint32_t pt_path(const char *path)
{
    return pt_name(path).id;
}
static inline uint32_t pt_path_at(int dirfd, const char *path)
{
    return pt_name_at(dirfd, path).id;
}
void pt_cwd_refresh_slow(void);

#endif
