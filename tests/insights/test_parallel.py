"""`insights --jobs` and `--scheduler`: the same findings as from one process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from tests.support.busy_run import busy_logs, cluster_of_two

pytestmark = pytest.mark.once


@pytest.mark.slow
def test_the_same_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN a run of two processes, live and packed, with many findings
    logs = busy_logs(tmp_path)
    found = {}
    with cluster_of_two() as cluster:
        for kind, log in logs.items():
            # WHEN the log is read by one process, by two, and by a Dask cluster
            printed = []
            for how in ([], ["--jobs", "2"], ["--scheduler", cluster]):
                assert main(["insights", str(log), "--format", "json", *how]) == 0
                printed.append(json.loads(capsys.readouterr().out))
            # THEN the findings are the same
            assert printed[1] == printed[0] and printed[2] == printed[0]
            # AND so are those of a selection
            chosen = []
            for how in ([], ["--jobs", "2"]):
                assert main(["insights", str(log), "--op", "pread*", "--format", "json", *how]) == 0
                chosen.append(capsys.readouterr().out)
            assert chosen[0] == chosen[1] and "random-reads" in chosen[0]
            found[kind] = [{**one, "log": ""} for one in printed[0]]
    assert {"missing-paths", "random-reads", "sync-per-write"} <= {one["slug"] for one in found["live"]}
    assert found["packed"] == found["live"]
