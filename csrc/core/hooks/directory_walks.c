/* Hooks of libc's walks through directories: ftw, fts, glob.
 *
 * The calls beneath (opendir, readdir, stat) are libc's own and have no rows; these rows stand for them and have
 * their time.  Some walks change the working directory: relative names that the program uses meanwhile start there. */
#include "record/coalesced.h"
#include "hooks/hooks.h"

#include <ftw.h>
#include <glob.h>
#include <sys/stat.h>
#if defined(__GLIBC__)
#include <fts.h>
#endif

typedef int ftw_function(const char *, const struct stat *, int);
PT_HOOK_DECLARE(int, ftw, const char *, ftw_function *, int);
int hook_ftw(const char *path, ftw_function *visit, int descriptors)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_FTW, path, 0);
    return pt_end_int(&c, real_ftw(path, visit, descriptors));
}

/* nftw passes no data to its callback, so the thread holds the program's. */
typedef int nftw_function(const char *, const struct stat *, int, struct FTW *);
static PT_THREAD_LOCAL nftw_function *visiting;

static int visit_from_here(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    nftw_function *visit = visiting;
    pt_cwd_changed();
    int result = visit(path, st, kind, place);
    visiting = visit; /* a walk inside the walk used it meanwhile */
    return result;
}

PT_HOOK_DECLARE(int, nftw, const char *, nftw_function *, int, int);
int hook_nftw(const char *path, nftw_function *visit, int descriptors, int flags)
{
    struct pt_call c;
    bool moves = (flags & FTW_CHDIR) && visit && pt_enter();
    pt_begin_path(&c, PT_OP_FTW, path, (uint32_t)flags);
    if (moves)
        visiting = visit;
    int result = real_nftw(path, moves ? visit_from_here : visit, descriptors, flags);
    if (moves)
        pt_cwd_changed();
    return pt_end_int(&c, result);
}

/* GLOB_NOMATCH is no error. With GLOB_ALTDIRFUNC, glob reads through functions of the caller. */
PT_HOOK_DECLARE(int, glob, const char *, int, int (*)(const char *, int), glob_t *);
int hook_glob(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *found)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_GLOB, pattern, (uint32_t)flags);
    int result = real_glob(pattern, flags, failed, found);
    pt_end_error(&c, result == GLOB_NOSPACE ? ENOMEM : result == GLOB_ABORTED ? EIO : 0);
    return result;
}

#if defined(__GLIBC__)

PT_HOOK_DECLARE(FTS *, fts_open, char *const *, int, int (*)(const FTSENT **, const FTSENT **));
FTS *hook_fts_open(char *const *paths, int options, int (*compare)(const FTSENT **, const FTSENT **))
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_FTS_OPEN, paths ? paths[0] : NULL, (uint32_t)options);
    FTS *walk = real_fts_open(paths, options, compare);
    pt_end_int(&c, walk ? 0 : -1);
    return walk;
}

/* The current place of the walk, as a name relative to the working directory. */
static const char *place_of(const FTS *walk)
{
    const FTSENT *here = walk->fts_cur;
    if (!here)
        return NULL;
    if (here->fts_info == FTS_INIT) /* before the first step */
        return here->fts_link ? here->fts_link->fts_name : NULL;
    return here->fts_accpath;
}

/* One call an entry: a series, named for the place where it began. */
PT_HOOK_DECLARE(FTSENT *, fts_read, FTS *);
FTSENT *hook_fts_read(FTS *walk)
{
    struct pt_series_call c;
    pt_series_begin_path(&c, PT_OP_FTS_READ, walk, place_of(walk));
    FTSENT *entry = real_fts_read(walk);
    pt_series_end(&c, -1, entry && (entry->fts_info == FTS_ERR || entry->fts_info == FTS_DNR) ? entry->fts_errno : 0);
    if (!(walk->fts_options & FTS_NOCHDIR))
        pt_cwd_changed();
    return entry;
}

PT_HOOK_DECLARE(FTSENT *, fts_children, FTS *, int);
FTSENT *hook_fts_children(FTS *walk, int options)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_FTS_CHILDREN, place_of(walk), (uint32_t)options);
    FTSENT *children = real_fts_children(walk, options);
    pt_end_int(&c, 0); /* NULL may also mean an empty folder */
    return children;
}

/* Returns to the folder in which the walk began. */
PT_HOOK_DECLARE(int, fts_close, FTS *);
int hook_fts_close(FTS *walk)
{
    bool moves = !(walk->fts_options & FTS_NOCHDIR);
    int result = real_fts_close(walk);
    if (moves)
        pt_cwd_changed();
    return result;
}

#endif
