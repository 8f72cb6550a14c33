"""Which job and node a process is in, as the environments of batch systems and launchers say."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pyio_trace.capture.runtime.job_run import job_run
from pyio_trace.values import job_in, node_in

SLURM = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURMD_NODENAME": "n017"}
NONE = {"node": "", "job": "", "step": ""}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {}),
        (SLURM, {"node": "n017", "job": "4711", "step": "0"}),
        ({"PBS_JOBID": "12[3].pbs01", "PALS_APID": "a-9"}, {"job": "12[3].pbs01", "step": "a-9"}),
        ({"LSB_JOBID": "88"}, {"job": "88"}),
        ({"FLUX_JOB_ID": "ƒ2Yx"}, {"job": "_2Yx"}),
        # a launcher's id is the job where there is no batch system, and the step where there is
        ({"TORCHELASTIC_RUN_ID": "exp7"}, {"job": "exp7"}),
        ({"TORCHELASTIC_RUN_ID": "exp7", "SLURM_JOB_ID": "4711"}, {"job": "4711", "step": "exp7"}),
        ({**SLURM, "TORCHELASTIC_RUN_ID": "exp7"}, {"node": "n017", "job": "4711", "step": "0"}),
        ({"RAY_JOB_ID": "02000000"}, {"job": "02000000"}),
        # what is none
        ({"TORCHELASTIC_RUN_ID": "none"}, {}),
        ({"SLURM_JOB_ID": "", "JOB_ID": "5"}, {"job": "5"}),
        # what nobody should print
        ({"SLURM_JOB_ID": "1\x1b[31m\n2 \udcff"}, {"job": "1_[31m_2__"}),
        ({"SLURM_JOB_ID": "9" * 100_000}, {"job": "9" * 100}),
    ],
)
def test_jobs(environ: dict[str, str], expected: dict[str, str]) -> None:
    # GIVEN the environment that a batch system makes WHEN it is asked THEN this is the job
    assert job_in(environ) == NONE | expected


def test_the_node_is_the_host_if_nobody_calls_it_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    named = type("Name", (), {"nodename": "login1.cluster.example"})
    monkeypatch.setattr("os.uname", lambda: named)
    assert (node_in({}), node_in(SLURM)) == ("login1", "n017")


RANK = {"PMIX_RANK": "0", "PMI_RANK": "0", "PMI_SIZE": "4"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ""),
        (SLURM, "4711.0"),
        ({"SLURM_JOB_ID": "4711"}, "4711"),
        # the innermost launcher tells two launches of one batch job apart
        ({**SLURM, **RANK, "PMIX_NAMESPACE": "prterun-n17-88@1"}, "prterun-n17-88@1"),
        ({**SLURM, **RANK, "I_MPI_HYDRA_UUID": "9d260000-7c26"}, "9d260000-7c26"),
        ({"RANK": "1", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "exp7", **SLURM}, "exp7"),
        ({"RANK": "1", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}, ""),
        # not a rank: what a user has exported, or a daemon's
        ({"PMIX_NAMESPACE": "x", "JOB_ID": "5"}, "5"),
        # what nobody should print
        ({**RANK, "PMIX_NAMESPACE": "1\n2\x1b" + "9" * 100_000}, "1_2_" + "9" * 96),
    ],
)
def test_runs(environ: dict[str, str], expected: str) -> None:
    # GIVEN what launchers put into the environment THEN this is the run, the same for all ranks
    assert job_run(environ, os.getpid()) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["/opt/bin/hydra_pmi_proxy", "--control-port", "n17:4000", "--pgid", "0"], "n17:4000"),
        (["hydra_pmi_proxy", "--control-port"], ""),
        (["another", "--control-port", "n17:4000"], ""),
        (["hydra_pmi_proxy", "--control-port", "\x1b[31m" + "9" * 1000], "_[31m" + "9" * 95),
    ],
)
def test_the_port_of_mpiexec(words: list[str], expected: str) -> None:
    # GIVEN a rank whose launcher has started it by way of another process
    script = "sh -c 'echo $$; read _; :'; :"
    command = [words[0], "-c", script, "sh", *words[1:]]
    with subprocess.Popen(command, executable="/bin/sh", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as proxy:
        try:
            # WHEN it is asked THEN the launcher's port is the run, and of ranks alone
            assert job_run({"PMI_FD": "7"}, int(proxy.stdout.readline())) == expected  # type: ignore[union-attr]
            assert job_run({}, proxy.pid) == ""
        finally:
            proxy.communicate(b"\n")


def test_a_launcher_that_is_gone_or_out_of_sight() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    for process in (gone.pid, 0, 1, 1 << 40):
        assert job_run({"PMI_FD": "7"}, process) == ""
