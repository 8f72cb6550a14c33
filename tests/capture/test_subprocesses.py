"""Children made by subprocess, os.spawn and posix_spawn: the Python ones are in the same log."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import Runner, succeeded

CHILD = """\
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for n in range(1000):
    os.pread(fd, 4096, n * 4096)
print(os.getpid())
"""

WAYS = {
    "subprocess.run": "subprocess.run(words, check=True)",
    "posix_spawn without vfork": "subprocess._USE_VFORK = False; subprocess.run(words, check=True)",
    "close_fds off": "subprocess.run(words, check=True, close_fds=False)",
    "new session": "subprocess.run(words, check=True, start_new_session=True)",
    "preexec_fn": "subprocess.run(words, check=True, preexec_fn=lambda: None)",
    "shell": "subprocess.run(shlex.join(words), check=True, shell=True)",
    "os.system": "os.system(shlex.join(words))",
    "os.popen": "print(os.popen(shlex.join(words)).read(), end='')",
    "os.posix_spawn": "os.waitpid(os.posix_spawn(words[0], words, os.environ), 0)",
    "os.spawnv": "os.spawnv(os.P_WAIT, words[0], words)",
    "asyncio": "asyncio.run(wait())",
    "thread": "worker = threading.Thread(target=subprocess.run, args=[words]); worker.start(); worker.join()",
}


@pytest.mark.parametrize("way", WAYS)
def test_python_child_is_in_the_same_log(program: Runner, data: Path, way: str) -> None:
    # GIVEN a program that starts another Python in this way
    child = program.write(CHILD, "child.py")
    text = f"""\
