"""A folder mounted a second time by unmappable.py, as a file system with a fault, for as long as a test needs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

SERVER = Path(__file__).with_name("unmappable.py")


@contextmanager
def mirror(folder: Path, *fault: str) -> Iterator[Path]:
    """The place in `folder` where it is mounted; skips the test where nothing can be."""
    can = subprocess.run([sys.executable, "-c", "import mfusepy"], capture_output=True).returncode == 0
    if os.getuid() or not os.access("/dev/fuse", os.W_OK) or not can:
        pytest.skip("needs root, /dev/fuse, libfuse and mfusepy")
    behind, place = folder / "behind", folder / "place"
    behind.mkdir()
    place.mkdir()
    server = subprocess.Popen([sys.executable, str(SERVER), str(behind), str(place), *fault])
    try:
        wait_until(lambda: os.path.ismount(place) or server.poll() is not None, "the mount")
        assert os.path.ismount(place)
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=False)
        server.kill()
        server.wait()
