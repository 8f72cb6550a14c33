"""Runs that an error of the log ended, and runs that went on after one."""

from __future__ import annotations

import errno
import os

import pytest

from pyio_trace.insights import insights, registry
from pyio_trace.insights.finding import Finding
from pyio_trace.report.findings_text import cost_of
from tests.support.findings import check, evidence_of, none, only, without_times
from tests.support.programs import Outcome, Runner

pytestmark = pytest.mark.once

#: 60 descriptors, and files that stay open.  OPEN opens one.
TOO_MANY = """
import os, resource, sys, threading
resource.setrlimit(resource.RLIMIT_NOFILE, (60, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
kept = []
for n in range(3): open(f"done-{n}", "w").close()
try:
    for n in range(100):
        kept.append(open(f"sample-{n}", "w"))
except OSError as error:
    print(len(kept), flush=True)
    END
"""
#: A file that may be no larger than 300,000 bytes, which a write meets as one meets a full disk.
TOO_LARGE = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
with open("out.bin", "wb", buffering=0) as f:
    for n in range(10): f.write(bytes(50_000)) == 50_000
"""


def failures(outcome: Outcome) -> list[Finding]:
    """Of a program that may have failed."""
    _, found = insights.find(outcome.log, registry.found(), without_times())
    assert found.failed == {}
    for finding in found.findings:
        check(finding, outcome.log)
    return found.findings


@pytest.mark.parametrize("end", ["raise", "sys.exit(3)", "os._exit(1)"])
def test_too_many_open_files(program: Runner, end: str) -> None:
    # GIVEN a program that ends as it can open no more files WHEN findings are made
    outcome = program.traced(TOO_MANY.replace("END", end))
    finding = only(failures(outcome), "ended-by-error")
    # THEN the first one says so: the call, its line, the error, and how many files of which line were open
    assert failures(outcome)[0] == finding and finding.severity == "critical"
    assert cost_of(finding) == "ended the run" and finding.recoverable_ns == 0
    assert [site.line for site in finding.sites] == [8]
    assert finding.evidence[0].values["errno"] == errno.EMFILE
    assert finding.evidence[0].values["open"] == int(outcome.stdout)
    assert "EMFILE" in finding.title and f"Open were {int(outcome.stdout)} files of program.py:8" in str(
        finding.evidence
    )
    assert {row["op"] for row in evidence_of(finding, outcome.log)} == {"open"}


WENT_ON = ["pass", "kept.clear(); open('result', 'w').write('done'); sys.exit(1)"]


@pytest.mark.parametrize("end", WENT_ON)
def test_an_error_that_the_program_goes_on_after(program: Runner, end: str) -> None:
    # GIVEN a program that ends well, or fails later and otherwise WHEN findings are made THEN the error is none
    assert none(failures(program.traced(TOO_MANY.replace("END", end))), "ended-by-error")


def test_a_file_that_is_not_there(program: Runner) -> None:
    # GIVEN a program that a missing file ends, as it says itself WHEN findings are made THEN nothing is said of it
    outcome = program.traced("open('none.txt')")
    assert outcome.status == 1 and none(failures(outcome), "ended-by-error")


def test_a_file_that_cannot_grow(program: Runner) -> None:
    # GIVEN a program that a write ends WHEN findings are made THEN its file and line are named
    outcome = program.traced(TOO_LARGE)
    finding = only(failures(outcome), "ended-by-error")
    assert outcome.status == 1 and finding.evidence[0].values["errno"] == errno.EFBIG
    assert finding.files == [f"{program.folder}/out.bin"] and [site.line for site in finding.sites] == [6]


FULL = """
import os, tempfile
def work(n):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        with open(f"{folder}/part.bin", "wb", buffering=0) as f:
            f.write(bytes(1000))
            room = os.statvfs(folder)
            os.posix_fallocate(f.fileno(), 0, 2 * room.f_blocks * room.f_frsize)
"""
WORKER = """
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.Pool(1) as pool: pool.map(work, [1])
"""


@pytest.mark.parametrize("end", ["work(1)", WORKER.strip()], ids=["itself", "worker"])
def test_a_full_device(program: Runner, end: str) -> None:
    # GIVEN memory without room, met by the program or by a worker that hands it the error WHEN findings are made
    if not os.path.ismount("/dev/shm"):
        pytest.skip("no /dev/shm")
    outcome = program.traced(FULL + end)
    finding = only(failures(outcome), "ended-by-error")
    # THEN the line and the file are named, and what had been written until then
    assert outcome.status == 1 and finding.evidence[0].values["errno"] == errno.ENOSPC
    assert len(finding.files) == 1 and finding.files[0].endswith("/part.bin")
    assert [site.line for site in finding.sites] == [8]
    assert finding.evidence[0].values["written"] == finding.evidence[0].values["written_in_all"] == 1000
    assert finding.remedy is not None and "disk_usage" in finding.remedy.after
