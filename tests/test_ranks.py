"""Which rank a process is, as the environments of launchers say."""

from __future__ import annotations

import pytest

from pyio_trace.output import expand_pattern
from pyio_trace.values import rank_in

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
MPICH = {"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0"}
SRUN = {"SLURM_PROCID": "6", "SLURM_NTASKS": "16", "SLURM_LOCALID": "2"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        (TORCHRUN, (5, 1, 8)),
        (OPEN_MPI, (3, 1, 4)),
        (MPICH, (2, 0, 4)),
        (SRUN, (6, 2, 16)),
        ({"PMIX_RANK": "7"}, (7, None, None)),
        # PMIX under srun: the rest is srun's, if it means the same rank
        ({"PMIX_RANK": "6", **SRUN}, (6, 2, 16)),
        ({"PMIX_RANK": "0", **SRUN}, (0, None, None)),
        # the innermost launcher counts: torchrun on each node that srun or mpirun has given one task
        ({**SRUN, **TORCHRUN}, (5, 1, 8)),
        ({**OPEN_MPI, **TORCHRUN}, (5, 1, 8)),
        ({**SRUN, **OPEN_MPI}, (3, 1, 4)),
        # what is no rank
        ({"RANK": "5"}, None),
        ({"RANK": "8", "WORLD_SIZE": "8"}, None),
        ({"RANK": "first", "WORLD_SIZE": "8"}, None),
        ({"PMI_RANK": "-1", "PMI_SIZE": "4"}, None),
        ({"SLURM_PROCID": "9" * 5000}, None),
        ({"PMIX_RANK": str(1 << 31)}, None),
        ({"PMIX_RANK": ""}, None),
        ({"PMIX_RANK": "\u0663"}, None),  # a digit, but not one of a launcher's
    ],
)
def test_ranks(environ: dict[str, str], expected: tuple[int, int | None, int | None] | None) -> None:
    # GIVEN the environment that a launcher makes WHEN it is asked THEN this is the rank, and nobody else's number is
    assert rank_in(environ) == expected


def test_ranks_in_names_of_logs() -> None:
    # GIVEN a rank, and none WHEN a pattern asks for it THEN it has the number, or a word that says so
    assert expand_pattern("run-%r-%%r.parquet", "x.py", OPEN_MPI) == "run-3-%r.parquet"
    assert expand_pattern("run-%r.parquet", "x.py", {}) == "run-norank.parquet"
