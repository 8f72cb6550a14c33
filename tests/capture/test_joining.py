"""Which log a process joins: a regular file of its own user's, of its own host and pid namespace, and nothing else.

A child is told of a log that is not what it should be.  It must not wait, follow a link or store a byte anywhere: it
runs untraced and says why, or begins a log of its own.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pyio_trace.log import layout
from tests.support.programs import Outcome, Runner, succeeded
from tests.support.surroundings import let_everybody_enter

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's file")
NOBODY = 65534
READS = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for n in range(50):
    os.pread(fd, 16, n)
print("done")
"""


@pytest.fixture
def live(program: Runner, data: Path) -> Path:
    """The live log of a run that has not ended: its program was killed."""
    text = f"{READS}\nimport signal\nos.kill(os.getpid(), signal.SIGKILL)"
    assert program.traced(text, data, log="live.pyio", env={"PYIO_TRACE_MAX_LOG_SIZE": "1M"}).status == -9
    return program.folder / "live.pyio"


def join(program: Runner, data: Path, log: Path, **env: str) -> Outcome:
    """A program that is told to join the run of that log, and never comes to do more than read."""
    script = program.write(READS, "child.py")
    told = {"PYIO_TRACE": "1", "PYIO_TRACE_LOG": str(log), **env}
    return succeeded(program.command([sys.executable, script, data], told, log=log))


def forge(log: Path, field: str, value: bytes) -> None:
    """Writes a field of the header."""
    with log.open("r+b") as file:
        file.seek(int(layout.HEADER.fields[field][1]))
        file.write(value)


def test_its_own(program: Runner, data: Path, live: Path) -> None:
    outcome = join(program, data, live)
    assert (outcome.stdout, outcome.stderr) == ("done\n", "")
    assert len(outcome.select(op="pread", path=data)) == 100


def _fifo(live: Path) -> None:
    live.unlink()
    os.mkfifo(live, 0o600)


def _socket(live: Path) -> None:
    live.unlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(live))


