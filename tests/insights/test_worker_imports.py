"""Workers that import again what the process that started them had imported."""

from __future__ import annotations

import pytest

from pyio_trace.insights import import_use
from tests.support.findings import evidence_of, findings_of, none, only, without_times
from tests.support.programs import Outcome, Runner

pytestmark = pytest.mark.once

MODULES, WORKERS = 300, 4
#: Starts workers twice, after an import of a package of MODULES modules.
WORK = """
import multiprocessing, sys
IMPORT
def work(n): pass
if __name__ == "__main__":
    import big
    multiprocessing.set_start_method(sys.argv[1])
    PRELOAD
    for again in range(2):
        workers = [multiprocessing.Process(target=work, args=(n,)) for n in range(2)]
        for one in workers: one.start()
        for one in workers: one.join()
        assert not any(one.exitcode for one in workers)
"""
_STARTS = 11
#: The environment of a log that only counts the calls of imports, and of one that has their rows.
LOGS = [{}, {"PYIO_TRACE_INCLUDE": "imports"}]


def _run(
    program: Runner, method: str, env: dict[str, str], top: str = "import big", preload: str = "", text: str = WORK
) -> Outcome:
    package = program.folder / "lib" / "big"
    package.mkdir(parents=True, exist_ok=True)
    for n in range(MODULES):
        (package / f"m{n}.py").touch()
    # It takes longest, however busy the machine is.
    slow = "import time\ntime.sleep(0.2)\n"
    (package / "__init__.py").write_text(slow + "".join(f"from . import m{n}\n" for n in range(MODULES)))
    text = text.replace("IMPORT", top).replace("PRELOAD", preload)
    return program.traced(text, method, env={"PYTHONPATH": str(package.parent), **env})


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_that_import_again(program: Runner, method: str) -> None:
    # GIVEN workers that run the main module again, and a log with the rows of imports
    outcome = _run(program, method, LOGS[1])
    found = findings_of(outcome)
    finding = only(found, "worker-reimport")
    # THEN the line that starts them is named, and how many files were loaded again: the package's, and a few others
    assert [site.line for site in finding.sites] == [_STARTS] and len(finding.processes) == WORKERS
    values = finding.evidence[0].values
    # each module is looked for, opened, read and closed at least
    assert values["workers"] == WORKERS and int(values["calls"]) >= 4 * MODULES * WORKERS
    assert MODULES < int(finding.evidence[1].values["again"]) <= int(finding.evidence[1].values["files"])
    assert f"{program.folder}/lib/big/" in finding.evidence[1].text
    assert finding.remedy is not None and "Keep the workers" in finding.remedy.text
    assert finding.recoverable.bound == "upper" and finding.recoverable_ns <= int(values["import_ns"])
    rows = {row["pid"] for row in evidence_of(finding, outcome.log)}
    assert {outcome.processes[index]["pid"] for index in finding.processes} <= rows
    # AND no other finding has the workers' imports
    assert not set(only(found, "import-storm").processes) & set(finding.processes)


def test_packages_that_they_import_again(program: Runner) -> None:
    # GIVEN the same in a log that has no rows of imports THEN the package is named, and the finding is less sure
    finding = only(findings_of(_run(program, "spawn", LOGS[0])), "worker-reimport")
    assert finding.evidence[0].values["workers"] == WORKERS and finding.confidence.level == "medium"
    assert "imported: big " in finding.evidence[1].text and "--include imports" in finding.confidence.lowered_by[0]


def test_what_they_import_is_not_known(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN the same in an earlier log, which has no packages THEN the finding is less sure, and says why
    monkeypatch.setattr(import_use, "_packages", lambda row: [])
    finding = only(findings_of(_run(program, "spawn", LOGS[0])), "worker-reimport")
    assert (
        finding.evidence[0].values["workers"] == WORKERS and "which modules is not in the log" in finding.confidence.why
    )
    assert "again" not in finding.title and "--include imports" in finding.confidence.lowered_by[0]


@pytest.mark.parametrize("env", LOGS)
def test_forked_workers(program: Runner, env: dict[str, str]) -> None:
    assert none(findings_of(_run(program, "fork", env)), "worker-reimport")


@pytest.mark.parametrize("env", LOGS)
def test_workers_that_import_nothing_of_it(program: Runner, env: dict[str, str]) -> None:
    # GIVEN the import beneath the line that only the parent reaches
    assert none(findings_of(_run(program, "spawn", env, top="")), "worker-reimport")


@pytest.mark.parametrize("env", LOGS)
def test_a_fork_server_that_has_imported_it(program: Runner, env: dict[str, str]) -> None:
    outcome = _run(program, "forkserver", env, preload='multiprocessing.set_forkserver_preload(["big"])')
    assert none(findings_of(outcome), "worker-reimport")


@pytest.mark.parametrize("env", LOGS)
def test_workers_that_import_something_else(program: Runner, env: dict[str, str]) -> None:
    # GIVEN a program that loads the package in its workers only
    text = "\n".join(line for line in WORK.splitlines() if line.strip() != "import big")
    text = text.replace("IMPORT", "").replace("pass", "import big").replace("PRELOAD", "")
    _run(program, "fork", {})
    outcome = program.traced(text, "spawn", env={"PYTHONPATH": str(program.folder / "lib"), **env}, log="other.pyio")
    # THEN that is not taken for what the parent had imported, however little is asked for
    every = without_times({"worker-reimport": {"files": 0, "calls": 0}})
    assert none(findings_of(outcome, every), "worker-reimport")


def test_workers_of_a_server_that_an_earlier_line_started(program: Runner) -> None:
    # GIVEN two lines that start workers by the same fork server
    start = "    worker = multiprocessing.Process(target=work, args=(0,)); worker.start(); worker.join()\n"
    text = WORK.partition("    for again")[0] + start + start
    outcome = _run(program, "forkserver", LOGS[1], text=text)
    # THEN the parent of both lines' workers is the program
    found = [one for one in findings_of(outcome) if one.slug == "worker-reimport"]
    assert sorted(site.line for one in found for site in one.sites) == [9, 10]
