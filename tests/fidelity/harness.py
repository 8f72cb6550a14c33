"""Runs one program under strace and under the tracer at the same time and compares the two."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyio_trace
from tests.fidelity import strace
from tests.fidelity.callsite import Way, site_of
from tests.fidelity.compare import Result, Row, beginnings, compare
from tests.fidelity.programs import ALL, FILES, Program
from tests.fidelity.world import World
from tests.support.programs import clean_environment


@dataclass
class Run:
    """result: of the comparison; status: of the program; output: what it printed; folder: where it ran."""

    result: Result
    status: int
    output: str
    losses: dict[str, object]
    world: World
    rows: list[Row]
    folder: Path


def missing_needs(program: Program) -> list[str]:
    """The modules that a program needs and that are not here."""
    return [name for name in program.needs if importlib.util.find_spec(name) is None]


def run(program: Program, folder: Path, timeout: float = 1200) -> Run:
    """Runs a program in a folder of its own and compares."""
    work = folder / "work"
    work.mkdir(parents=True)
    return run_words([sys.executable, *program.command(folder)], work, folder, include=program.include, timeout=timeout)


def run_words(
    command: list[str], work: Path, folder: Path, variables: dict[str, str] | None = None, include: str = FILES,
    timeout: float = 1200,
) -> Run:  # fmt: skip
    """Runs a command in `work` and compares; strace's output and the log go to `folder`."""
    recording, log = folder / "strace.out", folder / "run.pyio"
    words, extra = strace.command(recording)
    settings = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": str(log), "PYIO_TRACE_QUIET": "1",
                "PYIO_TRACE_SAMPLE": "off",  # strace would follow the sampler, too, and none of its calls has a row
                "PYIO_TRACE_INCLUDE": include, **(variables or {})}  # fmt: skip
    env = clean_environment(**settings, **extra)
    # Files: a pipe would be a descriptor that is left out, and its reader one more process to wait for.
    with (folder / "output").open("w+b") as output:
        done = subprocess.run(
            [*words, *command], cwd=work, env=env, timeout=timeout, stdin=subprocess.DEVNULL, stdout=output,
            stderr=output,
        )  # fmt: skip
        output.seek(0)
        text = output.read().decode(errors="backslashreplace")
    read = strace.read(recording)
    opened = pyio_trace.open(log)
    world, rows = World(read, str(work), include == ALL), opened.operations().to_pylist()
    result = compare(world, rows)
    result.unexplained += [f"not understood: {line}" for line in read.unread]
    check_counted(result, opened.counters().to_pylist())
    return Run(result, done.returncode, text, opened.losses(), world, rows, work)


#: strace's word for what a descriptor is -> ours (log_records.h, enum pt_desc_kind).
KINDS = {"pipe:": "pipe", "socket:": "socket", "anon_inode:": "anon", "memfd:": "anon", "dev/pts/": "terminal"}


def check_counted(result: Result, counters: list[dict[str, object]]) -> None:
    """What was left out by kind must have been counted; calls on streams, which strace does not see, are too."""
    ours: Counter[str] = Counter()
    for row in counters:
        if row["why"] == "excluded":
            ours[str(row["kind"])] += int(str(row["calls"]))
    theirs: Counter[str] = Counter()
    for word, count in result.excluded.items():
        theirs[KINDS.get(word, word)] += count
    for kind in sorted(theirs):
        if ours[kind] < theirs[kind]:
            result.wrong(f"left out as {kind}: {theirs[kind]} calls, {ours[kind]} counted")


def bare_calls(program: Program, folder: Path) -> list[list[tuple[object, ...]]]:
    """The calls on the program's folder when it is not traced by us, thread by thread."""
    work = folder / "work"
    work.mkdir(parents=True)
    words, extra = strace.command(folder / "strace.out", stacks=False)
    words += [sys.executable, *program.command(folder)]
    subprocess.run(words, cwd=work, env=clean_environment(**extra), check=True, capture_output=True)
    return calls_on(World(strace.read(folder / "strace.out"), str(work)), work)


def calls_on(world: World, folder: Path) -> list[list[tuple[object, ...]]]:
    """The program's calls on files of a folder, without its name: those of each thread in order.

    The threads come in the order of what they did, since which of several begins first is chance.  Made-up names of
    tempfile are all the same; addresses are left out.
    """
    threads: dict[int, list[tuple[object, ...]]] = {}
    began = beginnings(world)
    for seen in world.seen:
        call = seen.call
        inside = seen.path is not None and (seen.path == str(folder) or seen.path.startswith(f"{folder}/"))
        if call.start < began.get(seen.image, 0):
            continue
        if not inside or site_of(call.frames).way is Way.OURS or call.name in ("mmap", "munmap", "getdents64"):
            continue
        path = re.sub(r"\btmp[a-z0-9_]{8}|#\d+ ", "tmpXXXXXXXX", str(seen.path)[len(str(folder)) :])
        threads.setdefault(call.tid, []).append((call.name, path, seen.number, call.error or call.result))
    return sorted(threads.values(), key=repr)
