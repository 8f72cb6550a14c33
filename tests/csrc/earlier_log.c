/* Ids of an earlier log, which a thread brings along that was in a hook while tracing stopped and started again:
 * argv: two names for logs.  The core is part of this program, and does not trace itself: it is told of an open file. */
#include "demand.h"

#include "record/call.h"
#include "state/positions.h"

#include <fcntl.h>
#include <sys/stat.h>

#define OPENS 20000 /* so that the last id is far behind the end of the next log */

int main(int argc, char **argv)
{
    struct pt_options options = {.budget = 64 << 20, .create = true, .stacks = PT_STACKS_OFF};
    struct stat st;
    int fd = open("/", O_RDONLY | O_DIRECTORY);
    DEMAND(argc == 3 && fd >= 0 && fstat(fd, &st) == 0);

    options.path = argv[1];
    DEMAND(pt_start(&options) == 0);
    struct pt_thread *t = pt_enter();
    DEMAND(t);
    for (int n = 0; n < OPENS; n++)
        pt_fd_opened(t, fd, 0, 0, 0);
    pt_fd_entry earlier = pt_fd_peek(fd);
    DEMAND(pt_desc_at(pt_entry_id(earlier)));
    pt_stop();

    options.path = argv[2];
    DEMAND(pt_start(&options) == 0);
    DEMAND(pt_enter() == t && !pt_desc_at(pt_entry_id(earlier)));
    for (int stopped = 0; stopped < 2; stopped++) {
        if (stopped)
            pt_stop(); /* now nothing is mapped where the earlier log had it */
        pt_fd_set(t, fd, earlier);
        pt_fd_identify(fd, &st);
        pt_position_gap(t, fd);
        pt_position_gap_ended(t, fd);
        pt_fd_duplicated(t, fd, fd + 1, 0);
        DEMAND(!pt_entry_id(pt_fd_peek(fd + 1)));
    }
    return 0;
}
