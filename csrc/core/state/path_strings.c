/* Paths as the program spells them: made absolute, and judged by the filter when first met. */
#include "state/path_strings.h"
#include "base/hash.h"
#include "base/sys.h"
#include "log/ids.h"
#include "state/descriptors.h"
#include "state/filter.h"

#include <fcntl.h>
#include <string.h>

/* The string of a path, which the filter judges when it is first met. */
static struct pt_named name_of(const char *path, size_t length, uint32_t base)
{
    if (PT_UNLIKELY(length > PT_LONGEST_STRING))
        length = PT_LONGEST_STRING;
    uint64_t hash = pt_hash_bytes(path, length, 0x5054480000000000ull ^ base);
    struct pt_named name = pt_intern_find_named(hash);
    if (PT_LIKELY(name.id))
        return name;
    name.left_out = pt_select_path_slow(path, length, base);
    name.id = pt_string_of_path(path, length, base);
    if (name.id)
        pt_intern_add_named(hash, name);
    return name;
}

struct pt_named pt_name(const char *path)
{
    if (!path)
        return (struct pt_named){0, 0};
    return name_of(path, strlen(path), path[0] == '/' ? 0 : pt.cwd);
}

struct pt_named pt_name_at(int dirfd, const char *path)
{
    if (!path || path[0] == '/' || dirfd == AT_FDCWD)
        return pt_name(path);
    pt_fd_entry e = pt_fd_peek(dirfd);
    if (!e && pt_self)
        e = pt_fd_resolve_slow(pt_self, dirfd);
    if (PT_UNLIKELY(e & PT_FD_EXCLUDED)) {
        if (pt_entry_kind(e) == PT_LEFT_PATH &&
            pt_select_includes()) /* the folder is left out, but files in it may be included */
            return name_of(path, strlen(path), pt_fd_path_slow(dirfd));
        return (struct pt_named){0, pt_entry_kind(e)};
    }
    return name_of(path, strlen(path), pt_desc_path(pt_entry_id(e)));
}

void pt_cwd_refresh_slow(void)
{
    char here[4096];
    long n = pt_sys(SYS_getcwd, here, sizeof here);
    if (n > 1)
        pt.cwd = pt_string(here, (size_t)n - 1, 0);
}
