/* Finds the distributions in a folder whose entry points contain a word.
 *
 * Each traced start searches for instruments of other packages (capture/instrumentation/instrument_registry.py).  It
 * may have to read hundreds of small files, and Python takes three times as long for that. */
#include "imports/distributions.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_ROOM 512
#define MOST (1u << 20) /* bytes of a file; entry points have some hundred */

struct content {
    char *bytes;
    size_t length, room;
};

/* A descriptor of a regular file; -1: there is none. Opening a device can have effects. */
static int open_regular(int folder, const char *path)
{
    struct stat status;
    if (fstatat(folder, path, &status, 0) != 0 || !S_ISREG(status.st_mode) || status.st_size > MOST)
        return -1;
    return openat(folder, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); /* a FIFO would block */
}

/* False if there is no such file, if it is too large, or if there is no memory for it. */
static bool read_whole(int folder, const char *path, struct content *c)
{
    int fd = open_regular(folder, path);
    ssize_t got = fd < 0 ? -1 : 1;
    for (c->length = 0; got > 0 && c->length <= MOST; c->length += got > 0 ? (size_t)got : 0) {
        if (c->room - c->length < 4096) {
            char *more = PyMem_Realloc(c->bytes, 2 * c->room + 8192);
            if (!more)
                break;
            c->bytes = more;
            c->room = 2 * c->room + 8192;
        }
        got = read(fd, c->bytes + c->length, c->room - c->length);
    }
    if (fd >= 0)
        close(fd);
    return got == 0;
}

/* Installers write .dist-info; Debian's packages, and `setup.py develop`, have .egg-info. */
static bool is_distribution(const char *name)
{
    static const char *const endings[] = {".dist-info", ".egg-info"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (length > strlen(endings[i]) && strcmp(name + length - strlen(endings[i]), endings[i]) == 0)
            return true;
    return false;
}

/* entry_points_that_mention(folder, word) -> the contents of the folder's entry_points.txt that contain the word, all
 * of them bytes.  Raises OSError if the folder cannot be read. */
PyObject *pt_entry_points_that_mention(PyObject *module, PyObject *args)
{
    const char *folder, *word;
    char path[NAME_ROOM];
    struct content c = {NULL, 0, 0};
    (void)module;
    if (!PyArg_ParseTuple(args, "yy:entry_points_that_mention", &folder, &word))
        return NULL;
    DIR *all = opendir(folder);
    if (!all)
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, folder);
    PyObject *found = PyList_New(0);
    for (struct dirent *d; found && (d = readdir(all));) {
        if (!is_distribution(d->d_name) ||
            snprintf(path, sizeof path, "%s/entry_points.txt", d->d_name) >= (int)sizeof path ||
            !read_whole(dirfd(all), path, &c) || !memmem(c.bytes, c.length, word, strlen(word)))
            continue;
        PyObject *content = PyBytes_FromStringAndSize(c.bytes, (Py_ssize_t)c.length);
        if (!content || PyList_Append(found, content) != 0)
            Py_CLEAR(found);
        Py_XDECREF(content);
    }
    closedir(all);
    PyMem_Free(c.bytes);
    return found;
}
