"""Rules about the sizes and the order of reads and writes."""

from __future__ import annotations

import os

import pytest

from pyio_trace.insights.settings import Settings
from tests.support.findings import evidence_of, findings_of, none, only
from tests.support.programs import Runner

pytestmark = pytest.mark.once

#: A file of 4 MiB, opened without a buffer.
DATA = """
import os, random
with open("data.bin", "wb") as f: f.write(bytes(1 << 22))
f = open("data.bin", "r+b", buffering=0)
"""


def test_small_reads(program: Runner) -> None:
    outcome = program.traced(DATA + "for n in range(2000): f.read(512)")
    finding = only(findings_of(outcome), "small-accesses")
    assert finding.evidence[0].values["calls"] == 2000 and finding.evidence[0].values["bytes"] == 2000 * 512
    assert [site.line for site in finding.sites] == [5] and finding.files == [f"{program.folder}/data.bin"]
    rows = evidence_of(finding, outcome.log)
    assert len(rows) == 2000 and {row["bytes_moved"] for row in rows} == {512}


def test_large_reads(program: Runner) -> None:
    text = DATA + "for n in range(1200):\n    if n % 20 == 0: f.seek(0)\n    f.read(200_000)"
    assert none(findings_of(program.traced(text)), "small-accesses")


def test_reads_here_and_there(program: Runner) -> None:
    # GIVEN the same 1500 blocks in a random order, and in order
    shuffled = "order = list(range(1500))\nrandom.seed(1); random.shuffle(order)\n"
    text = DATA + shuffled + "for n in ORDER: os.pread(f.fileno(), 700, n * 2500)"
    outcome = program.traced(text.replace("ORDER", "order"))
    finding = only(findings_of(outcome), "random-reads")
    assert finding.evidence[0].values["reads"] == 1500 and finding.evidence[0].values["jumps"] >= 1300
    assert [site.line for site in finding.sites] == [7] and len(evidence_of(finding, outcome.log)) == 1500
    assert finding.recoverable.bound == "upper"  # so it is never critical
    assert none(findings_of(program.traced(text.replace("ORDER", "sorted(order)"))), "random-reads")


def test_reads_backward(program: Runner) -> None:
    text = DATA + "for n in ORDER: os.pread(f.fileno(), 4096, n * 4096)"
    outcome = program.traced(text.replace("ORDER", "reversed(range(300))"))
    finding = only(findings_of(outcome), "backward-reads")
    assert finding.evidence[0].values["backward"] == 299 and len(evidence_of(finding, outcome.log)) == 300
    assert none(findings_of(program.traced(text.replace("ORDER", "range(300)"))), "backward-reads")


def test_strided_reads(program: Runner) -> None:
    text = DATA + "for n in range(600): os.pread(f.fileno(), 8, n * STEP)"
    outcome = program.traced(text.replace("STEP", "1000"))
    finding = only(findings_of(outcome), "strided-reads")
    assert finding.evidence[0].values["strided"] == 599 and finding.evidence[0].values["stride"] == 992
    assert len(evidence_of(finding, outcome.log)) == 600
    assert none(findings_of(program.traced(text.replace("STEP", "8"))), "strided-reads")


def test_unaligned_writes(program: Runner) -> None:
    text = DATA + "for n in range(60): os.pwrite(f.fileno(), bytes(1 << 16), AT + n * (1 << 16))"
    outcome = program.traced(text.replace("AT", "100"))
    finding = only(findings_of(outcome), "unaligned-accesses")
    assert finding.evidence[0].values["unaligned"] == 60 and len(evidence_of(finding, outcome.log)) == 60
    assert none(findings_of(program.traced(text.replace("AT", "4096"))), "unaligned-accesses")


def test_reading_and_writing_by_turns(program: Runner) -> None:
    turns = "for n in range(400):\n    x = os.pread(f.fileno(), 8, n * 8)\n    os.pwrite(f.fileno(), x, n * 8)"
    outcome = program.traced(DATA + turns)
    finding = only(findings_of(outcome), "read-modify-write")
    assert finding.evidence[0].values["switches"] >= 798 and finding.evidence[0].values["calls"] >= 800
    assert {site.line for site in finding.sites} == {6, 7} and len(evidence_of(finding, outcome.log)) == 800
    reads, writes = "os.pread(f.fileno(), 8, n * 8)", "os.pwrite(f.fileno(), bytes(8), n * 8)"
    apart = f"for n in range(400): {reads}\nfor n in range(400): {writes}"
    assert none(findings_of(program.traced(DATA + apart)), "read-modify-write")


def test_tiny_calls(program: Runner) -> None:
    text = DATA + 'f = open("data.bin", "rb")\nwhile f.read(SIZE): pass'
    outcome = program.traced(text.replace("SIZE", "32"))
    finding = only(findings_of(outcome), "tiny-calls")
    assert finding.evidence[0].values["calls"] == (1 << 17) + 1 and finding.evidence[0].values["bytes"] == 1 << 22
    assert sum(int(row["calls"]) for row in evidence_of(finding, outcome.log)) == (1 << 17) + 1
    assert none(findings_of(program.traced(text.replace("SIZE", "4096"))), "tiny-calls")


