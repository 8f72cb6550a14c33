"""Mapped files on network file systems."""

from __future__ import annotations

import pytest

import pyio_trace
from pyio_trace.insights import insights, registry
from pyio_trace.insights.finding import Finding
from tests.insights.test_accesses import MAPPED
from tests.support.findings import check, evidence_of, none, only, without_times
from tests.support.machines import IN_OTHER_LOG, mounted, moved_elsewhere
from tests.support.programs import Outcome, Runner, succeeded

pytestmark = pytest.mark.once

SLUG = "mapped-on-network-fs"
PAGES = 1536  #: of the file that MAPPED touches
_DONTNEED = "os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)"


def _of(outcome: Outcome, monkeypatch: pytest.MonkeyPatch, kind: str) -> list[Finding]:
    """The findings of a run, if its folder was on a file system of this kind."""
    monkeypatch.setattr(insights, "FileSystems", lambda *_: mounted(outcome.path.parent, kind))
    return _findings(outcome.log)


def _findings(log: pyio_trace.Log) -> list[Finding]:
    _, found = insights.find(log, registry.found(third_party=False), without_times())
    assert found.failed == {}
    for finding in found.findings:
        check(finding, log)
    return found.findings


def test_pages_that_come_from_a_server(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a mapped file, none of whose pages is in memory, and its folder on a network file system
    outcome = succeeded(program.traced(MAPPED.replace("EVICT", _DONTNEED)))
    faults = outcome.processes[0]["major_faults"]
    if not faults or faults < PAGES:
        pytest.skip("the file system here keeps pages in memory")
    for kind in ("nfs4", "lustre", "cifs", "gpfs", "fuse.sshfs"):
        found = _of(outcome, monkeypatch, kind)
        finding = only(found, SLUG)
        # THEN the line that maps it is named, with the faults and what was touched, and there is no other finding of it
        values = finding.evidence[0].values
        assert values["faults"] == faults and values["at_least"] <= PAGES << 12 <= values["touched"]
        assert [site.line for site in finding.sites] == [9] and finding.files == [f"{program.folder}/x.bin"]
        assert finding.file_systems == [kind] and finding.recoverable.bound == "upper"
        assert none(found, "mapped-faults")
        assert [row["path"] for row in evidence_of(finding, outcome.log)] == finding.files
    # AND on a local one it is the other finding
    local = _of(outcome, monkeypatch, "ext4")
    assert none(local, SLUG) and only(local, "mapped-faults").evidence[0].values["faults"] == faults


def test_pages_that_are_in_memory(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = succeeded(program.traced(MAPPED.replace("EVICT", "pass")))
    assert none(_of(outcome, monkeypatch, "nfs4"), SLUG)


def test_reads_from_a_network_file_system(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN the same pages read by calls
    text = MAPPED.partition('with open("x.bin", "rb")')[0].replace("EVICT", _DONTNEED)
    outcome = succeeded(program.traced(text + 'with open("x.bin", "rb") as f:\n    while f.read(1 << 20): pass\n'))
    assert none(_of(outcome, monkeypatch, "nfs4"), SLUG)


#: A program that writes a file through a mapping, and another one that uses it while the first one lives.
SHARED = f"""
import mmap, sys
if len(sys.argv) > 1:
    with open("x.bin", "rb") as f: f.read()
    sys.exit()
with open("x.bin", "w+b") as f:
    f.truncate(1 << 20)
    m = mmap.mmap(f.fileno(), 0, ACCESS)
    WRITE
{IN_OTHER_LOG}
"""
_WRITTEN = "m[:8192] = bytes(range(256)) * 32"


@pytest.mark.parametrize(
    ("kind", "access", "write", "machines", "seen"),
    [
        ("nfs", "mmap.MAP_SHARED", _WRITTEN, 2, True),
        ("nfs", "mmap.MAP_SHARED", _WRITTEN, 1, False),
        ("nfs", "mmap.MAP_PRIVATE", _WRITTEN, 2, False),
        ("nfs", "mmap.MAP_SHARED", "m[:8192]", 2, False),
        ("lustre", "mmap.MAP_SHARED", _WRITTEN, 2, False),
        ("ext4", "mmap.MAP_SHARED", _WRITTEN, 2, False),
    ],
)
def test_a_mapping_that_is_written(
    program: Runner, monkeypatch: pytest.MonkeyPatch, kind: str, access: str, write: str, machines: int, seen: bool
) -> None:
    # GIVEN a file that is written through a mapping while a process on another machine, or on this one, reads it
    (program.folder / "logs").mkdir()
    succeeded(program.traced(SHARED.replace("ACCESS", access).replace("WRITE", write), log="logs/1.pyio"))
    if machines > 1:
        moved_elsewhere(program.folder / "logs" / "2.pyio")
    monkeypatch.setattr(insights, "FileSystems", lambda *_: mounted(program.folder, kind))
    log = pyio_trace.open(program.folder / "logs")
    found = _findings(log)
    # THEN only what NFS may not show to the other machine is found
    assert none(found, SLUG) is not seen
    if seen:
        finding = only(found, SLUG)
        assert finding.recoverable.bound == "none" and finding.files == [f"{program.folder}/x.bin"]
        assert int(finding.evidence[0].values["written"]) >= 8192 and [site.line for site in finding.sites] == [8]
