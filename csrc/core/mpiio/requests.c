/* Requests of nonblocking reads and writes, from the call to its completion: a table of fixed size, without a lock. */
#include "mpiio/mpiio.h"

#define PLACES 4096u
#define REACH 32u
#define BUSY UINT64_MAX
static PT_TABLE struct pending {
    uint64_t handle; /* atomic; 0: the place is free */
    struct pt_mpi_request request;
} pending[PLACES];
uint32_t pt_mpi_requests;

static struct pending *place(uint64_t handle, uint32_t i)
{
    return &pending[((uint32_t)(handle ^ handle >> 32) * 2654435761u / 64 + i) % PLACES];
}

uint64_t pt_mpi_request_at(const void *requests, int i)
{
    if (pt_mpi.request_size == 4)
        return ((const uint32_t *)requests)[i];
    return ((const uint64_t *)requests)[i];
}

static struct pending *find(uint64_t handle)
{
    for (uint32_t i = 0; i < REACH; i++)
        if (__atomic_load_n(&place(handle, i)->handle, __ATOMIC_ACQUIRE) == handle)
            return place(handle, i);
    return NULL;
}

bool pt_mpi_request_find(uint64_t handle, struct pt_mpi_request *found)
{
    struct pending *p = handle == pt_mpi.no_request ? NULL : find(handle);
    if (p)
        *found = p->request;
    return p != NULL;
}

bool pt_mpi_request_take(uint64_t handle, struct pt_mpi_request *found)
{
    struct pending *p = find(handle);
    if (!p)
        return false;
    *found = p->request;
    if (!__atomic_compare_exchange_n(&p->handle, &handle, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        return false;
    __atomic_fetch_sub(&pt_mpi_requests, 1, __ATOMIC_RELAXED);
    return true;
}

void pt_mpi_request_add(uint64_t handle, const struct pt_mpi_request *request)
{
    struct pt_mpi_request before;
    pt_mpi_request_take(handle, &before); /* its completion was not seen */
    for (uint32_t i = 0; i < REACH; i++) {
        struct pending *p = place(handle, i);
        uint64_t none = 0;
        if (!__atomic_compare_exchange_n(&p->handle, &none, BUSY, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        p->request = *request;
        __atomic_fetch_add(&pt_mpi_requests, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&p->handle, handle, __ATOMIC_RELEASE);
        return;
    }
}
