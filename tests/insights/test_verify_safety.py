"""`insights --verify` changes nothing but its own scratch folder, whatever the log says, and leaves none behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyio_trace.insights import insights, registry, verify
from pyio_trace.insights.finding import Finding, Site
from pyio_trace.insights.settings import Settings
from pyio_trace.insights.trials import recorded
from pyio_trace.insights.trials.originals import Originals
from pyio_trace.insights.trials.recorded import Rows
from pyio_trace.insights.trials.replay import NotTried
from pyio_trace.insights.trials.scratch import PREFIX, Scratch
from tests.insights.test_verify import ANY, SMALL
from tests.insights.test_verify_bounds import CHECKPOINTS
from tests.insights.test_verify_readers import ITEMS, SHARED
from tests.support.programs import Outcome, Runner, clean_environment, succeeded
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("own_time")]
ROOT = Path(__file__).parents[2]
#: Reads, writes, syncs, small files, a database and, if there is h5py, datasets: what all trials are made of.
EVERYTHING = """
import os, sqlite3
with open("data.bin", "wb") as f: f.write(bytes(1 << 20))
with open("data.bin", "rb", buffering=0) as f:
    for n in range(2000): f.read(300)
for n in range(150):
    with open("data.bin", "rb") as f: f.read(10)
    with open("log.txt", "a") as f: f.write("line")
with open("sync.txt", "wb", buffering=0) as f:
    for n in range(30):
        f.write(b"record")
        os.fsync(f.fileno())
db = sqlite3.connect("rows.db")
db.execute("CREATE TABLE t (n)")
for n in range(60):
    db.execute("INSERT INTO t VALUES (1)")
    db.commit()
for n in range(2000): os.stat("data.bin")
try:
    import h5py, numpy as np
except ImportError:
    pass
else:
    with h5py.File("c.h5", "w") as f:
        d = f.create_dataset("t", (512, 1024), "i8", chunks=(32, 1024), maxshape=(None, 1024), compression="gzip")
        for n in range(40):
            d[n] = np.arange(1024)
            f.flush()
        p = f.create_dataset("p", (1024, 1024), "f8")
        for n in range(0, 1024, 64): p[:, n:n + 64] = np.ones((1024, 64))
    with h5py.File("c.h5") as f:
        for column in range(20): f["t"][:, column]
"""
#: Times that are short are findings, too.
_LIMITS = """
[tool.pyio_trace.insights]
checkpoint-stall = { share = 0 }
loader-starved = { ms = 0.001, share = 0, fewer = 1 }
"""
_LONG = """
import os, sys
for number in range(int(sys.argv[1])):
    if not os.fork(): break
else:
    for number in range(int(sys.argv[1])): os.wait()
    sys.exit()
with open(f"log{number}.txt", "wb", buffering=0) as f:
    for n in range(1000):
        f.write(b"record")
        os.fsync(f.fileno())
"""
_TRACED = "%file,ftruncate,fallocate,fchmod,fchown,fsetxattr,memfd_create"
_CALL = re.compile(r"^\d+ +(\w+)\((.*)$")
_WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND")
#: Calls that change a file or a folder, or make one.
_CHANGING = {
    "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2", "link", "linkat", "symlink",
    "symlinkat", "truncate", "ftruncate", "fallocate", "chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown",
    "fchownat", "mknod", "mknodat", "utime", "utimes", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "creat",
}  # fmt: skip


#: Tries findings; writes the most memory that it took, KiB.
_PEAK = """
import re
import pyio_trace
from pyio_trace.insights import insights, registry, verify
from tests.insights.test_verify import ANY
def verified(log, peak):
    rules = registry.found()
    log = pyio_trace.open(log)
    summary, found = insights.find(log, rules, ANY)
    for one in verify.verify(log, summary, found, rules, ANY, 1).findings:
        print(one.slug, one.verified.why)
    with open(peak, "w") as file, open("/proc/self/status") as status:
        file.write(re.search("VmHWM: *\\t* *([0-9]+)", status.read())[1])
