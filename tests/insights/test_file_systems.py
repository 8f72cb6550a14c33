"""What remedies say of the file system that files are on."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

import pyio_trace
from pyio_trace.insights import file_systems, insights, registry
from pyio_trace.insights.file_systems import FileSystems
from pyio_trace.insights.finding import Finding
from pyio_trace.insights.settings import Settings
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.processes.mounts import agreed, mounts_of, parsed
from tests.support.findings import findings_of, only
from tests.support.programs import Runner, succeeded

pytestmark = pytest.mark.once

MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:5 / /dev/shm rw - tmpfs tmpfs rw
24 22 0:6 / /scratch rw - lustre 10.0.0.1@tcp:/scratch rw
25 22 0:7 / /net/my\040home rw - nfs4 server:/home rw
26 22 0:8 / /remote rw - fuse.sshfs me@there: rw
27 22 0:9 / /remote/fast rw - xfs /dev/sdb rw
a line that is none
28 22 0:9
"""
#: A sync after each record.
RECORDS = """
import os
with open("NAME", "w") as f:
    for n in range(30):
        f.write("record\\n"); f.flush(); os.fsync(f.fileno())
"""
#: 1,000 reads here and there.
READS = """
import os, random
with open("NAME", "wb") as f: f.write(bytes(1 << 20))
f = os.open("NAME", os.O_RDONLY)
places = list(range(0, 1 << 20, 1000)); random.Random(1).shuffle(places)
for place in places: os.pread(f, 100, place)
"""


@pytest.mark.parametrize(
    ("path", "name", "kind"),
    [
        ("/home/me/a", "ext4", "local"), ("/", "ext4", "local"), ("/dev/shm/x", "tmpfs", "memory"),
        ("/dev/shmx", "ext4", "local"), ("/scratch/a/*.npy", "lustre", "lustre"), ("/net/my home/x", "nfs4", "nfs"),
        ("/remote/a", "fuse.sshfs", "fuse"), ("/remote/fast/a", "xfs", "local"), ("/scratch/../a", "ext4", "local"),
        ("s3://bucket/key", "", ""), ("a", "", ""), ("", "", ""), ("//scratch//a", "lustre", "lustre"),
    ],
)  # fmt: skip
def test_where_a_path_is(path: str, name: str, kind: str) -> None:
    mounts = FileSystems(parsed(MOUNTS))
    assert (mounts.type_of(path), mounts.kind_of(path)) == (name, kind)


def test_a_machine_that_is_not_known() -> None:
    assert FileSystems().type_of("/scratch/a") == FileSystems(parsed("damaged\n1 2 3")).kind_of("/a") == ""


def test_very_many_mounts() -> None:
    # GIVEN a machine with more mounts than are kept, and one mounted over one of the first
    lines = [f"{n} 0 0:{n} / /mnt/{n} rw - ext4 dev rw" for n in range(2000)]
    found = parsed("\n".join([*lines, "5 0 0:5 / /mnt/7 rw - nfs4 server:/ rw"]))
    # THEN the table is bounded, and has the one that is seen
    assert len(found) == 1000 and found["/mnt/7"] == "nfs4" and found["/mnt/8"] == "ext4"


def test_this_machine() -> None:
    # GIVEN what a log says of a run on this machine, of one before its last start, and of one elsewhere
    host, boot = os.uname().nodename, Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    # THEN only the first has this machine's mounts, as the kernel lists them elsewhere (in a chroot without "/")
    assert mounts_of(host, str(uuid.uuid4())) is mounts_of("elsewhere", boot) is mounts_of(host, "") is None
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    listed = {fields[1].rstrip("/"): fields[2] for fields in lines}
    known = mounts_of(host, boot)
    assert known is not None and known.items() <= listed.items()
    holding = ("ext4", "xfs", "btrfs", "overlay", "tmpfs")
    assert {point for point, kind in listed.items() if kind in holding} <= known.keys()


def test_several_machines() -> None:
    one, other = {"": "ext4", "/scratch": "lustre", "/a": "xfs"}, {"": "overlay", "/scratch": "lustre"}
    assert agreed([one, one]) == one and agreed([one, None]) is None and agreed([]) is None
    both = FileSystems(agreed([one, other]))
    assert [both.type_of(path) for path in ("/scratch/x", "/a/x", "/x")] == ["lustre", "", ""]


