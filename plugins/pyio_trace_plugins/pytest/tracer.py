"""Tracing in the process that runs tests: one session, in which each phase of a test is a span.

What happened in a phase is read from the log, by another process (reader.py): at
the end of the tests, and for a test with limit_io at the end of its call.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pytest

import pyio_trace
from pyio_trace import native
from pyio_trace.enums import Layer
from pyio_trace.errors import PyioTraceError
from pyio_trace.output import LIVE_SUFFIX
from pyio_trace_plugins.pytest import fingerprints
from pyio_trace_plugins.pytest.limits import Place, limits_of
from pyio_trace_plugins.pytest.names import below, folders_of
from pyio_trace_plugins.pytest.reader import Reader

#: Phases by number; phases.py has the numbers, and imports numpy.
PHASES = ("setup", "call", "teardown")
SETUP, CALL, TEARDOWN = range(3)
#: phases.Counts
COUNTS = ("opens", "reads", "writes", "metadata", "bytes_read", "bytes_written", "time")
#: What serve.py sends of it for a fingerprint.
COMPARED = fingerprints.COUNTS

Wrapper = Generator[None, object, object]


def options() -> dict[str, Any]:
    """Options of the session, whatever the environment and pyproject.toml say: all I/O of Python processes."""
    return {"mode": "trace", "stacks": "full", "follow": "python", "include": "", "exclude": "", "min_duration": 0,
            "min_size": 0}  # fmt: skip


def _is_limited(item: pytest.Item) -> bool:
    return next(item.iter_markers("limit_io"), None) is not None


class Tracer:
    """The plugin in a process that runs tests."""

    def __init__(
        self, config: pytest.Config, worker: str, folder: str, deliver: Callable[[dict[str, Any]], None]
    ) -> None:
        """worker: xdist's name of this process, or empty; folder: for a log that is not kept, if it exists here;
        deliver: called with the results at the end."""
        self._config = config
        self._worker = worker
        self._deliver = deliver
        self._reader = Reader()
        self._trace: pyio_trace.Trace | None = None
        self._given_folder = folder
        self._folder = ""  # of a log that is not kept
        self._log = ""
        self._problem = ""  # why nothing is traced
        self._tests: list[str] = []
        self._phases: list[tuple[int, int, int]] = []  # phases.Phase
        self._passed: list[int] = []
        self._tmp_paths: dict[int, str] = {}
        self._left_out: dict[int, list[str]] = {}

    # ---- the session

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Wrapper:
        if session.config.option.collectonly:
            return (yield)
        if any(_is_limited(item) for item in session.items):
            self._reader.start()  # now, so that it is not among the processes of the log
        try:
            self._start()
        except PyioTraceError as error:
            self._problem = str(error)
        try:
            return (yield)
        finally:
            self._deliver(self._finish())

    def _start(self) -> None:
        running = pyio_trace.current_run()
        if running is not None:
            self._log = os.path.abspath(str(running.path))
            return
        kept = self._config.option.pyio_trace
        if kept:
            stem, suffix = os.path.splitext(kept)
            output = f"{stem}-{self._worker}{suffix}" if self._worker else kept
        else:
            there = self._given_folder if os.path.isdir(self._given_folder) else None  # not from another host
            self._folder = tempfile.mkdtemp(prefix="pyio-trace-", dir=there)
            output = os.path.join(self._folder, "tests" + LIVE_SUFFIX)
        self._trace = pyio_trace.trace(output, **options()).start()
        self._log = os.path.abspath(str(self._trace.path))

    def _finish(self) -> dict[str, Any]:
        """The results, in values that xdist can send.  incomplete: some I/O is not known, and a note says why."""
        notes: list[str] = []
        result: dict[str, Any] = {"totals": {}, "fingerprints": {}, "notes": notes, "log": "", "incomplete": True}
        if self._problem:
            notes.append(self._problem)
            return result
        if self._trace is None:
            notes.append(f"pytest was traced already: the figures are from its log, {self._log}")
        try:
            if self._trace is not None:
                self._trace.stop()
                self._log = os.path.abspath(str(self._trace.path))
                result["log"] = "" if self._folder else self._log
            result["totals"], result["fingerprints"], note = self._sums()
            notes += [note] * bool(note)
            result["incomplete"] = bool(note)
        except PyioTraceError as error:
            notes.append(str(error))
        finally:
            self._reader.close()
            if self._folder:
                shutil.rmtree(self._folder, ignore_errors=True)
        return result

    def _sums(self) -> tuple[dict[str, list[int]], dict[str, dict[str, dict[str, int]]], str]:
        """Totals (phases.Counts) and fingerprints by test, and what the log lacks.  Raises LogError."""
        answer = self._ask(
            self._phases, names=self._folders, ignored=self._config.getini("io_fingerprints_ignore"),
            passed=self._passed, tmp_paths=self._tmp_paths,
        )  # fmt: skip
        totals = {name: [0] * len(COUNTS) for name in self._tests}
        for test, counts in answer["totals"].items():  # a name has several, if its test was run again
            name = self._tests[int(test)]
            totals[name] = [a + b for a, b in zip(totals[name], counts, strict=True)]
        last = {self._tests[test]: answer["fingerprints"][str(test)] for test in self._passed}
        prints = {
            test: {file: {name: count for name, count in zip(COMPARED, counts, strict=True) if count}
                   for file, counts in files.items()}
            for test, files in last.items()
        }  # fmt: skip
        return totals, prints, answer["note"]

    def _ask(self, phases: list[tuple[int, int, int]], **more: Any) -> Any:
        return self._reader.ask(
            log=self._log, phases=phases, shared=self._trace is None,
            left_out={test: sorted(self._left_out.get(test, ())) for _, test, _ in phases}, **more,
        )  # fmt: skip

    @cached_property
    def _folders(self) -> dict[str, str | None]:
        return folders_of(str(self._config.rootpath), self._basetemp())

    def _basetemp(self) -> str:
        factory = getattr(self._config, "_tmp_path_factory", None)
        return str(factory.getbasetemp()) if factory is not None else tempfile.gettempdir()

    # ---- the tests

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Wrapper:
        __tracebackhide__ = True
        self._tests.append(item.nodeid)
        with self._phase(item, SETUP):
            return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Wrapper:
        __tracebackhide__ = True
        test = len(self._tests) - 1
        tmp_path = getattr(item, "funcargs", {}).get("tmp_path")
        if tmp_path is not None:
            self._tmp_paths[test] = str(tmp_path)
        self._left_out[test] = self._outputs()
        with self._phase(item, CALL):
            result = yield
        if _is_limited(item):
            self._enforce(item, self._tmp_paths.get(test))
        if not getattr(getattr(item, "obj", None), "is_hypothesis_test", False):  # its examples are random
            self._passed.append(test)
        return result

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Wrapper:
        __tracebackhide__ = True
        with self._phase(item, TEARDOWN):
            return (yield)

    @contextmanager
    def _phase(self, item: pytest.Item, kind: int) -> Iterator[None]:
        """A span with the name and the phase of a test."""
        if native.core is None:
            yield
            return
        opened = native.core.Span()
        detail = json.dumps({"name": item.nodeid, "phase": PHASES[kind]})
        begun = opened.begin("test", Layer.USER, None, detail)
        try:
            yield
        finally:
            if begun:
                self._phases.append((opened.id, len(self._tests) - 1, kind))
                opened.end()

    @pyio_trace.suppress()
    def _outputs(self) -> list[str]:
        """Where standard input, output and error go now: pytest's own files, and a file it was started with."""
        found = {self._log_file}
        for fd in range(3):
            try:
                found.add(os.readlink(f"/proc/self/fd/{fd}"))
            except OSError:
                pass
        return [os.path.abspath(path) for path in found if path]

    def _recorded(self, kind: int) -> bool:
        """Whether the latest phase of the latest test is of this kind and in the log."""
        return bool(self._phases) and self._phases[-1][1:] == (len(self._tests) - 1, kind)

    @cached_property
    def _log_file(self) -> str:
        """The file that pytest writes log messages to; empty: none."""
        if not self._config.pluginmanager.hasplugin("logging-plugin"):
            return ""
        return str(self._config.getoption("log_file", None) or self._config.getini("log_file") or "")

    def _enforce(self, item: pytest.Item, tmp_path: str | None) -> None:
        """Fails the test if it did more than its limits."""
        if message := self._excess(item, tmp_path):
            pytest.fail(message, pytrace=False)

    def _excess(self, item: pytest.Item, tmp_path: str | None) -> str:
        """The message of a test that did more than its limits, or whose limits are not known; empty: it did not."""
        try:
            limits = limits_of(item, tmp_path)
            answer = self._ask(self._phases[-1:]) if self._recorded(CALL) else []
        except PyioTraceError as error:
            return str(error.args[0])
        places = [Place(path, site, dict(zip(COUNTS, counts, strict=True))) for path, site, *counts in answer]
        root = str(self._config.rootpath)

        def shown(path: str) -> str:
            if tmp_path is not None and (rest := below(path, tmp_path)) is not None:
                return os.path.join("{tmp}", rest).rstrip("/")
            return below(path, root) or path

        return "\n".join(filter(None, (limit.excess(places, shown) for limit in limits)))
