"""Locks that keep nobody out: mounts that keep them within the machine, and file systems that have none."""

from __future__ import annotations

import pytest

import pyio_trace
from pyio_trace.insights import insights, registry
from pyio_trace.insights.finding import Finding
from pyio_trace.insights.machines import machines
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.processes.mounts import parsed_options
from tests.support.findings import check, evidence_of, none, only, without_times
from tests.support.machines import IN_OTHER_LOG, mounted, moved_elsewhere
from tests.support.programs import Runner, succeeded

pytestmark = pytest.mark.once

SLUG = "lock-without-effect"
#: A program that locks a file, and another one that does so in a log of its own, while the first one lives.
LOCKS = f"""
import fcntl, sys
with open("results.txt", "a") as f:
    fcntl.LOCK(f, fcntl.LOCK_EX)
    f.write("result")
if len(sys.argv) > 1: sys.exit()
{IN_OTHER_LOG}
"""
#: Type, options -> whether flock counts only within the machine, and whether fcntl does.
MOUNTS = {
    ("nfs4", "rw,vers=4.2,local_lock=none"): (False, False),
    ("nfs", "rw,nolock,vers=3,local_lock=all"): (True, True),
    ("nfs", "rw,vers=3,local_lock=flock"): (True, False),
    ("nfs", "rw,vers=3,local_lock=posix"): (False, True),
    ("nfs4", "rw,nolock,local_lock=none"): (False, False),
    ("nfs", "rw,nolock"): (True, True),
    ("lustre", "rw,localflock,lazystatfs"): (True, True),
    ("lustre", "rw,flock,lazystatfs"): (False, False),
    ("cifs", "rw,nobrl"): (True, True),
    ("cifs", "rw"): (False, False),
    ("ocfs2", "rw,localflocks"): (True, True),
    ("afs", "rw,flock=local"): (True, True),
    ("fuse.sshfs", "rw"): (False, False),
    ("ext4", "rw,local_lock=all"): (False, False),
}


@pytest.mark.parametrize(("mount", "local"), MOUNTS.items(), ids=lambda one: " ".join(map(str, one)))
def test_what_a_mount_says_of_locks(mount: tuple[str, str], local: tuple[bool, bool]) -> None:
    mounts = mounted("/shared", *mount)
    assert tuple(mounts.local_locks("/shared/a/b", op) != "" for op in ("flock", "fcntl")) == local
    assert mounts.local_locks("/shared/a", "lockf") == mounts.local_locks("/shared/a", "fcntl")
    assert mounts.local_locks("/other/a", "flock") == mounts.local_locks("a", "flock") == ""


def test_only_options_about_locks_are_kept() -> None:
    # GIVEN a mount whose options name a user and a host, and one that is mounted over
    lines = [
        "1 0 0:1 / / rw - cifs //server/x rw,username=me,addr=10.0.0.1,nobrl",
        "2 1 0:2 / /a rw - nfs server:/a rw,local_lock=all",
        "3 1 0:3 / /a rw - ext4 /dev/sda rw",
        "4 1 0:4 / /b rw - lustre",
    ]
    # THEN nothing but what says how far locks reach is kept, of mounts that are seen
    assert parsed_options("\n".join(lines)) == {"": "nobrl"}


def test_which_hosts_are_one_machine() -> None:
    # GIVEN logs of two containers of a machine, of a host that was started again meanwhile, and of one without an id
    logs = [
        {"host": "a", "boot": "1"},
        {"host": "b", "boot": "1"},
        {"host": "c", "boot": "2"},
        {"host": "c", "boot": "3"},
    ]
    info = {"host": "all", "boot": "9", "logs": [{"host": "a, b", "logs": logs}, {"host": "d"}]}
    # THEN the containers have the same kernel, and a host with several has none
    assert machines(info) == {"a": "1", "b": "1", "d": ""}
    assert machines({"host": "a", "boot": "1"}) == {"a": "1"}


def _found(
    program: Runner, monkeypatch: pytest.MonkeyPatch, options: str, lock: str = "flock", boots: int = 2
) -> list[Finding]:
    (program.folder / "logs").mkdir()
    succeeded(program.traced(LOCKS.replace("LOCK(", f"{lock}("), log="logs/1.pyio"))
    if boots > 1:
        moved_elsewhere(program.folder / "logs" / "2.pyio")
    monkeypatch.setattr(insights, "FileSystems", lambda *_: mounted(program.folder, "nfs", options))
    log = pyio_trace.open(program.folder / "logs")
    _, found = insights.find(log, registry.found(third_party=False), without_times())
    assert found.failed == {} and len(log.info()["logs"]) == 2
    for finding in found.findings:
        check(finding, log)
    if not none(found.findings, SLUG):
        rows = evidence_of(only(found.findings, SLUG), log)
        assert sum(int(row["calls"]) for row in rows) == only(found.findings, SLUG).evidence[0].values["calls"]
    return found.findings


