"""Processes that keep processors busy while tests run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that do nothing but compute."""
    running = [subprocess.Popen([sys.executable, "-ISc", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()
