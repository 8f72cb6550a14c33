"""What reads Darshan logs reads exported ones: PyDarshan's summary page and Drishti."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from tests.export.test_export_command import PROGRAM
from tests.support.programs import Runner, clean_environment, succeeded

pytestmark = [pytest.mark.slow, pytest.mark.once]


@pytest.fixture
def exported(program: Runner, tmp_path: Path) -> Path:
    path = tmp_path / "job.darshan"
    assert main(["export", str(succeeded(program.traced(PROGRAM)).path), "--to", "darshan", "-o", str(path)]) == 0
    return path


def run(*words: str, folder: Path) -> str:
    environment = clean_environment(COLUMNS="200", MPLCONFIGDIR=str(folder))
    done = subprocess.run(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_pydarshan_makes_its_page(exported: Path, tmp_path: Path) -> None:
    pytest.importorskip("darshan")
    said = run(sys.executable, "-m", "darshan", "summary", str(exported), folder=tmp_path)
    assert "Report generated successfully" in said
    page = (tmp_path / "job_report.html").read_text()
    assert "POSIX" in page and "Heat Map: HEATMAP POSIX" in page


def test_drishti_reads_it(exported: Path, tmp_path: Path) -> None:
    pytest.importorskip("drishti")
    said = run(str(Path(sys.executable).parent / "drishti"), str(exported), folder=tmp_path)
    assert "PROCESSES" in said and "use POSIX" in said
