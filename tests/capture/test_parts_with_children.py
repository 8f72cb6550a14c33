"""trace() around a part of a program whose processes live on, or have lived before it."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import indent

import pytest

import pyio_trace
from pyio_trace.cli.main import main
from tests.support.programs import Runner, succeeded
from tests.support.waiting import wait_until

#: pyarrow, which packs the log, has threads; Python warns of fork() beside them (docs/explanation/limits.md).
START = """\
import os, signal, subprocess, sys, time, warnings
import pyio_trace
warnings.simplefilter("ignore", DeprecationWarning)
go, told = os.pipe()

def put(name, size):
    with open(name, "wb", buffering=0) as file:
        file.write(b"w" * size)

def late(name, size):
    os.read(go, 1)
    put(name, size)
"""

#: A process that outlives the block: the code in the block that starts it.
LIVING_ON = {
    "a forked child": """
        pid = os.fork()
        if pid == 0:
            put("early", 10)
            late("late", 1000)
            os._exit(0)
""",
    "a daemon": """
        middle = os.fork()
        if middle == 0:
            os.setsid()
            if os.fork() == 0:
                put("early", 10)
                late("late", 1000)
            os._exit(0)
        os.waitpid(middle, 0)
""",
    "a worker of a pool": """
        import multiprocessing
        pool = multiprocessing.get_context("fork").Pool(1)
        pool.apply(put, ("early", 10))
        pool.apply_async(late, ("late", 1000))
""",
    "a Python that has yet to join": """
        os.set_inheritable(go, True)
        code = f"import os; os.read({go}, 1); open('late', 'wb', buffering=0).write(b'w' * 1000)"
        subprocess.Popen([sys.executable, "-c", code], close_fds=False)
        put("early", 10)
""",
}  # fmt: skip


@pytest.mark.parametrize("kind", LIVING_ON)
def test_what_outlives_the_block_is_not_lost(program: Runner, tmp_path: Path, kind: str) -> None:
    # GIVEN a process of the block that goes on writing after it
    text = f"""{START}
if __name__ == "__main__":
    with pyio_trace.trace("run.parquet") as run:
        put("own", 100)
{LIVING_ON[kind]}
    print(os.path.basename(run.path))
    sys.stdout.flush()
    os.write(told, b"x")
    os.close(told)
    if "pool" in dir():
        pool.close()
        pool.join()
"""
    # WHEN it is run
    outcome = succeeded(program.bare(text))
    # THEN the live log stays, one line says so, and it has everything
    assert outcome.stdout == "run.pyio\n"
    assert outcome.stderr.startswith("pyio-trace: the log stays live, as processes still run: ")
    assert outcome.stderr.count("\n") == 1
    live = tmp_path / "run.pyio"
    wait_until(lambda: "late" in written(live, tmp_path), "the last write")
    assert written(live, tmp_path) == {"own": 100, "early": 10, "late": 1000}
    assert pyio_trace.open(live).losses() == {}


def test_parts_of_one_name(program: Runner, tmp_path: Path) -> None:
    # GIVEN two parts of one name, and a child of the first that still runs at the end of the second
    text = f"""{START}
with pyio_trace.trace("run.parquet") as first:
    if os.fork() == 0:
        late("late", 1000)
        os._exit(0)
with pyio_trace.trace("run.parquet") as second:
    put("own", 100)
print(os.path.basename(first.path), os.path.basename(second.path))
os.write(told, b"x")
"""
    # WHEN it is run THEN each has a log of its own, and the second is packed
    assert succeeded(program.bare(text)).stdout == "run.pyio run-2.parquet\n"
    assert written(tmp_path / "run-2.parquet", tmp_path) == {"own": 100}


def test_a_fork_server_that_waits_writes_nothing(program: Runner, tmp_path: Path) -> None:
    # GIVEN a pool that ends in the block, and the helpers of multiprocessing that do not
    text = f"""{START}
import multiprocessing
if __name__ == "__main__":
    with pyio_trace.trace("run.parquet") as run:
        pool = multiprocessing.get_context("forkserver").Pool(1)
        pool.apply(put, ("own", 100))
        pool.close()
        pool.join()
    print(os.path.basename(run.path))
"""
    # WHEN it is run THEN the log is packed
    outcome = succeeded(program.bare(text))
    assert (outcome.stdout, outcome.stderr) == ("run.parquet\n", "")
    assert written(tmp_path / "run.parquet", tmp_path) == {"own": 100}


def written(log: Path, folder: Path) -> dict[str, int]:
    rows = pyio_trace.open(log).operations(["op", "layer", "path", "bytes_moved"]).to_pylist()
    return {
        os.path.basename(row["path"]): row["bytes_moved"]
        for row in rows
        if row["op"] == "write" and row["layer"] == "posix" and os.path.dirname(row["path"] or "") == str(folder)
    }


OLDER = """
import concurrent.futures, multiprocessing, os, subprocess, sys
import pyio_trace

def put(name):
    with open(name, "wb", buffering=0) as file:
        file.write(b"w" * 100)
    return os.getpid()

def there():
    return multiprocessing.get_context(sys.argv[1])

if __name__ == "__main__":
"""

#: What happens before the block and in it, with multiprocessing's method; how many processes the log lacks.
OLDER_WORK = {
    "a pool": ("pool = there().Pool(2)\npool.map(put, 'ab')", "pool.map(put, 'cd')", "fork forkserver spawn", 2),
    "an executor": (
        "pool = concurrent.futures.ProcessPoolExecutor(1, mp_context=there())\npool.submit(put, 'a').result()",
        "pool.submit(put, 'b').result()", "fork", 1,
    ),
    "a program": (
        "other = subprocess.Popen(['cat'], stdin=subprocess.PIPE)", "other.communicate(b'')", "fork", 1,
    ),
    "a server's process": (
        "one = there().Process(target=put, args='a')\none.start()\none.join()",
        "one = there().Process(target=put, args='b')\none.start()\none.join()", "forkserver", 1,
    ),
    "an idle server": ("one = there().Process(target=put, args='a')\none.start()\none.join()", "pass", "forkserver", 0),
    "nothing older": ("pass", "pool = there().Pool(2)\npool.map(put, 'ab')\npool.close()\npool.join()", "fork", 0),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "method"), [(kind, one) for kind in OLDER_WORK for one in OLDER_WORK[kind][2].split()]
)
def test_processes_older_than_the_tracing_are_counted(
    program: Runner, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, method: str
) -> None:
    # GIVEN work that processes do which are older than the tracing
    before, inside, _, count = OLDER_WORK[kind]
    text = OLDER + indent(f"{before}\nwith pyio_trace.trace('run.pyio'):\n{indent(inside, '    ')}\n", "    ")
    text += "    if 'pool' in dir() and hasattr(pool, 'terminate'):\n        pool.terminate()\n"
    # WHEN it is run
    succeeded(program.bare(text, method))
    # THEN the log says how many they are, and the summary does not say that I/O is no bottleneck
    log = pyio_trace.open(tmp_path / "run.pyio")
    assert log.losses() == ({"older_processes": count} if count else {})
    assert main(["summary", str(log.path)]) == 0
    shown = capsys.readouterr().out
    if count:
        assert "older than the tracing, and not in the log" in shown
        assert "bottleneck" not in shown and "No operation was recorded." not in shown
    else:
        assert "older than" not in shown
