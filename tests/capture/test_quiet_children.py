"""A child of a traced program: its stderr has no word of ours, and it may trace itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pyio_trace
from tests.support.programs import Runner, succeeded

#: How a child becomes one that cannot join the run's log: arguments of subprocess.run, and words before its command.
APART = {
    "another user": ("user=65534, group=65534, extra_groups=[]", []),
    "another pid namespace": ("", ["unshare", "--pid", "--fork", "--mount-proc"]),
    "a removed log": (
        "preexec_fn=lambda: 'PYIO_TRACE_LOG' in os.environ and os.unlink(os.environ['PYIO_TRACE_LOG'])",
        [],
    ),
}
COMMANDS = {"Python": [sys.executable, "-c", "pass"], "another program": ["/bin/true"]}


def may_run(command: list[str]) -> bool:
    try:
        return subprocess.run(command, user=65534, cwd="/").returncode == 0
    except PermissionError:
        return False


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("apart", APART)
def test_nothing_is_said_on_a_childs_stderr(program: Runner, tmp_path: Path, apart: str, command: str) -> None:
    given, before = APART[apart]
    if os.geteuid() or (before and subprocess.run([*before, "true"], capture_output=True).returncode):
        pytest.skip("needs root, and perhaps unshare --pid")
    if apart == "another user" and not may_run(COMMANDS[command]):
        pytest.skip("another user may not run this Python")
    # GIVEN a child that cannot join the log of its parent
    tmp_path.chmod(0o755)
    text = f"""
        import os, subprocess
        done = subprocess.run({[*before, *COMMANDS[command]]!r}, capture_output=True, text=True, cwd="/", {given})
        print(done.returncode, repr(done.stderr))
    """
    # WHEN it runs, with and without -q THEN its stderr is as it is untraced
    for quiet in ([], ["-q"]):
        words = [sys.executable, "-m", "pyio_trace", *quiet, "--follow=all", "-o", "run.pyio", program.write(text)]
        assert succeeded(program.command(words)).stdout == program.bare(text).stdout
    # AND the parent's log has it
    if apart == "another user":
        assert pyio_trace.open(tmp_path / "run.pyio").losses()["unfollowed_children"] == [COMMANDS[command]]


CHILDREN = {
    "forked": "pid = os.fork()\nif pid == 0:\n    part()\n    os._exit(0)\nos.waitpid(pid, 0)",
    "a process": "multiprocessing.get_context('fork').Process(target=part).start()",
    "a program": "subprocess.run([sys.executable, __file__, 'child'], check=True)",
}


@pytest.mark.parametrize("own", ["trace()", "a launch"])
@pytest.mark.parametrize("child", CHILDREN)
def test_a_child_that_traces_itself(program: Runner, tmp_path: Path, child: str, own: str) -> None:
    # GIVEN a traced program with a child that traces a part of its own
    text = f"""
import multiprocessing, os, subprocess, sys
import pyio_trace

def part():
    with pyio_trace.trace("other.pyio") as run:
        with open("inside", "wb", buffering=0) as file:
            file.write(b"w" * 100)
    os.mkdir("after")
    print(os.path.basename(run.path), flush=True)

def children():
{"".join(f"    {line}{chr(10)}" for line in CHILDREN[child].splitlines())}

if sys.argv[1:] == ["child"]:
    part()
elif {own == "a launch"}:
    children()
else:
    with pyio_trace.trace("run.pyio"):
        children()
