"""A thread that is in a hook while tracing stops and starts again finds nothing of the earlier log (tests/csrc)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import pyio_trace
from tests.csrc_core.conftest import COMMON, CORE, ROOT, compile_
from tests.support.programs import clean_environment

pytestmark = [pytest.mark.slow, pytest.mark.once]  # builds the core


def test_ids_of_an_earlier_log(tmp_path: Path) -> None:
    # GIVEN a log, another one after it that is shorter, and in the table of descriptors an id of the first
    compiler = shutil.which("gcc") or pytest.skip("needs gcc")
    sources = [*sorted(CORE.rglob("*.c")), ROOT / "tests/csrc/earlier_log.c"]
    compile_([compiler, *COMMON, "-DPT_BUILDING_CORE", *map(str, sources)], tmp_path / "earlier_log")
    logs = [tmp_path / "first.pyio", tmp_path / "second.pyio"]
    # WHEN hooks look up that stale id, while the second log is open and after it is closed
    done = subprocess.run(
        [str(tmp_path / "earlier_log"), *map(str, logs)], env=clean_environment(), capture_output=True, text=True
    )
    # THEN nothing is touched, and both logs are whole
    assert (done.returncode, done.stderr) == (0, "")
    assert [pyio_trace.open(log).losses() for log in logs] == [{}, {}]
