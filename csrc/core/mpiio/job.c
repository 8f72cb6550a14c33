/* The rank of this process and the number of ranks, as the MPI library has them: the environment, which was looked at
 * at the start, may be another launcher's. */
#include "mpiio/mpiio.h"
#include "base/clock.h"
#include "log/process_table.h"

void pt_mpi_rank_found(uint64_t begun)
{
    int rank = -1, size = 0;
    if (!pt.process_id || pt.gate & PT_GATE_OFF || pt_mpi.query.Comm_rank(pt_mpi.world, &rank) != 0 ||
        pt_mpi.query.Comm_size(pt_mpi.world, &size) != 0 || rank < 0 || rank >= size)
        return;
    struct pt_process *p = pt.process;
    if (p->global_rank != (uint32_t)rank + 1)
        p->local_rank = 0;
    p->global_rank = (uint32_t)rank + 1;
    p->world_size = (uint32_t)size;
    p->init_begun = begun;
    p->init_ended = pt_ticks();
}