TEXT = """
with open("text.txt", "w") as f:
    for n in range(100_000): f.write("12345678901234567890123456789012345678901234567890\\n")
with open("text.txt", MODE) as f:
    for line in f: pass
"""


def test_decoding_text(program: Runner) -> None:
    outcome = program.traced(TEXT.replace("MODE", '"r"'))
    finding = only(findings_of(outcome), "text-decoding")
    assert finding.evidence[0].values["bytes"] == 5_100_000 and [site.line for site in finding.sites] == [5]
    assert evidence_of(finding, outcome.log)
    assert none(findings_of(program.traced(TEXT.replace("MODE", '"rb"'))), "text-decoding")


DIRECT = """
import mmap, os
block = mmap.mmap(-1, 4096)
f = os.open("x.bin", os.O_RDWR | os.O_CREAT | FLAGS)
for n in range(64): os.pwritev(f, [block], n * 4096)
"""


def test_small_writes_past_the_page_cache(program: Runner) -> None:
    try:
        os.close(os.open(program.folder / "try", os.O_WRONLY | os.O_CREAT | os.O_DIRECT))
    except OSError:
        pytest.skip("O_DIRECT does not work here")
    outcome = program.traced(DIRECT.replace("FLAGS", "os.O_DIRECT"))
    finding = only(findings_of(outcome), "direct-small")
    assert finding.evidence[0].values["calls"] == 64 and finding.evidence[0].values["bytes"] == 64 * 4096
    assert [site.line for site in finding.sites] == [5]
    assert [int(row["calls"]) for row in evidence_of(finding, outcome.log)] == [64]


def test_small_writes_through_the_page_cache(program: Runner) -> None:
    assert none(findings_of(program.traced(DIRECT.replace("FLAGS", "0"))), "direct-small")


MAPPED = """
import mmap, os, sys
with open("x.bin", "wb") as f:
    f.write(bytes(6 << 20))
    f.flush()
    os.fsync(f.fileno())
    EVICT
with open("x.bin", "rb") as f:
    m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
m.madvise(mmap.MADV_RANDOM)
sum(m[n * 4096] for n in range(1536))
"""


def test_pages_that_are_read_one_by_one(program: Runner) -> None:
    # GIVEN a mapped file of 1,536 pages, none of which is in memory, or all of them
    evicted = MAPPED.replace("EVICT", "os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)")
    outcome = program.traced(evicted)
    faults = outcome.processes[0]["major_faults"]
    if not faults or faults < 1536:
        pytest.skip("the file system here keeps pages in memory")
    finding = only(findings_of(outcome), "mapped-faults")
    assert finding.evidence[0].values["faults"] == faults and [site.line for site in finding.sites] == [9]
    cached = program.traced(MAPPED.replace("EVICT", "pass"), log="cached.pyio")
    assert none(findings_of(cached), "mapped-faults")


FIRST = """
import os
for n in range(8):
    with open(f"{n}.bin", "wb") as f:
        f.write(bytes(1 << 18))
        f.flush()
        os.fsync(f.fileno())
        EVICT
for n in range(8):
    f = os.open(f"{n}.bin", os.O_RDONLY)
    for k in range(32): os.pread(f, 4096, 4096 * k)
    os.close(f)
"""


def test_first_reads_that_wait_for_storage(program: Runner) -> None:
    # GIVEN files that are not in memory: the first read waits, and the kernel reads ahead for the others
    evict = "os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)"
    outcome = program.traced(FIRST.replace("EVICT", evict))
    if (outcome.processes[0]["storage_read"] or 0) < 8 << 18:
        pytest.skip("the file system here keeps pages in memory")
    # WHEN it does not matter by how much: on a busy machine later reads are interrupted, which lengthens their mean
    settings = Settings(limits={"slow-first-operations": {"share": 0, "ratio": 0}})
    finding = only(findings_of(outcome, settings), "slow-first-operations")
    assert (finding.evidence[0].values["files"], finding.evidence[0].values["later"]) == (8, 8 * 31)
    assert [site.line for site in finding.sites] == [11]
    reads = outcome.select(op="pread", path=lambda path: path.endswith(".bin"))
    assert finding.evidence[0].values["first_ns"] == sum(row["duration"] for row in reads if row["file_offset"] == 0)


def test_first_reads_like_all_others(program: Runner) -> None:
    outcome = program.traced(FIRST.replace("EVICT", "pass"))
    # THEN nothing is found, unless four of the eight first reads are interrupted for fifty times as long as they take
    limits = Settings(limits={"slow-first-operations": {"share": 0.02, "ratio": 50}})
    assert none(findings_of(outcome, limits), "slow-first-operations")