def test_a_packed_log_keeps_them(program: Runner) -> None:
    # GIVEN a log that was packed where it was written WHEN it is read THEN its mounts are those of the live log
    outcome = succeeded(program.traced("open('x', 'w').close()"))
    pack(outcome.path, program.folder / "packed.parquet")
    packed = pyio_trace.open(program.folder / "packed.parquet")
    assert packed.info()["file_systems"] == outcome.log.info()["file_systems"] != {}


def _found(program: Runner, text: str, slug: str, name: str, mounts: str | None = None) -> Finding:
    """The finding of a traced run; mounts: instead of this machine's."""
    outcome = succeeded(program.traced(text.replace("NAME", name)))
    if mounts is None:
        return only(findings_of(outcome), slug)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(insights, "FileSystems", lambda *_: FileSystems(parsed(mounts)))
        return only(findings_of(outcome), slug)


def test_in_memory(program: Runner) -> None:
    # GIVEN a program that syncs a file, in a folder on tmpfs WHEN findings are made THEN nothing is said of a disk
    finding = _found(program, RECORDS, "sync-per-write", "x.txt", f"1 0 0:1 / {program.folder} rw - tmpfs dev rw")
    assert finding.file_systems == ["tmpfs"] and finding.remedy is not None
    assert "does not make durable" in finding.remedy.text
    texts = [finding.title, finding.remedy.text, *(one.text for one in finding.evidence)]
    assert not any("disk" in text or "lfs" in text for text in texts)


def test_in_shared_memory(program: Runner) -> None:
    # GIVEN reads here and there in a file on /dev/shm, by this machine's own mounts
    name = f"/dev/shm/pyio-trace-test-{uuid.uuid4().hex}"
    try:
        found = findings_of(program.traced(READS.replace("NAME", name)))
    finally:
        Path(name).unlink(missing_ok=True)
    # THEN no finding says anything of a disk
    for one in found:
        if name in one.files:
            assert one.file_systems == ["tmpfs"]
            assert one.remedy is not None and "disk" not in one.remedy.text


def test_on_lustre_and_on_a_local_one(program: Runner) -> None:
    # GIVEN the same program, and mounts that say that its folder is on Lustre, on NFS, or on ext4
    folder = str(program.folder)
    remedies = {}
    for kind in ("lustre", "nfs4", "ext4"):
        finding = _found(program, READS, "random-reads", "x.bin", f"1 0 0:1 / {folder} rw - {kind} dev rw")
        assert finding.file_systems == [kind] and finding.remedy is not None
        remedies[kind] = finding.remedy.text
    # THEN only the first is told of Lustre's commands
    assert "lfs setstripe" in remedies["lustre"]
    assert "lfs" not in remedies["nfs4"] and "NFS" in remedies["nfs4"]
    assert remedies["ext4"] == "Read in the order of the file; or read it whole, if it fits into memory."


def test_order_in_memory_is_ok(program: Runner) -> None:
    finding = _found(program, READS, "random-reads", "x.bin", f"1 0 0:1 / {program.folder} rw - tmpfs dev rw")
    assert finding.severity == "ok" and finding.recoverable_ns == 0


def test_every_topic_has_sentences() -> None:
    rules = registry.found(third_party=False)
    assert {rule.topic for rule in rules.values()} - {""} == set(file_systems.TOPICS)


#: Programs whose reads all come from memory, since they wrote the files themselves.
CACHED = {
    "random-reads": READS,
    "small-accesses": """
with open("x.bin", "wb") as f: f.write(bytes(1 << 20))
with open("x.bin", "rb", buffering=0) as f:
    while f.read(100): pass
""",
    "read-again": """
with open("x.bin", "wb") as f: f.write(bytes(1 << 20))
for n in range(20): open("x.bin", "rb").read()
""",
    "reopen-per-item": """
with open("x.bin", "wb") as f: f.write(bytes(1 << 20))
for n in range(200):
    with open("x.bin", "rb", buffering=0) as f: f.seek(10 * n); f.read(10)
""",
}


@pytest.mark.parametrize("slug", CACHED)
def test_an_idle_disk_is_never_blamed(program: Runner, slug: str) -> None:
    # GIVEN a run that read nothing from storage WHEN all rules look at it
    outcome = succeeded(program.traced(CACHED[slug].replace("NAME", "x.bin")))
    _, found = insights.find(outcome.log, registry.found(third_party=False), Settings())
    assert slug in [one.slug for one in found.findings]
    # THEN no finding speaks of a disk, a device, or striping
    for one in found.findings:
        remedy = one.remedy.text if one.remedy is not None else ""
        for text in (one.title, remedy, one.recoverable.how, *(part.text for part in one.evidence)):
            assert not any(word in text for word in ("disk", "device", "lfs "))