def _device(live: Path) -> None:
    live.unlink()
    os.mknod(live, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero


def _folder(live: Path) -> None:
    live.unlink()
    live.mkdir()


def _link(live: Path) -> None:
    live.rename(live.with_suffix(".real"))
    live.symlink_to(live.with_suffix(".real"))


#: what is wrong -> how to make it so, the slug of the one line
WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "another user's": (lambda live: os.chown(live, NOBODY, NOBODY), "log-not-ours"),
    "writable by its group": (lambda live: live.chmod(0o620), "log-not-ours"),
    "writable by others": (lambda live: live.chmod(0o602), "log-not-ours"),
    "a pipe": (_fifo, "not-a-file"),
    "a socket": (_socket, "not-a-file"),
    "a device": (_device, "not-a-file"),
    "a folder": (_folder, "not-a-file"),
    "a link": (_link, "not-a-file"),
    "a budget of 0": (lambda live: forge(live, "budget", bytes(8)), "not-a-log"),
    "a budget that wraps": (lambda live: forge(live, "budget", (2**64 - 4096).to_bytes(8, "little")), "not-a-log"),
    "another version": (lambda live: forge(live, "version", b"\xff\0\0\0"), "not-a-log"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_must_not_be_joined(program: Runner, data: Path, live: Path, what: str) -> None:
    make, slug = WRONG[what]
    if what in ("another user's", "a device") and os.geteuid():
        pytest.skip("only root can make one")
    make(live)
    before = live.stat()
    content = live.read_bytes() if live.is_file() else b""
    # WHEN a child is to join it THEN the child runs untraced without delay, and says nothing of it
    outcome = join(program, data, live)
    assert (outcome.stdout, outcome.stderr) == ("done\n", "")
    # AND the reason is known
    reason = program.bare(f"""
        from pyio_trace.capture.runtime import tracer
        from pyio_trace.config import Config
        try:
            tracer.start(Config(), {str(live)!r}, None, create=False)
        except Exception as problem:
            print(problem)
    """, name="reason.py")  # fmt: skip
    assert reason.stdout.endswith(f"[{slug}]\n")
    # AND nothing of it has changed
    now = live.stat()
    assert (now.st_ino, now.st_mode, now.st_size) == (before.st_ino, before.st_mode, before.st_size)
    assert not content or live.read_bytes() == content


@root_only
def test_another_user_joins_no_log_of_ours(program: Runner, live: Path) -> None:
    let_everybody_enter(program.folder)
    live.chmod(0o644)  # it is the owner that counts
    outcome = succeeded(program.bare(f"""
        import os
        from pyio_trace.capture.instrumentation import instrument_registry
        from pyio_trace.capture.runtime import start_errors, tracer
        from pyio_trace.config import Config
        found = instrument_registry.names()
        instrument_registry.names = lambda *_: found  # that user may not be able to read where the package is installed
        with_all_imported = tracer.start(Config(), os.path.abspath("first.pyio"), None, create=True)
        tracer.stop()
        os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
        try:
            tracer.start(Config(), {str(live)!r}, None, create=False)
        except Exception as problem:
            print(problem)
    """))  # fmt: skip
    assert outcome.stdout.count("\n") == 1 and outcome.stdout.endswith("[log-not-ours]\n")


#: what is wrong with the place -> the field to forge
ELSEWHERE = {
    "another boot": ("boot_id", b"00000000-0000-4000-8000-000000000000"),
    "another namespace": ("namespace_inode", (4026531999).to_bytes(8, "little")),
    "a namespace of another kind": ("namespace_device", (77).to_bytes(8, "little")),
    "a namespace that could not be read": ("namespace_inode", bytes(8)),
}


@pytest.mark.parametrize("what", ELSEWHERE)
@pytest.mark.parametrize("ending", ["pyio", "parquet"])
def test_a_log_of_elsewhere(program: Runner, data: Path, live: Path, what: str, ending: str) -> None:
    # GIVEN a run whose log is another host's or container's
    forge(live, *ELSEWHERE[what])
    before = live.read_bytes()
    # WHEN a program joins the run, and starts one more
    text = (
        READS
        + """
import subprocess
if len(sys.argv) == 2:
    subprocess.run([sys.executable, __file__, sys.argv[1], "again"], check=True)
"""
    )
    script = program.write(text, "child.py")
    told = {"PYIO_TRACE": "1", "PYIO_TRACE_LOG": str(live)}
    if ending == "parquet":
        told["PYIO_TRACE_FINAL"] = str(live.with_suffix(".parquet"))
    outcome = succeeded(program.command([sys.executable, script, data], told))
    # THEN both are in a second log, and the run's own log is unchanged
    assert outcome.stdout == "done\n" * 2
    (path,) = program.folder.glob(f"live-{os.uname().nodename}-{outcome.pid}.*")
    assert outcome.stderr == "" and path.suffix == f".{ending}"
    assert live.read_bytes() == before
    own = Outcome(0, "", "", path)
    assert len(own.select(op="pread", path=data)) == 100
    assert len({process["pid"] for process in own.processes}) == 2
    assert own.log.losses() == {}
    # AND the folder is one run of two logs
    both = Outcome(0, "", "", program.folder)
    logs = both.log.info()["logs"]
    assert len(logs) == 2 and logs[0]["run"] == logs[1]["run"]
    assert len(both.select(op="pread", path=data)) == 150


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one by one"])
@pytest.mark.parametrize("ending", ["pyio", "parquet"])
def test_children_in_namespaces_in_which_they_have_one_number(
    program: Runner, data: Path, ending: str, at_once: bool
) -> None:
    # GIVEN a program whose three children are process 1 of three containers WHEN they read, at once or one by one
    unshare = ["unshare", "--pid", "--fork", "--mount-proc"]
    if os.geteuid() or subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("needs root and unshare --pid")
    text = (
        READS
        + f"""
import subprocess
if len(sys.argv) == 2:
    children = []
    for n in range(3):
        children.append(subprocess.Popen([*{unshare!r}, sys.executable, __file__, sys.argv[1], "inside"]))
        if not {at_once}:
            children[-1].wait()
    assert [child.wait() for child in children] == [0] * 3
"""
    )
    outcome = succeeded(program.traced(text, data, log=f"run.{ending}"))
    # THEN each has a whole log of its own
    assert outcome.stderr == ""
    inside = program.folder.glob("run-*")
    counts = [len(Outcome(0, "", "", path).select(op="pread", path=data)) for path in inside]
    assert counts == [50] * 3


@pytest.mark.parametrize("ending", ["pyio", "parquet"])
def test_a_child_in_another_namespace(program: Runner, data: Path, ending: str) -> None:
    unshare = ["unshare", "--pid", "--fork", "--mount-proc"]
    if os.geteuid() or subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("needs root and unshare --pid")
    text = (
        READS
        + f"""
import subprocess
if len(sys.argv) == 2:
    subprocess.run([*{unshare!r}, sys.executable, __file__, sys.argv[1], "inside"], check=True)
    for n in range(50):
        os.pread(fd, 16, n)
"""
    )
    outcome = succeeded(program.traced(text, data, log=f"run.{ending}"))
    assert outcome.stderr == ""
    assert len(outcome.select(op="pread", path=data)) == 100
    (inside,) = program.folder.glob("run-*")
    assert inside.name == f"run-{os.uname().nodename}-1.{ending}"
    assert len(Outcome(0, "", "", inside).select(op="pread", path=data)) == 50
    both = Outcome(0, "", "", program.folder)
    assert len({log["run"] for log in both.log.info()["logs"]}) == 1
    assert len(both.select(op="pread", path=data)) == 150


def test_a_log_of_a_run_that_has_ended(program: Runner, data: Path, live: Path) -> None:
    with live.open("r+b") as file:
        file.truncate(1 << 19)
    outcome = join(program, data, live)
    assert (outcome.stdout, outcome.stderr) == ("done\n", "")
    assert live.stat().st_size == 1 << 19
