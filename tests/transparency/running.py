"""Running one test module once, traced or not, in a folder of its own, with a limit on its time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.programs import clean_environment
from tests.transparency import outcomes, suites
from tests.transparency.environments import Environment, stand_ins
from tests.transparency.outcomes import Difference, Run
from tests.transparency.suites import Module

#: How often a test that did not end the same is run again, each way.
REPEATS = 3

_READ_LOG = """
import json, sys, pyio_trace
log = pyio_trace.open(sys.argv[1])
losses = {name: value for name, value in log.losses().items() if name != "unfollowed_children"}
print(json.dumps([log.rows(), log.processes().num_rows, losses]))
"""


def run(environment: Environment, module: Module, *, traced: bool, only: Sequence[str] = ()) -> Run:
    """One run.  only: of the module's tests, those with these names."""
    folder = Path(tempfile.mkdtemp(prefix="pt-"))  # short: names of Unix sockets are made from it
    try:
        (folder / "tmp").mkdir()
        began = time.monotonic()
        words, variables = _command(environment, module, folder, only), _variables(folder, module, traced)
        status, text = _execute(words, variables, folder, module.timeout)
        result = Run(traced, status, outcomes.read(folder / "report.xml", text, status))
        result.seconds = round(time.monotonic() - began, 1)
        result.complaints = sorted({line for line in text.splitlines() if line.startswith("pyio-trace:")})
        if traced:
            result.operations, result.processes, result.losses = _read_log(environment, folder / "run.pyio")
        return result
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _variables(folder: Path, module: Module, traced: bool) -> dict[str, str]:
    extra = {"TMPDIR": str(folder / "tmp")}
    if traced:
        log = {"PYIO_TRACE_OUTPUT": str(folder / "run.pyio"), "PYIO_TRACE_QUIET": "1"}
        extra |= {"PYIO_TRACE": "1", "PYIO_TRACE_FOLLOW": module.follow, **log}
    return clean_environment(**extra)


def _command(environment: Environment, module: Module, folder: Path, only: Sequence[str]) -> list[str]:
    report = str(folder / "report.xml")
    python = str(environment.python)
    if module.kind == "cpython":
        words = [python, "-m", "test", "-v", "--junit-xml", report, "-u", module.resources]
        if module.stand_in:
            words += ["--testdir", str(stand_ins())]
        for name in only:
            words += ["-m", name]
        for name in suites.IGNORED.get(module.targets[0], ()):
            words += ["-i", name]
        return [*words, module.targets[0]]
    words = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors",
             "--junit-xml", report, "-o", "junit_family=xunit1", *module.options]  # fmt: skip
    if module.stand_in:
        return [*words, *(str(stand_ins() / target) for target in module.targets)]
    return [*words, "--pyargs", *module.targets]


def _execute(words: list[str], variables: dict[str, str], folder: Path, timeout: int) -> tuple[int | None, str]:
    """(exit status, output); a program out of time is killed with all that is in its session."""
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            ["nice", "-n", "5", *words], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            cwd=folder / "tmp", env=variables, start_new_session=True, preexec_fn=_usual_signals,
        )  # fmt: skip
        try:
            status: int | None = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end_session(process)
    return status, (folder / "output.txt").read_text(errors="backslashreplace")


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """Kills what a run has left running: it would disturb the next."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _usual_signals() -> None:
    """A job in the background of a shell ignores Ctrl-C, and so would the tests of signals."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _read_log(environment: Environment, log: Path) -> tuple[int, int, dict[str, object]]:
    """(operations, processes, losses) as this very version of the package reads them."""
    told = subprocess.run(
        [environment.python, "-c", _READ_LOG, log], capture_output=True, text=True, cwd="/", env=clean_environment()
    )
    if told.returncode:
        return 0, 0, {"unreadable": told.stderr.strip().splitlines()[-1:]}
    operations, processes, losses = json.loads(told.stdout)
    return operations, processes, losses


def compare(environment: Environment, module: Module) -> tuple[Run, Run, list[Difference]]:
    """The module untraced and traced; what differs is run again to tell chance from tracing."""
    runs = {way: run(environment, module, traced=way) for way in (False, True)}
    names = list(outcomes.differences(runs[False], runs[True]))
    if not names:
        return runs[False], runs[True], []
    single = [name for name in names if _can_run_alone(name, module)]
    ended = all(each.status is not None and each.status >= 0 for each in runs.values())
    again = single if ended and set(names) <= {*single, outcomes.WHOLE} else []
    seen = {way: [runs[way]] for way in runs}
    for _ in range(REPEATS):
        for way in runs:
            seen[way].append(run(environment, module, traced=way, only=again))
    found = [
        Difference(name, *([each.tests.get(name, "not run") for each in seen[way]] for way in (False, True)))
        for name in names
        if not (again and name == outcomes.WHOLE)  # its cause is among the others
    ]
    return runs[False], runs[True], found


def _can_run_alone(name: str, module: Module) -> bool:
    return module.kind == "cpython" and name != outcomes.WHOLE and all(part.isidentifier() for part in name.split("."))