import asyncio, os, shlex, subprocess, sys, threading
words = [sys.executable, {str(child)!r}, sys.argv[1]]
async def wait():
    process = await asyncio.create_subprocess_exec(*words)
    await process.wait()
{WAYS[way]}
"""
    # WHEN it is run traced
    outcome = succeeded(program.traced(text, data))
    # THEN the child's reads are in the log, how it ended, and whose child it is
    pid = int(outcome.stdout)
    rows = outcome.select(op="pread", path=data)
    assert [row["file_offset"] for row in rows] == [n * 4096 for n in range(1000)]
    assert {row["pid"] for row in rows} == {pid}
    entry = outcome.process(pid)
    assert entry["ended"] == "exit 0" and entry["followed"]
    assert entry["argv"] == [sys.executable, str(child), str(data)]
    while entry["parent"] is not None:
        entry = outcome.processes[entry["parent"]]
    assert entry["pid"] == outcome.pid
    assert {other["pid"] for other in outcome.processes} >= {pid, outcome.pid}


def test_a_python_beneath_a_program_with_a_parenthesis_in_its_name(program: Runner, data: Path, tmp_path: Path) -> None:
    # GIVEN a Python started by an untraced program whose name looks like a part of /proc/PID/stat
    child = program.write(CHILD, "child.py")
    odd = tmp_path / "a) R 1"
    shutil.copy(shutil.which("sh") or "", odd)
    text = f"""\
    import os, shlex, sys
    child = shlex.join([sys.executable, {str(child)!r}, sys.argv[1]]) + "; true"
    os.system(shlex.join(["./a) R 1", "-c", child]) + "; true")
    """
    # WHEN it is run traced
    outcome = succeeded(program.traced(text, data))
    # THEN the log has the right parent for it
    entry = outcome.process(int(outcome.stdout))
    assert entry["ended"] == "exit 0" and entry["parent"] is not None
    assert outcome.processes[entry["parent"]]["pid"] == outcome.pid


def test_command_that_is_not_there(program: Runner, tmp_path: Path) -> None:
    # GIVEN a program whose threads write while it fails to start a command
    text = """\
    import subprocess, sys, threading
    ready, done = threading.Barrier(4), threading.Event()

    def work(part):
        ready.wait()
        with open(f"part{part}", "wb", buffering=0) as file:
            for n in range(300):
                file.write(b"x" * 100)
            done.wait()
            for n in range(300):
                file.write(b"x" * 100)

    threads = [threading.Thread(target=work, args=[part]) for part in range(3)]
    for thread in threads: thread.start()
    with open("main", "wb", buffering=0) as file:
        file.write(b"before")
        ready.wait()
        for n in range(20):
            try:
                subprocess.run(["/nonexistent", "x"])
            except FileNotFoundError as error:
                assert error.errno == 2 and error.filename == "/nonexistent"
                file.write(b"during")
            else:
                sys.exit("no error")
        done.set()
        for thread in threads: thread.join()
        file.write(b"after")
    """
    # WHEN it is run traced
    outcome = succeeded(program.traced(text))
    # THEN the exceptions are the same as untraced, and the operations before, during and after are there in all threads
    for part in range(3):
        rows = outcome.select(op="write", path=tmp_path / f"part{part}")
        assert [row["file_offset"] for row in rows] == [n * 100 for n in range(600)]
        assert {row["pid"] for row in rows} == {outcome.pid}
    rows = outcome.select(op="write", path=tmp_path / "main")
    assert [row["bytes_moved"] for row in rows] == [6] * 21 + [5]
    # By execve in a vfork child, or by posix_spawn (3.13).
    failed = outcome.select(op=("execve", "posix_spawn"), path="/nonexistent")  # 3.13 spawns
    assert len(failed) == 20 and {row["errno"] for row in failed} == {2}
    assert "torn" not in outcome.log.losses()


def test_child_with_an_environment_of_its_own(program: Runner, data: Path) -> None:
    # GIVEN children that are started with an empty environment, or under -E, -I and -S
    child = program.write(CHILD, "child.py")
    text = f"""\
    import subprocess, sys
    subprocess.run([sys.executable, {str(child)!r}, sys.argv[1]], env={{}}, check=True)
    """
    # WHEN it is run traced
    outcome = succeeded(program.traced(text, data))
    # THEN its reads are missing, and the log says so
    assert outcome.select(op="pread", path=data) == []
    losses = outcome.log.losses()
    assert losses["unfollowed"] == 1
    assert losses["unfollowed_children"] == [[sys.executable, str(child), str(data)]]
    entry = outcome.process(int(outcome.stdout))
    assert (entry["followed"], entry["ended"]) == (False, "exit 0")


FLAGS = {"-E": False, "-I": False, "-S": False, "-s": True, "-B": True}


@pytest.mark.parametrize(("flag", "followed"), FLAGS.items())
def test_child_with_an_interpreter_flag(program: Runner, data: Path, flag: str, followed: bool) -> None:
    # GIVEN a child Python with a flag that keeps it from the environment, from site, or from neither
    child = program.write(CHILD, "child.py")
    text = f"""\
    import subprocess, sys
    subprocess.run([sys.executable, {flag!r}, {str(child)!r}, sys.argv[1]], check=True)
    """
    # WHEN it is run traced THEN its reads are there, or that it was not followed is
    outcome = succeeded(program.traced(text, data))
    rows = outcome.select(op="pread", path=data)
    losses = outcome.log.losses()
    assert (len(rows), losses.get("unfollowed", 0)) in ([(1000, 0)] if followed else [(1000, 0), (0, 1)])
    if not rows:
        assert losses["unfollowed_children"] == [[sys.executable, flag, str(child), str(data)]]


def test_commands_that_are_not_python(program: Runner) -> None:
    # GIVEN a program that runs other commands, also in the background
    text = """\
    import subprocess
    subprocess.run(["/bin/true"], check=True)
    subprocess.run(["/bin/sh", "-c", "exit 3"])
    subprocess.run(["/bin/sh", "-c", "kill -TERM $$"])
    """
    # WHEN it is run traced THEN they are in the process table, as not followed, with their ends
    outcome = succeeded(program.traced(text))
    children = [entry for entry in outcome.processes if entry["pid"] != outcome.pid]
    assert [(entry["argv"], entry["ended"]) for entry in children] == [
        (["/bin/true"], "exit 0"), (["/bin/sh", "-c", "exit 3"], "exit 3"),
        (["/bin/sh", "-c", "kill -TERM $$"], "signal 15 (SIGTERM)"),
    ]  # fmt: skip
    assert not any(entry["followed"] for entry in children)
    assert outcome.log.losses()["unfollowed"] == 3


def test_daemon_grandchild(program: Runner, data: Path) -> None:
    # GIVEN a program that starts a daemon in the classical way (two forks and a session), which outlives it
    text = """\
    import os, sys, time
    fd = os.open(sys.argv[1], os.O_RDONLY)
    there, here = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while os.getppid() != 1 and os.getppid() == int(sys.argv[2] if len(sys.argv) > 2 else os.getppid()):
                break
            for n in range(1000):
                os.pread(fd, 4096, n * 4096)
            os.write(here, b"%d" % os.getpid())
            os._exit(4)
        os._exit(0)
    os.close(here)
    os.wait()
    print(os.read(there, 20).decode())
    """
    # WHEN it is run traced THEN the daemon's reads are there, and its end, which it wrote itself
    outcome = succeeded(program.traced(text, data))
    pid = int(outcome.stdout)
    assert len(outcome.select(op="pread", path=data, pid=pid)) == 1000
    assert outcome.process(pid)["ended"] == "exit 4"


def test_descriptors_handed_to_a_child_share_their_position(program: Runner, data: Path) -> None:
    # GIVEN a Python child whose standard input is a file that the parent has read from already
    child = program.write("import os\nfor n in range(10):\n    os.read(0, 100)\n", "child.py")
    text = f"""\
    import os, subprocess, sys
    fd = os.open(sys.argv[1], os.O_RDONLY)
    os.read(fd, 50)
    subprocess.run([sys.executable, {str(child)!r}], stdin=fd, check=True)
    os.read(fd, 7)
    """
    # WHEN it is run traced THEN the child's offsets go on from there
    outcome = succeeded(program.traced(text, data))
    rows = outcome.select(op="read", path=data)
    child_rows = [row for row in rows if row["pid"] != outcome.pid]
    assert [row["file_offset"] for row in child_rows] == [50 + n * 100 for n in range(10)]
    assert {row["fd"] for row in child_rows} == {0}


@pytest.mark.skipif(platform.machine() != "x86_64" or not shutil.which("cc"), reason="a vfork in x86-64 assembly")
def test_a_signal_just_before_a_vfork(program: Runner, tmp_path: Path) -> None:
    # GIVEN a program that vforks, and a signal between the hook and the call, whose handler does I/O
    source = Path(__file__).parents[1] / "csrc" / "vforks.c"
    for name, flags in (("before.so", ["-DBEFORE"]), ("go.so", [])):
        words = ["cc", "-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", *flags, "-o", name, source, "-ldl"]
        subprocess.run(words, check=True, cwd=tmp_path)
    text = f"""\
    import ctypes
    go = ctypes.CDLL({str(tmp_path / "go.so")!r}).go
    print(go(3))
    """
    # WHEN it is run traced
    outcome = succeeded(program.traced(text, env={"LD_PRELOAD": str(tmp_path / "before.so")}))
    assert outcome.stdout == "9\n"
    # THEN what each process did is its own
    mine = outcome.pid
    for name, who in (("handled", {mine}), ("parent", {mine})):
        rows = outcome.select(op=("open", "write", "close"), path=f"{tmp_path}/{name}")
        assert [row["op"] for row in rows] == ["open", "write", "close"] * 3 and {row["pid"] for row in rows} == who
    rows = outcome.select(op=("open", "write", "close"), path=f"{tmp_path}/child")
    pids = [row["pid"] for row in rows if row["op"] == "write"]
    assert len(rows) == 9 and len(pids) == 3 and mine not in {row["pid"] for row in rows}
    children = [entry for entry in outcome.processes if entry["pid"] in pids]
    assert [entry["ended"] for entry in children] == ["exit 3"] * len(pids)


def test_programs_that_cannot_be_started(program: Runner) -> None:
    # GIVEN starts that fail in each of the ways there are: no such file, no program, no such folder to start it in
    text = """\
    import os, subprocess, sys

    def forked(start):
        if (child := os.fork()) == 0:
            try:
                start()
            except OSError:
                os._exit(7)
        print(os.waitpid(child, 0)[1] >> 8)

    clean = {"PATH": "/nowhere:/nonexistent:/usr/bin"}
    forked(lambda: os.execve("/nonexistent", ["x"], {}))
    forked(lambda: os.execvpe("no-such-program", ["x"], clean))
    forked(lambda: os.execv("/etc/passwd", ["x"]))
    for words, more in (
        (["/nonexistent"], {}), (["/nonexistent"], {"env": {}}), (["no-such-program"], {"env": clean}),
        (["/bin/true"], {"cwd": "/nonexistent"}), (["/etc/passwd"], {"env": {}}),
        (["no-such-program"], {"env": {}, "close_fds": False}), (["/nonexistent"], {"preexec_fn": os.getpid}),
    ):
        try:
            subprocess.run(words, **more)
        except OSError:
            print("failed")
    for spawn in (os.posix_spawn, os.posix_spawnp):
        for env in ({}, clean, dict(os.environ)):
            try:
                spawn("no-such-program", ["x"], env)
            except OSError:
                print("failed")
    """
    # WHEN it is run traced THEN there is no child that was not followed, since there was none
    outcome = succeeded(program.traced(text))
    assert outcome.stdout == "7\n" * 3 + "failed\n" * 13
    assert outcome.log.losses() == {}
    children = [entry for entry in outcome.processes if entry["pid"] != outcome.pid]
    assert {(entry["followed"], entry["ended"]) for entry in children} <= {(True, "exit 7"), (True, "exit 255")}
    # ... each child was what its parent is until it ended
    own = outcome.process(outcome.pid)
    assert len(children) >= 3
    assert {(entry["executable"], *entry["argv"]) for entry in children} == {(own["executable"], *own["argv"])}
    # ... and one that is found in the last folder of PATH counts once
    text = "import subprocess; subprocess.run(['true'], env={'PATH': '/nowhere:/usr/bin:/bin'}, check=True)"
    assert succeeded(program.traced(text, log="again.pyio")).log.losses()["unfollowed"] == 1
