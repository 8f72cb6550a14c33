"""What the tests of the capture share: the installed package, and data to read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pyio_trace.log import layout
from tests.support.programs import clean_environment


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    """The capture is tested as installed in this interpreter; the source tree has no compiled core.

    Its logs are read here, by the package that pytest has imported, so both must speak of the same layout.
    """
    code = "from pyio_trace import native; from pyio_trace.log import layout; print(native.reason or layout.__file__)"
    words = [sys.executable, "-c", code]
    told = subprocess.run(words, cwd="/", env=clean_environment(), capture_output=True, text=True)
    theirs = Path(told.stdout.strip())
    if told.returncode or not theirs.is_file():
        pytest.exit(f"install the package first (pip install .): {told.stdout}{told.stderr}", returncode=2)
    if theirs.read_bytes() != Path(layout.__file__).read_bytes():
        pytest.exit(f"{theirs} is not of this source tree: install the package again (pip install .)", returncode=2)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file of 1000 blocks of 4096 bytes."""
    path = tmp_path / "data.bin"
    path.write_bytes(b"".join(bytes([n % 251]) * 4096 for n in range(1000)))
    return path