"""
    # WHEN it is run
    outcome = program.traced(text) if own == "a launch" else program.bare(text)
    # THEN that part is a span in the run's log
    assert succeeded(outcome).stdout == "run.pyio\n" and outcome.stderr == ""
    rows = {row["id"]: row for row in pyio_trace.open(tmp_path / "run.pyio").operations().to_pylist()}
    (span,) = [row for row in rows.values() if row["op"] == "trace" and row["layer"] == "user"]
    (write,) = [row for row in rows.values() if row["op"] == "write" and row["path"] == str(tmp_path / "inside")
                and row["layer"] == "posix"]  # fmt: skip
    (after,) = [row for row in rows.values() if row["op"] == "mkdir"]

    def spans(row):
        while row["parent"]:
            row = rows[row["parent"]]
            yield row["id"]

    assert span["id"] in spans(write) and span["id"] not in spans(after)


def test_a_pool_leaves_the_span_in_which_it_was_forked(program: Runner, tmp_path: Path) -> None:
    # GIVEN pools that are made in one span, and work in another and in none
    text = """
import concurrent.futures, multiprocessing, os
import pyio_trace

def put(name):
    with open(name, "wb", buffering=0) as file:
        file.write(b"w" * 100)

def loop(jobs, done):
    for name in iter(jobs.recv, None):
        put(name)
        done.send(name)

fork = multiprocessing.get_context("fork")
ours, theirs = fork.Pipe()
with pyio_trace.span("a"):
    executor, pool = concurrent.futures.ProcessPoolExecutor(1, mp_context=fork), fork.Pool(1)
    process = fork.Process(target=loop, args=(theirs, theirs), daemon=True)
    process.start()

    def all_put(name):
        executor.submit(put, f"executor-{name}").result()
        pool.apply(put, (f"pool-{name}",))
        ours.send(f"process-{name}")
        ours.recv()

    all_put("a")
with pyio_trace.span("b"):
    all_put("b")
all_put("none")
executor.shutdown()
pool.close()
pool.join()
ours.send(None)
process.join()
"""
    # WHEN it is run
    log = succeeded(program.traced(text)).log
    rows = {row["id"]: row for row in log.operations().to_pylist()}

    def user_span(row):
        while row and row["layer"] != "user":
            row = rows.get(row["parent"])
        return row and row["op"]

    # THEN what they did for a is in a, and nothing else is
    found = {Path(row["path"]).name: user_span(row) for row in rows.values()
             if row["op"] == "write" and row["layer"] == "posix" and row["path"].startswith(str(tmp_path))}  # fmt: skip
    assert len(found) == 9
    assert {name for name, span in found.items() if span == "a"} == {"executor-a", "pool-a", "process-a"}


#: How a program comes to another root folder: what the traced one runs; {root}: the folder; {program}: the path in it.
CHROOTS = {
    "before exec": "subprocess.run([{program!r}], preexec_fn=lambda: os.chroot({root!r}), **heard)",
    "by a program": "subprocess.run(['chroot', {root!r}, {program!r}], **heard)",
    "beside another library": (
        "subprocess.run([{program!r}], preexec_fn=lambda: os.chroot({root!r}), "
        "env={{**os.environ, 'LD_PRELOAD': os.environ.get('LD_PRELOAD', '') + ':libc.so.6'}}, **heard)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", CHROOTS)
def test_the_loader_says_nothing_in_a_chroot(program: Runner, tmp_path: Path, how: str) -> None:
    if os.geteuid():
        pytest.skip("only root may change its root folder")
    # GIVEN a folder with a program and its libraries
    root = tmp_path / "root"
    listed = subprocess.run(["ldd", "/bin/true"], capture_output=True, text=True, check=True).stdout
    for path in ["/bin/true", *(word for word in listed.split() if word.startswith("/"))]:
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path[1:])
    text = f"""
        import os, subprocess
        heard = dict(capture_output=True, text=True)
        done = {CHROOTS[how].format(root=str(root), program="/bin/true")}
        print(done.returncode, repr(done.stderr))
    """
    # WHEN a traced program runs it there THEN its stderr is as it is untraced
    words = [sys.executable, "-m", "pyio_trace", "--follow=all", "-o", "run.pyio", program.write(text)]
    assert succeeded(program.command(words)).stdout == program.bare(text).stdout == "0 ''\n"
