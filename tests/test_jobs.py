"""Which job and node a process is in, as the environments of batch systems and launchers say."""

from __future__ import annotations

import pytest

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
