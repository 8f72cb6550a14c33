"""Memory that a command frees is used again."""

from __future__ import annotations

import subprocess
import sys
from ctypes import CDLL

import pytest

ARRAYS = """\
import resource, sys
import numpy as np
if sys.argv[1] == "kept":
    from pyio_trace.cli.allocator import keep_freed_memory
    keep_freed_memory()
def batch():
    return [np.ones(number << 16) for number in range(1, 9)]
batch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    batch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", ARRAYS, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_arrays_that_come_and_go_get_the_same_pages() -> None:
    if not hasattr(CDLL(None), "mallopt"):
        pytest.skip("another C library than glibc")
    # GIVEN arrays of some MiB that come and go WHEN freed memory is kept THEN the kernel has no pages to clear
    assert faults("kept") < 1000
