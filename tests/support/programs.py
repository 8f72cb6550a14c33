"""Running real programs, traced and bare, and reading what their logs say.

Every test of the capture goes through here: a program is a file in the test's
folder, run by the interpreter of the tests with the installed package, in an
environment in which only the test's own PYIO_TRACE_* variables are set.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import pyio_trace
from pyio_trace.join.sources.facade import Log
from tests.support import waiting

#: No program of a test may take longer: a hang is a finding.
TIMEOUT = 300
#: What a killed program has written can be read at once, so this is enough on any machine.
LAST_WORDS = 10
#: The end of a program in which Arrow has read a Python file.  A thread of its pool that releases the file while the
#: interpreter ends never gets the GIL: from 3.14 on the thread waits for it and exit() for the thread, before that the
#: C++ library aborts.  3 % and 0.3 % of bare runs on a busy machine.
LEAVE = "\nimport os, sys\nsys.stdout.flush()\nos._exit(0)\n"
#: How often a program is run untraced, at most, to see all that it does.
MOST_BARE_RUNS = 20
#: What multiprocessing's resource tracker says of semaphores.  The names are random.
TRACKER = re.compile(
    r"^\S*resource_tracker\.py:\d+: UserWarning: resource_tracker: There appear to be (\d+) leaked .*\n(?:  .*\n)?"
    r"(?:\S*resource_tracker\.py:\d+: UserWarning: resource_tracker: '[^']*': \[Errno 2\] .*\n(?:  .*\n)?)+",
    re.MULTILINE,
)

Row = dict[str, Any]


def clean_environment(**extra: str | None) -> dict[str, str]:
    """This environment without anything of ours or of the test run's; None removes a variable."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYIO_TRACE", "PYTHON", "COV_"))}
    for name, value in extra.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = value
    return kept


@dataclass
class Outcome:
    """How a program ended and what it left.  path: its log, which may not be there; again: runs it once more."""

    status: int
    stdout: str
    stderr: str
    path: Path
    pid: int = 0
    again: Callable[[], Outcome] | None = None

    @property
    def visible(self) -> tuple[int, str, str]:
        """What anybody can see of it."""
        return self.status, self.stdout, without_late_notices(self.stderr)

    @cached_property
    def log(self) -> Log:
        """The log as of the first look."""
        return pyio_trace.open(self.path)

    @cached_property
    def table(self) -> pa.Table:
        """The operations table."""
        return self.log.operations()

    @cached_property
    def rows(self) -> list[Row]:
        """The operations table as dicts, in its order."""
        return list(self.table.to_pylist())

    @cached_property
    def _by_id(self) -> dict[int, Row]:
        return {row["id"]: row for row in self.rows}

    @cached_property
    def processes(self) -> list[Row]:
        """The process table as dicts."""
        return list(self.log.processes().to_pylist())

    def select(self, **wanted: Any) -> list[Row]:
        """Rows whose columns have these values; a callable is asked; op=("read", "pread") means any of them."""
        table = self.table
        for name, value in wanted.items():  # whole columns first: a table may have millions of rows
            if value is not None and not callable(value):
                values = value if isinstance(value, (tuple, list, set, frozenset)) else [value]
                texts = [str(v) if isinstance(v, Path) else v for v in values]
                table = table.filter(pc.is_in(_plain(table[name]), pa.array(texts, _plain(table[name]).type)))
        rest = {name: value for name, value in wanted.items() if value is None or callable(value)}
        return [row for row in table.to_pylist() if all(_fits(row[name], value) for name, value in rest.items())]

    def process(self, pid: int) -> Row:
        """The newest entry of the process with that number."""
        return [entry for entry in self.processes if entry["pid"] == pid][-1]

    def parents(self, row: Row) -> list[Row]:
        """The chain of spans a row happened in, innermost first."""
        chain: list[Row] = []
        while row["parent"] is not None:
            row = self._by_id[row["parent"]]
            chain.append(row)
        return chain


def _plain(column: Any) -> Any:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def _fits(value: Any, wanted: Any) -> bool:
    return bool(wanted(value)) if callable(wanted) else value is wanted


