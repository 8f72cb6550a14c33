"""The cost of starting and ending processes: interpreter start-up, fork, spawn."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter

import pyio_trace
from benchmarks.hot import ready_but_waiting
from benchmarks.measure import Pair, alternate

ROUNDS = 41
MS = 1e-3
NS = 1e-9
#: Limit for a start-up with the package installed but switched off: far below what start-ups differ by anyway.
UNNOTICED = 0.1 * MS


def run(words: list[str], environment: Mapping[str, str]) -> float:
    """Seconds from the start to the end of a program, without the time it waited for a processor."""
    begin = perf_counter()
    pid = os.posix_spawn(words[0], words, environment)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    took = perf_counter() - begin
    waited = int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) * NS
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise RuntimeError(f"{' '.join(words)} ended with status {status}")
    return took - waited


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYIO_TRACE")}


def start_up(folder: Path) -> list[Pair]:
    """`python -c pass`: installed but switched off, traced by a variable, and launched by pyio_trace."""
    log = str(folder / "start.pyio")
    bare = clean_environment()
    on = {**bare, "PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": log, "PYIO_TRACE_QUIET": "1"}
    pass_ = [sys.executable, "-c", "pass"]
    launch = [sys.executable, "-m", "pyio_trace", "-q", "-o", log, "-c", "pass"]
    without, with_ = twins(folder)
    return [
        _pair(
            "start-up, installed but switched off",
            [without, "-c", "pass"],
            [with_, "-c", "pass"],
            bare,
            UNNOTICED,
            4 * ROUNDS,  # it takes more rounds to show that there is no difference
        ),
        _pair("start-up, PYIO_TRACE=1", pass_, pass_, on, 20 * MS),
        _pair("start-up, python -m pyio_trace", pass_, launch, bare, 20 * MS),
    ]


def _pair(
    work: str, bare: list[str], traced: list[str], environment: dict[str, str], limit: float, rounds: int = ROUNDS
) -> Pair:
    clean = clean_environment()
    return Pair(work, "", "ms", alternate(lambda: run(bare, clean), lambda: run(traced, environment), rounds), limit)


def twins(folder: Path) -> tuple[str, str]:
    """Two interpreters with nothing installed, except that the second has the files that start pyio_trace."""
    found = []
    site = Path(pyio_trace.__file__).parents[1]
    for name in ("without", "with"):
        home = folder / f"python-{name}"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True, env=clean_environment())
        packages = next(home.glob("lib/python*/site-packages"))
        if name == "with":
            shutil.copy(site / "pyio_trace.pth", packages)
            shutil.copy(site / "_pyio_trace_start.py", packages)
        found.append(str(home / "bin" / "python"))
    return found[0], found[1]


def fork(folder: Path) -> list[Pair]:
    """A child that exits at once: forked; spawned, not Python, and not followed; the same, followed."""
    return [
        _in_process("os.fork, os._exit, wait", fork_one, 200, folder),
        _in_process("posix_spawn of /bin/true, wait", spawn_one, 50, folder),
        _in_process("posix_spawn of /bin/true, wait, --follow=all", spawn_one, 50, folder, "all"),
    ]


def fork_one() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def spawn_one() -> None:
    os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)


def _in_process(work: str, one: Callable[[], None], times: int, folder: Path, follow: str = "python") -> Pair:
    log = folder / "fork.pyio"

    def bare() -> float:
        waited = ready_but_waiting()
        begin = perf_counter()
        for _ in range(times):
            one()
        took = perf_counter() - begin
        return (took - (ready_but_waiting() - waited) * NS) / times

    def traced() -> float:
        with pyio_trace.trace(log, follow=follow):
            took = bare()
        log.unlink()
        return took

    return Pair(work, "", "us", alternate(bare, traced, ROUNDS))
