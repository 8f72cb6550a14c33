/* The live log, which the core has left open for the sampler.
 *
 * The processes of a run lock the log; the sampler does not.  So a sampler that has not ended yet keeps nobody from
 * writing a new log under the same name. */
#include "sampler.h"

#include "log/chunks.h"
#include "log/file_inner.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool sampler_open_log(int fd)
{
    struct pt_header head;
    struct stat st;
    char link[32];
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022 ||
        pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head || memcmp(head.magic, PT_LOG_MAGIC, 8) != 0 ||
        head.version != PT_LOG_VERSION || head.budget < PT_FIRST_CHUNK + PT_PROCESS_CHUNK ||
        (uint64_t)st.st_size < head.budget || pt_file_map(fd, head.budget) != 0)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, pt.path, sizeof pt.path - 1); /* log/blocks.c may need its name */
    pt.path[n > 0 ? n : 0] = 0;
    close(fd);
    pt_file_identify(&st);
    pt.mode = head.mode;
    pt.gate = 0;
    return pt_log_read_control(&head);
}