@dataclass
class Runner:
    """Runs programs in one folder.  Made by the fixture `program`."""

    folder: Path

    def write(self, text: str, name: str = "program.py") -> Path:
        """A program's text, dedented, as a file."""
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return path

    def write_waiting(self) -> None:
        """tests/support/waiting.py beside the programs, for them to import."""
        shutil.copy(waiting.__file__, self.folder)

    def traced(
        self,
        text: str,
        *args: object,
        name: str = "program.py",
        log: str | Path = "run.pyio",
        flags: Sequence[str] = (),
        env: Mapping[str, str | None] | None = None,
        python: str = sys.executable,
        before: Callable[[], object] | None = None,
        stdin: str | None = None,
    ) -> Outcome:
        """Runs it under PYIO_TRACE=1, quietly, into `log` of the folder."""
        path = self.folder / log
        extra = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": str(path), "PYIO_TRACE_QUIET": "1", **(env or {})}
        return self._run([python, *flags, str(self.write(text, name)), *map(str, args)], extra, path, before, stdin)

    def bare(
        self,
        text: str,
        *args: object,
        name: str = "program.py",
        flags: Sequence[str] = (),
        env: Mapping[str, str | None] | None = None,
        before: Callable[[], object] | None = None,
        stdin: str | None = None,
    ) -> Outcome:
        """Runs it untraced."""
        words = [sys.executable, *flags, str(self.write(text, name)), *map(str, args)]

        def again() -> Outcome:
            return self._run(words, env or {}, self.folder / "none.pyio", before, stdin)

        return replace(again(), again=again)

    def command(
        self,
        words: Sequence[object],
        env: Mapping[str, str | None] | None = None,
        log: str | Path = "run.pyio",
        cwd: Path | None = None,
    ) -> Outcome:
        """Runs any command in the folder."""
        return self._run([str(word) for word in words], env or {}, self.folder / log, None, None, cwd)

    def _run(
        self,
        words: list[str],
        extra: Mapping[str, str | None],
        path: Path,
        before: Callable[[], object] | None,
        stdin: str | None,
        cwd: Path | None = None,
    ) -> Outcome:
        process = subprocess.Popen(
            words, cwd=cwd or self.folder, env=clean_environment(**extra), text=True, errors="backslashreplace",
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=before, start_new_session=True,
        )  # fmt: skip
        out, err = output_of(process, stdin)
        return Outcome(process.returncode, out, err, path, process.pid)


def output_of(process: subprocess.Popen[str], stdin: str | None = None, timeout: float = TIMEOUT) -> tuple[str, str]:
    """What a program wrote, which leads a session of its own.

    The program hangs if it, or an orphan of it that holds its output, takes longer than the timeout: then all of its
    session is killed, and the test fails.
    """
    try:
        return process.communicate(stdin, timeout=timeout)
    except subprocess.TimeoutExpired:
        state = "hangs" if process.poll() is None else f"ended with {process.returncode}, but its output is held open"
        kill_session(process)
        out, err = _last_words(process)
        raise AssertionError(f"the program {state}\nstdout: {out}\nstderr: {err}") from None
    except BaseException:
        kill_session(process)
        raise


def kill_session(process: subprocess.Popen[str]) -> None:
    """Ends the program and all it started, but what has a session of its own."""
    for entry in Path("/proc").iterdir():
        try:
            # after the name, which may contain anything: state, parent, group, session
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if entry.name.isdigit() and int(fields[3]) == process.pid:
                os.kill(int(entry.name), signal.SIGKILL)
        except (OSError, IndexError):  # it has ended meanwhile
            continue
    process.kill()
    process.wait()


def _last_words(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What a killed program had written.  A daemon may hold its pipes for ever, so nothing waits for their end."""
    try:
        return process.communicate(timeout=LAST_WORDS)
    except subprocess.TimeoutExpired as problem:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        texts = [part.decode(errors="backslashreplace") if part else "" for part in (problem.output, problem.stderr)]
        return texts[0], texts[1]


def without_late_notices(stderr: str) -> str:
    """What was said, without warnings about semaphores of multiprocessing that are gone.

    The thread that feeds a queue unlinks the queue's semaphores and then tells the tracker.  It is a daemon, and
    torch's loaders do not join it, so the end of the process can fall in between: 5 % of bare runs beside five
    others.  A semaphore that is really left is unlinked by the tracker, without [Errno 2], and stays in the text.
    """

    def all_gone(warning: re.Match[str]) -> bool:
        return int(warning[1]) == warning[0].count("[Errno 2]")

    return TRACKER.sub(lambda warning: "" if all_gone(warning) else warning[0], stderr)


def alike(outcome: Outcome, bare: Outcome, told_by: Callable[[Outcome], object] = attrgetter("visible")) -> Outcome:
    """The traced outcome, which nobody can tell by status and output from an untraced one.

    A program with processes, threads or signals may do now this, now that.  So where the first untraced run differs,
    there are more: the traced one may do what any of them does.
    """
    again, traced, untraced = bare.again, told_by(outcome), [told_by(bare)]
    while again and traced not in untraced and len(untraced) < MOST_BARE_RUNS:
        untraced.append(told_by(again()))
    assert traced in untraced, f"traced: {traced}\nuntraced: " + "\n          ".join(map(str, untraced))
    return outcome


def accounted(outcome: Outcome, op: str, path: str | Path) -> int:
    """How often the log has an operation on a file: its records, and what it only counted of it on any file."""
    recorded = sum(row["calls"] for row in outcome.select(op=op, path=path))
    counters = outcome.log.counters().to_pylist()
    return recorded + sum(row["calls"] for row in counters if row["op"] == op and row["why"] == "counted")


def succeeded(outcome: Outcome) -> Outcome:
    """The outcome, of a program that must end with 0."""
    assert outcome.status == 0, f"status {outcome.status}\nstdout: {outcome.stdout}\nstderr: {outcome.stderr}"
    return outcome
