"""--max-memory bounds the tracer's own memory, however many names and stacks it meets."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pytest

from tests.support.programs import Outcome, Runner, succeeded

MIB = 1 << 20
#: Beside the tables: the core's other memory, and what Python needs to be traced.
REST = 2 * MIB

TOLD = """
import os
def rss():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("RssAnon"))
"""
PATHS = """
import sys
passes, count = map(int, sys.argv[1:])
for n in range(count * passes):
    try: os.stat(f"/nowhere/{n % count}")
    except OSError: pass
print(rss())
"""
STACKS = """
import sys
[count] = map(int, sys.argv[1:])
for n in range(count):
    names = {"os": os}
    exec(f"def function{n}():\\n os.access('/nowhere', 0)", names)
    names[f"function{n}"]()
print(rss())
"""


def grown(program: Runner, text: str, *args: object, memory: str = "") -> tuple[Outcome, int]:
    """A traced run of a program that prints what it takes, and by how much that is more than untraced."""
    bare = succeeded(program.bare(TOLD + text, *args))
    traced = succeeded(program.traced(TOLD + text, *args, env={"PYIO_TRACE_MAX_MEMORY": memory}))
    return traced, int(traced.stdout) - int(bare.stdout)


def test_distinct_paths(program: Runner) -> None:
    # GIVEN a program that meets more names than the tables may hold, each of them twice
    passes, count = 2, 50_000
    # WHEN it is traced
    outcome, more = grown(program, PATHS, passes, count, memory="1M")
    # THEN it takes no more than it may
    assert more < 1 * MIB + REST
    # THEN all of its calls are there, and each file is one file
    calls = outcome.table.filter(pc.equal(outcome.table["op"].cast("string"), "stat"))
    names = pc.value_counts(calls["path"].cast("string")).to_pylist()
    told = {each["values"]: each["counts"] for each in names if each["values"].startswith("/nowhere/")}
    assert told == {f"/nowhere/{n}": passes for n in range(count)}
    assert outcome.log.losses() == {}


def test_distinct_stacks(program: Runner) -> None:
    # GIVEN a program that makes ever new functions
    count = 15_000
    # WHEN it is traced
    outcome, more = grown(program, STACKS, count, memory="1M")
    # THEN it takes no more than it may, and each call has its stack
    assert more < 1 * MIB + REST
    calls = outcome.table.filter(pc.equal(outcome.table["path"].cast("string"), "/nowhere"))
    found = Counter(stack.rpartition(";")[2] for stack in calls["call_stack"].cast("string").to_pylist())
    assert found == {f"<string>:2:function{n}": 1 for n in range(count)}


def test_sums_of_a_profile(program: Runner) -> None:
    # GIVEN a profiled program with more sums than the tables can hold
    passes, count = 2, 30_000
    bare = succeeded(program.bare(TOLD + PATHS, passes, count))
    env = {"PYIO_TRACE_MAX_MEMORY": "1M", "PYIO_TRACE_MODE": "profile"}
    outcome = succeeded(program.traced(TOLD + PATHS, passes, count, env=env))
    # THEN it takes no more than it may, and the sums are right
    assert int(outcome.stdout) - int(bare.stdout) < 1 * MIB + REST
    calls = outcome.table.filter(pc.equal(outcome.table["op"].cast("string"), "stat"))
    calls = calls.filter(pc.starts_with(calls["path"].cast("string"), "/nowhere/"))
    sums = calls.group_by("path").aggregate([("calls", "sum")])
    assert pc.sum(calls["calls"]).as_py() == passes * count
    assert len(sums) == count


def test_a_second_run_in_one_process(program: Runner) -> None:
    # GIVEN a process that fills the tables in one run
    # WHEN it begins another THEN names that the first run interned are interned again
    text = """
    import os, sys, pyio_trace
    for log in sys.argv[1:]:
        with pyio_trace.trace(log, max_memory="1M"):
            for n in range(40_000):
                os.access(f"/nowhere/{n}", 0)
    """
    logs = [program.folder / "one.pyio", program.folder / "two.pyio"]
    program.write(text)
    for log in logs:
        outcome = program.bare(text, *logs)
        outcome = Outcome(succeeded(outcome).status, "", "", log)
        paths = pc.unique(outcome.table["path"].cast("string")).to_pylist()
        assert {f"/nowhere/{n}" for n in range(40_000)} <= set(paths)


@pytest.mark.slow
def test_a_million_paths(program: Runner) -> None:
    # GIVEN as many names as made it take 46 MB WHEN they are met THEN the default bound holds, and no file is missing
    outcome, more = grown(program, PATHS, 1, 1_200_000)
    assert more < 32 * MIB
    paths = pc.unique(outcome.table["path"].cast("string"))
    assert pc.sum(pc.starts_with(paths, "/nowhere/")).as_py() == 1_200_000


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A cgroup whose processes have 45 MiB together, of which the program's names may not take more than their part."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    places = {name: path for _, names, path in (line.split(":", 2) for line in lines) for name in names.split(",")}
    ways = [("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("", "/sys/fs/cgroup", "memory.max")]
    for kind, root, limit in ways:
        group = Path(f"{root}{places.get(kind, '/nowhere')}/pyio_trace_test")
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if not (group / limit).exists():
                continue
            (group / limit).write_text(str(45 * MIB))
            yield group
            return
        finally:
            group.rmdir()
    pytest.skip("no cgroup with a limit of memory can be made here")


@pytest.mark.slow
def test_a_program_in_a_small_group_lives(program: Runner, small_group: Path) -> None:
    # GIVEN a program in a cgroup in which there is room for it, and for what the tracer may take
    program.write(TOLD + PATHS)
    python = f'echo $$ > {small_group}/cgroup.procs; exec "$@"'
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": "run.pyio", "PYIO_TRACE_QUIET": "1"}
    # WHEN it meets a million names THEN it is not killed for them
    succeeded(program.command(["sh", "-c", python, "sh", sys.executable, "program.py", 1, 1_200_000], env))
