"""What a command sets for its own process: memory that it frees is used again; pandas is not imported."""

from __future__ import annotations

import subprocess
import sys
from ctypes import CDLL
from pathlib import Path

import pytest

from pyio_trace.join.pack.packer import pack
from tests.support.smallrun import small_run

ARRAYS = """\
import resource, sys
import numpy as np
if sys.argv[1] == "kept":
    from pyio_trace.cli.command_process import keep_freed_memory
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


IMPORTED = """\
import sys
from pyio_trace.cli.main import main
status = main(sys.argv[1:])
print(status, *sorted({"pandas", "pyarrow"} & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize("command", ["summary", "insights", "files", "events", "stacks", "processes", "counters"])
def test_no_command_imports_pandas(command: str, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    # GIVEN a packed log, where pandas is installed WHEN a command prints it THEN it does not import pandas, which takes
    # longer than reading the log
    log = tmp_path / "run.parquet"
    pack(small_run(tmp_path / "run.pyio"), log)
    words = [sys.executable, "-c", IMPORTED, command, str(log)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "0 pyarrow"


def test_a_data_frame_is_made_all_the_same() -> None:
    pytest.importorskip("pandas")
    code = (
        "import pyarrow as pa\n"
        "from pyio_trace.cli.command_process import do_without_pandas\n"
        "do_without_pandas()\n"
        "print(pa.table({'n': pa.array([1, 2])}).to_pandas()['n'].sum())"
    )
    # GIVEN a command that does without pandas WHEN a third party's rule asks for a DataFrame THEN it gets one
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "3\n"


UNUSED = """\
import sys
from pyio_trace.cli.command_process import do_without_pandas, set_up
set_up()
do_without_pandas()
print(*sorted({"cloudpickle", "dateutil", "numpy", "pandas", "pyarrow"} & set(sys.modules)))
"""


def test_pyarrow_imports_no_more_than_is_used() -> None:
    # GIVEN a process that is a command WHEN it imports pyarrow THEN nothing comes with it that only other users need
    done = subprocess.run([sys.executable, "-P", "-c", UNUSED], capture_output=True, text=True, check=True)
    assert done.stdout == "numpy pyarrow\n"
