"""What is registered if an option of the plugin is given: one half in each process that runs tests, and one in the
process that reports (the same, or the controller of pytest-xdist)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

import pyio_trace
from pyio_trace import native
from pyio_trace.errors import PyioTraceError, printable
from pyio_trace.units import counted
from pyio_trace_plugins.pytest import fingerprints
from pyio_trace_plugins.pytest.table import table
from pyio_trace_plugins.pytest.tracer import Tracer, options

#: The key of a worker's results in what pytest-xdist hands to the controller.
OUTPUT = "pyio_trace"
#: The key of the folder for a worker's log in what pytest-xdist hands to the worker.
FOLDER = "pyio_trace_folder"


def register(config: pytest.Config) -> None:
    """Registers the halves that this process needs.  Raises pytest.UsageError if tracing is not possible."""
    if config.option.io_record and config.option.io_check:
        raise pytest.UsageError("--io-record and --io-check: give one of them")
    if native.core is None:
        raise pytest.UsageError(f"--pyio-trace: tracing is not possible here: {native.reason}")
    running = pyio_trace.current_run()
    try:
        pyio_trace.trace(**options())
        if running is not None and running.mode != "trace":
            raise pytest.UsageError(f"--pyio-trace: pytest is traced in mode {running.mode}; it needs mode trace")
        path = config.rootpath / config.getini("io_fingerprints")
        recorded = fingerprints.load(path) if config.option.io_record or config.option.io_check else {}
    except PyioTraceError as error:
        raise pytest.UsageError(str(error)) from None
    if hasattr(config, "workerinput"):

        def hand_over(result: dict[str, Any]) -> None:
            config.workeroutput[OUTPUT] = result

        given = config.workerinput
        tracer = Tracer(config, given["workerid"], given.get(FOLDER, ""), hand_over)
        config.pluginmanager.register(tracer, "pyio_trace_tracer")
        return
    reporter = Reporter(config, path, recorded)
    config.pluginmanager.register(reporter, "pyio_trace_reporter")
    if config.getoption("dist", "no") == "no":
        config.pluginmanager.register(Tracer(config, "", "", reporter.add), "pyio_trace_tracer")


class Reporter:
    """Collects the results of all processes that ran tests, and reports them."""

    def __init__(self, config: pytest.Config, path: Path, recorded: dict[str, fingerprints.Fingerprint]) -> None:
        """path: the file of fingerprints; recorded: what is in it."""
        self._config = config
        self._path = path
        self._recorded = recorded
        self._totals: dict[str, list[int]] = {}
        self._measured: dict[str, fingerprints.Fingerprint] = {}
        self._notes: dict[str, None] = {}
        self._logs: list[str] = []
        self._changed: dict[str, list[str]] = {}
        self._incomplete = False
        self._workers: set[str] = set()  # those that have not delivered
        self._folder = ""  # for the logs of workers, which may crash and leave them

    def add(self, result: dict[str, Any]) -> None:
        """Adds what a Tracer delivered."""
        self._totals |= result["totals"]
        self._measured |= result["fingerprints"]
        self._notes |= dict.fromkeys(result["notes"])
        self._logs += [result["log"]] if result["log"] else []
        self._incomplete |= result["incomplete"]

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="pyio-trace-")
        node.workerinput[FOLDER] = self._folder
        self._workers.add(node.gateway.id)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        result = getattr(node, "workeroutput", {}).get(OUTPUT)
        if result is not None:
            self._workers.discard(node.gateway.id)
            self.add(result)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        for name in sorted(self._workers):  # they crashed, or the run was stopped before they could
            self._notes[f"the worker {name} ended early: the I/O of its tests is not known"] = None
            self._incomplete = True
        if self._config.option.io_check:
            for test, files in sorted(self._measured.items()):
                if lines := fingerprints.changes(self._recorded.get(test, {}), files):
                    self._changed[test] = lines
        elif self._config.option.io_record:
            self._record()
        else:
            return
        if (self._changed or self._incomplete) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _record(self) -> None:
        try:
            fingerprints.save(self._path, fingerprints.merged(self._recorded, self._measured, self._config.rootpath))
        except OSError as error:
            self._notes[f"{self._path} cannot be written: {error.strerror}"] = None
            self._incomplete = True

    def pytest_unconfigure(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        out = terminalreporter
        if self._config.option.pyio_trace is not None and self._totals:
            out.section("I/O of tests")
            for line in table(self._totals, out.verbosity > 0):
                out.line(line)
        for log in self._logs:
            out.line(printable(f"log: {log}"))
        for note in self._notes:
            out.line(printable(f"pyio-trace: {note}"))
        if self._config.option.io_check:
            self._show_check(out)
        elif self._config.option.io_record and not self._incomplete:
            name = self._config.getini("io_fingerprints")
            out.line(printable(f"I/O fingerprints of {counted(len(self._measured), 'test')}: {name}"))

    def _show_check(self, out: Any) -> None:
        if not self._changed and not self._incomplete:
            out.line(f"I/O as recorded in {counted(len(self._measured), 'test')}")
            return
        if not self._changed:
            out.line("the I/O of some tests is not known, so the check fails", red=True)
            return
        out.section("I/O fingerprints", "=", red=True)
        for test, lines in self._changed.items():
            out.line(printable(f"{test}: {'changed' if test in self._recorded else 'nothing is recorded'}"), red=True)
            for line in lines:
                out.line(printable(f"    {line}"))
        changed = counted(len(self._changed), "test does", "tests do")
        out.line(f"{changed} other I/O than recorded; if that is meant, run pytest --io-record", red=True)