"""


def left(folder: Path) -> list[Path]:
    """Scratch folders that are there."""
    return list(folder.rglob(f"{PREFIX}*"))


def contents(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Path -> inode, time of the last change, bytes."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def command(path: Path, seconds: float) -> list[str]:
    return [
        sys.executable,
        "-m",
        "pyio_trace",
        "insights",
        str(path),
        "--all",
        "--verify",
        "--verify-seconds",
        str(seconds),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "slugs", "writes"),
    [
        (EVERYTHING, (), True),
        (SHARED, ("one-does-all",), False),
        pytest.param(CHECKPOINTS, ("checkpoint-stall",), True, marks=pytest.mark.frameworks("torch")),
        pytest.param(ITEMS, ("loader-starved",), False, marks=pytest.mark.frameworks("torch")),
    ],
)
def test_nothing_outside_scratch_is_written(program: Runner, text: str, slugs: tuple[str, ...], writes: bool) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    # GIVEN the log of a run that has findings of all kinds
    outcome = succeeded(program.traced(text, 1))
    (program.folder / "pyproject.toml").write_text(_LIMITS)
    before = contents(program.folder)
    # WHEN its remedies are tried under strace
    calls = program.folder.parent / "calls.txt"
    words = ["strace", "-f", "-qq", "-y", "-s", "4096", "-e", f"trace={_TRACED}", "-o", calls,
             *command(outcome.path, 15), *(f"--rule={slug}" for slug in slugs)]  # fmt: skip
    ran = succeeded(program.command(words, {"PYTHONDONTWRITEBYTECODE": "1", "HOME": str(program.folder)}))
    assert len(re.findall(r"\n   (tried|most) ", ran.stdout)) >= (len(slugs) or 4), ran.stdout
    # THEN nothing is opened for writing, made, changed or removed but in scratch folders, and these are gone
    changing = [line for line in calls.read_text(errors="replace").splitlines() if _changes(line)]
    outside = [line for line in changing if PREFIX not in line and "/dev/null" not in line]
    assert not outside and bool(changing) == writes, outside[:20]
    assert not left(program.folder) and contents(program.folder) == before


def _changes(line: str) -> bool:
    """Whether a line of strace is a call that changes something, and works."""
    match = _CALL.match(line)
    if match is None or re.search(r"\) += -1 ", line):
        return False
    name, arguments = match.groups()
    return name in _CHANGING or (name in ("open", "openat", "openat2") and bool(_WRITING.search(arguments)))


@pytest.mark.parametrize(
    ("number", "processes"), [(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGHUP, 1), (signal.SIGTERM, 2)]
)
def test_a_signal_leaves_no_scratch_folder(program: Runner, number: signal.Signals, processes: int) -> None:
    # GIVEN a trial that takes long, in one process or two WHEN a signal comes while there is a scratch folder
    outcome = succeeded(program.traced(_LONG, processes))
    running = subprocess.Popen(
        command(outcome.path, 3000), env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip
    try:
        wait_until(lambda: any(any(folder.iterdir()) for folder in left(program.folder)), "a file in scratch")
        running.send_signal(number)
        out, err = running.communicate(timeout=240)
    finally:
        running.kill()
    # THEN it ends without findings and without a traceback, and the folder is gone
    assert running.returncode == 128 + number and (out, err) == ("", "")
    assert not left(program.folder)


def tried(outcome: Outcome, seconds: float = 0.3) -> list[Finding]:
    """The verified findings of a run."""
    rules = registry.found()
    summary, found = insights.find(succeeded(outcome).log, rules, ANY)
    return verify.verify(outcome.log, summary, found, rules, ANY, seconds).findings


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))
    path.with_name("elsewhere").write_bytes(bytes(8 << 20))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (make_fifo, "regular files"),
        (make_link, "regular files"),
        (Path.mkdir, "regular files"),
        (lambda path: path.symlink_to("/dev/zero"), "regular files"),
        (lambda path: path.write_bytes(b"x"), "smaller now"),
        (lambda path: None, "No such file"),
    ],
)
def test_a_path_that_is_something_else_now(program: Runner, change: Any, why: str) -> None:
    # GIVEN the log of reads of a file WHEN something else is there instead THEN it is not read, and nothing hangs
    outcome = succeeded(program.traced(SMALL))
    (program.folder / "data.bin").unlink()
    change(program.folder / "data.bin")
    (small,) = [one for one in tried(outcome) if one.slug == "small-accesses"]
    assert small.verified is not None and small.verified.outcome == "not tried" and why in small.verified.why


@pytest.mark.parametrize("path", ["/dev/zero", "/proc/self/status", "/sys/kernel/uevent_seqnum", "data", "/a\0b", "/"])
def test_originals_are_regular_files(path: str) -> None:
    with pytest.raises(NotTried):
        Originals(0).open(path)


def test_a_huge_file_is_read_as_far_as_the_time_allows(program: Runner) -> None:
    outcome = succeeded(program.traced(SMALL))
    os.truncate(program.folder / "data.bin", 1 << 40)
    os.utime(program.folder / "data.bin", (2**31, 2**31))
    (small,) = [one for one in tried(outcome) if one.slug == "small-accesses"]
    assert small.verified is not None and small.verified.rounds and small.verified.cache == "cached"
    assert "changed after the run" in small.verified.why


LOADS = """
import numpy as np
np.save("a.npy", np.arange(200_000))
for n in range(40): np.load("a.npy")[n]
"""


def test_an_array_that_is_larger_than_there_is_room_for(program: Runner) -> None:
    # GIVEN the log of loads of an array, which somebody has replaced by one of 8 GiB without contents
    outcome = succeeded(program.traced(LOADS))
    path = program.folder / "a.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (8 << 30,)})
        file.truncate(file.tell() + (8 << 30))
    assert path.stat().st_blocks * 512 < 1 << 20
    # WHEN its remedies are tried, in a process of its own
    peak = program.folder / "peak"
    text = _PEAK + f"verified({str(outcome.path)!r}, {str(peak)!r})"
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False)
    # THEN that one is not, and memory is bounded
    assert done.returncode == 0, done.stderr
    assert "more memory" in done.stdout and int(peak.read_text()) < 2 << 20


@pytest.mark.parametrize("value", [(1 << 62) - 1, -(1 << 62), 0])
def test_forged_sizes_and_offsets(program: Runner, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a log whose offsets, sizes and counts are forged
    def forged(*arguments: Any) -> list[Rows]:
        found = []
        for rows in recorded.rows_of(*arguments):
            wrong = np.full(len(rows), value, np.int64)
            columns = {**rows.columns, "file_offset": wrong, "bytes_moved": wrong, "bytes_requested": wrong}
            found.append(replace(rows, columns=columns, whole=dict.fromkeys(rows.whole, 1 << 60)))
        return found

    monkeypatch.setattr(verify, "rows_of", forged)
    outcome = succeeded(program.traced(EVERYTHING))
    before = contents(program.folder)
    # WHEN its remedies are tried THEN it ends, and nothing is changed
    assert any(one.verified and one.verified.outcome == "not tried" for one in tried(outcome, 0.2))
    assert not left(program.folder) and contents(program.folder) == before


def test_forged_lines_and_files(program: Runner) -> None:
    # GIVEN findings that name files and lines of another kind WHEN they are tried
    outcome = succeeded(program.traced(SMALL))
    rules = registry.found()
    summary, found = insights.find(outcome.log, rules, ANY)
    first = replace(found.findings[0], files=["(((*", "/dev/zero", "*" * 200], sites=[Site("x" * 1000, 1 << 29)])
    wrong = [replace(first, slug=slug) for slug, rule in rules.items() if rule.trial is not None]
    shown = verify.verify(outcome.log, summary, insights.Insights(wrong), rules, Settings(), 0.2).findings
    # THEN each says that it was not tried
    assert len(shown) == len(wrong) and {one.verified.outcome for one in shown if one.verified} == {"not tried"}


def test_scratch_is_for_the_user_alone(tmp_path: Path) -> None:
    with Scratch(str(tmp_path / "file")) as scratch:
        (folder,) = left(tmp_path)
        assert folder.stat().st_mode & 0o777 == 0o700
        os.close(scratch.create("a"))
        assert (folder / "a").stat().st_mode & 0o777 == 0o600
        with pytest.raises(NotTried):
            scratch.check_room(1 << 40)
    assert not left(tmp_path)


@pytest.mark.parametrize(("mode", "owner"), [(0o777, None), (0o770, None), (0o1777, 65534)])
def test_no_scratch_where_others_can_rename_it(tmp_path: Path, mode: int, owner: int | None) -> None:
    if owner is not None and os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    # GIVEN a folder whose entries other users may rename
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    if owner is not None:
        os.chown(shared, owner, owner)
    # WHEN a scratch folder is wanted there THEN it is made in the folder above, which is the user's own
    with Scratch(str(shared / "file")):
        assert not left(shared) and left(tmp_path)


def test_a_full_disk(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a disk that is full as soon as something is written to scratch WHEN remedies are tried there
    outcome = succeeded(program.traced(EVERYTHING))
    monkeypatch.setattr(Scratch, "create", lambda *_: os.open("/dev/full", os.O_RDWR | os.O_CLOEXEC))
    monkeypatch.setattr(Scratch, "open", lambda *_: os.open("/dev/full", os.O_RDWR | os.O_CLOEXEC))
    found = {one.verified.why for one in tried(outcome) if one.slug == "sync-per-write" and one.verified}
    # THEN that is said, and nothing is left
    assert found == {"the disk is full"} and not left(program.folder)


def test_a_disk_with_no_room(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a disk of which a tenth is less than what is to be written WHEN it is tried THEN nothing is written
    outcome = succeeded(program.traced(EVERYTHING))
    monkeypatch.setattr("pyio_trace.insights.trials.scratch.MOST_BYTES", 10)
    monkeypatch.setattr(Scratch, "create", lambda *_: pytest.fail("something is made"))
    found = {one.verified.why for one in tried(outcome) if one.verified is not None}
    assert any("of scratch, 10 B is the most that is used" in why for why in found) and not left(program.folder)


def test_scratch_that_somebody_replaced(tmp_path: Path) -> None:
    # GIVEN a scratch folder WHEN somebody moves it and puts a link in its place
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("x")
    with Scratch(str(tmp_path / "file")) as scratch:
        (folder,) = left(tmp_path)
        folder.rename(tmp_path / "moved")
        folder.symlink_to(victim)
        os.close(scratch.create("precious"))
    # THEN files were made and removed in the folder itself, and the link was not followed
    assert (victim / "precious").read_text() == "x" and not list((tmp_path / "moved").iterdir())