@pytest.mark.parametrize("lock", ["flock", "lockf"])
def test_a_lock_that_counts_on_each_machine(program: Runner, monkeypatch: pytest.MonkeyPatch, lock: str) -> None:
    # GIVEN two machines that lock a file at the same time, on a file system that keeps locks within each
    finding = only(_found(program, monkeypatch, "rw,local_lock=all", lock), SLUG)
    # THEN the line and the file are named, and the finding is about results, not time
    values = finding.evidence[0].values
    assert (values["processes"], values["machines"], values["calls"]) == (2, 2, 2)
    assert [site.line for site in finding.sites] == [4] and finding.files == [f"{program.folder}/results.txt"]
    assert finding.recoverable.bound == "none" and finding.severity == "critical" and "local_lock=all" in finding.title


def test_a_lock_that_reaches_the_server(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    assert none(_found(program, monkeypatch, "rw,local_lock=none"), SLUG)


def test_a_lock_of_the_kind_that_reaches_the_server(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    assert none(_found(program, monkeypatch, "rw,local_lock=flock", "lockf"), SLUG)


def test_containers_of_one_machine(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN two logs of one kernel, within which locks count
    assert none(_found(program, monkeypatch, "rw,local_lock=all", boots=1), SLUG)


#: A program whose flock is refused as by a Lustre without the option (ENOSYS): a filter of its own system calls.
REFUSED = """
import ctypes, fcntl, os, platform, struct, sys
def refuse(number, error):
    rules = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | error), (0x06, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in rules))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(rules), ctypes.addressof(code)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(38, 1, 0, 0, 0) or prctl(22, 2, ctypes.c_void_p(ctypes.addressof(program))):
        sys.exit(77)
def work():
    f = os.open(NAME, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        LOCK
    except OSError as problem:
        assert problem.errno == 38
        ON_ERROR
    USE
FLOCK = {"x86_64": 73, "aarch64": 32}
refuse(FLOCK[platform.machine()] if platform.machine() in FLOCK else sys.exit(77), 38)
wait, go = os.pipe()
for n in range(2):
    if not os.fork():
        os.close(go)
        os.read(wait, 1)
        work()
        os._exit(0)
os.close(go)  # now that both are there
for n in range(2): assert os.wait()[1] == 0
"""


def _refused(
    program: Runner, lock: str, on_error: str = "pass", name: str = '"results.txt"', use: str = 'os.write(f, b"result")'
) -> list[Finding]:
    text = REFUSED.replace("        LOCK\n", f"        {lock}\n").replace("    USE\n", f"    {use}\n")
    text = text.replace("ON_ERROR", on_error).replace("NAME", name)
    outcome = program.traced(text)
    if outcome.status == 77:
        pytest.skip("no filter of system calls here")
    _, found = insights.find(succeeded(outcome).log, registry.found(third_party=False), without_times())
    assert found.failed == {}
    for finding in found.findings:
        check(finding, outcome.log)
    return found.findings


def test_a_refused_lock_that_is_ignored(program: Runner) -> None:
    # GIVEN two processes that write a file although its lock was refused
    finding = only(_refused(program, "fcntl.flock(f, fcntl.LOCK_EX)"), SLUG)
    values = finding.evidence[0].values
    assert (values["calls"], values["processes"]) == (2, 2) and [site.line for site in finding.sites] == [13]
    assert finding.recoverable.bound == "none" and finding.severity == "warning"


@pytest.mark.parametrize(
    "how",
    [
        {"lock": "fcntl.lockf(f, fcntl.LOCK_EX)"},  # is not refused
        {"lock": "fcntl.flock(f, fcntl.LOCK_EX)", "on_error": "os._exit(0)"},
        {"lock": "os.write(f, b'a'); fcntl.flock(f, fcntl.LOCK_EX)", "on_error": "os._exit(0)"},
        {"lock": "fcntl.flock(f, fcntl.LOCK_EX)", "on_error": "fcntl.lockf(f, fcntl.LOCK_EX)"},
        {"lock": "fcntl.flock(f, fcntl.LOCK_EX)", "name": 'f"results.{os.getpid()}.txt"'},
        {"lock": "fcntl.flock(f, fcntl.LOCK_SH)", "use": "os.read(f, 10)"},
    ],
    ids=["granted", "the program ends", "used before", "another lock", "a file of each process", "read only"],
)
def test_a_lock_that_is_not_missed(program: Runner, how: dict[str, str]) -> None:
    assert none(_refused(program, **how), SLUG)


def test_a_packed_log_keeps_the_options(program: Runner) -> None:
    # GIVEN a log packed on the machine that wrote it THEN it has the mount options of the live log
    outcome = succeeded(program.traced("open('x', 'w').close()"))
    pack(outcome.path, program.folder / "packed.parquet")
    packed = pyio_trace.open(program.folder / "packed.parquet").info()
    assert packed["lock_options"] == outcome.log.info()["lock_options"] is not None
