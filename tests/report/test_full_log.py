"""The first screen of a log that has not all calls: exact sums, or a word that a figure is of a part."""

from __future__ import annotations

import sys
from pathlib import Path

from pyio_trace.analysis.scan.filters import Filter, restrict
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.report.bars import Letters
from pyio_trace.report.overview_text import overview_lines
from pyio_trace.units import size
from tests.support.programs import Outcome, Runner, succeeded

#: It fills the log with small writes of files of long names, and then writes and reads most of its bytes.
FILLS = """
import os, sys
for n in range(2500):
    fd = os.open(f"{'n' * 200}{n}", os.O_RDWR | os.O_CREAT)
    for at in range(12):
        os.pwrite(fd, b"0123456789", at * 10)
    os.close(fd)
fd = os.open("last", os.O_RDWR | os.O_CREAT)
for n in range(7):
    os.pwrite(fd, bytes(5_000_000), 0)
for n in range(3):
    os.pread(fd, 5_000_000, 0)
os.fsync(fd)
"""
WRITTEN, READ = 2500 * 12 * 10 + 7 * 5_000_000, 3 * 5_000_000
CALLS = 2500 * 14 + 12


def screen(log: Log) -> list[str]:
    return overview_lines(summarize(log), Letters())


def test_a_full_log(program: Runner) -> None:
    # GIVEN a program whose log was full before it moved most of its bytes
    run = succeeded(program.traced(FILLS, env={"PYIO_TRACE_MAX_LOG_SIZE": "2M"}))
    pack(run.path, program.folder / "packed.parquet")
    for log in (run.log, open_log(program.folder / "packed.parquet")):
        counters = [row for row in log.counters().to_pylist() if row["why"] == "counted"]
        missing = sum(row["calls"] for row in counters)
        assert missing > CALLS / 10
        # WHEN its summary is shown THEN calls and bytes are those of the whole run
        lines = screen(log)
        assert CALLS <= int(lines[0].split()[-2].replace(",", "")) < CALLS + 500
        (read,), (written,) = (
            [line for line in lines if line.startswith(f"  {what} ")] for what in ("read", "written")
        )
        assert size(WRITTEN) in written and size(READ) in read
        # AND the rest is said to be of a part, before any other sentence, with what the missing calls took
        said = lines[1 : lines.index("")]
        assert said[0].startswith(f"The log was full: {missing:,} calls have no row.") and "part" in said[-1]
        assert not [line for line in lines if "of the run" in line or "bottleneck" in line or "of the I/O time" in line]
        # AND a selection, of which the counters say nothing, is of its rows alone
        some = screen(restrict(log, Filter(ops=["pwrite"], text="--op pwrite")))
        assert not [line for line in some if "full:" in line] and size(WRITTEN) not in "".join(some)


def test_a_log_that_lacks_little(program: Runner) -> None:
    # GIVEN a log with all calls WHEN its summary is shown THEN nothing is said of a part
    run = succeeded(program.traced("import os\nfd = os.open('x', os.O_RDWR | os.O_CREAT)\nos.write(fd, b'x' * 5000)\n"))
    lines = screen(run.log)
    assert not [line for line in lines if "part" in line or "full" in line]


def test_a_ring(program: Runner) -> None:
    # GIVEN a ring that has overwritten calls WHEN its summary is shown THEN it says that figures are of the rest
    run = succeeded(program.traced(FILLS, env={"PYIO_TRACE_MAX_LOG_SIZE": "2M", "PYIO_TRACE_MODE": "ring"}))
    lines = screen(run.log)
    assert run.log.info()["ring_since"] is not None
    assert "All figures are of the rest." in lines[1 : lines.index("")]


def test_of_every_process(program: Runner) -> None:
    # GIVEN processes that go on when the log is full, one of which is killed
    text = f"""
import os, signal
{FILLS}
for n in range(2):
    if os.fork() == 0:
        os.pwrite(fd, bytes(1_000_000), 0)
        if n:
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(0)
    os.wait()
"""
    run: Outcome = succeeded(program.traced(text, env={"PYIO_TRACE_MAX_LOG_SIZE": "2M"}))
    # WHEN the summary is shown, by the command THEN the bytes are those of all of them
    shown = succeeded(program.command([sys.executable, "-m", "pyio_trace", "summary", Path(run.path)])).stdout
    (written,) = (line for line in shown.split("\n") if line.startswith("  written "))
    assert size(WRITTEN + 2_000_000) in written


def test_a_profile(program: Runner) -> None:
    # GIVEN the same in a profile, whose sums of files have room or not WHEN it is shown THEN its bytes are exact, too
    run = succeeded(program.traced(FILLS, env={"PYIO_TRACE_MAX_LOG_SIZE": "2M", "PYIO_TRACE_MODE": "profile"}))
    (written,) = (line for line in screen(run.log) if line.startswith("  written "))
    assert size(WRITTEN) in written
