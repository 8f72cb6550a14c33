"""The cases of docs/cases: each bad run gets the right finding, at the right line, and it is gone with --fixed.

All of it is decided by counts (tests/support/findings.py): the order of findings, and the seconds, are the machine's.
What a case says that it did is held against the log.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.insights.finding import Finding
from pyio_trace.join.processes.process_names import titled
from tests.docs.pages import ROOT
from tests.support import frameworks
from tests.support.findings import BY_TIMES, findings_of, without_times
from tests.support.programs import Outcome, Runner, succeeded

pytestmark = [pytest.mark.once, pytest.mark.slow]
CASES = ROOT / "examples" / "cases"
#: With the remedy, what is left of a finding is less than this share of what it counted.
LEFT = 0.25
#: What a loader may get, as the machine lets its workers wait.
LOADERS = ("loader-first-batch", "loader-starved", "loader-too-many-workers")
_IO = "SELECT coalesce(sum(calls), 0) AS n FROM operations WHERE layer = 'posix' AND op_role IN ('io', 'sync')"
_BYTES = "SELECT coalesce(sum(bytes_moved), 0) AS n FROM operations WHERE layer = 'posix'"


@dataclass(frozen=True)
class Case:
    """slug: of the right finding; counted: what of its evidence the remedy makes fewer; line: what stands in its first
    source line; beside: findings that the run has as well; needs: modules; facts: what the program prints -> the query
    that gives it."""

    slug: str
    counted: str
    line: str
    beside: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)


EXPECTED = {
    "stat_storm": Case(
        "stat-storm",
        "calls",
        "os.stat(path)",
        facts={"stats": f"{_IO} AND op = 'stat' AND path LIKE '%/control%' AND site LIKE '%:solve'",
               "readings": f"{_IO} AND op = 'open' AND path LIKE '%/control%'"},
    ),
    "small_accesses": Case(
        "small-accesses",
        "calls",
        "file.read(RECORD)",
        facts={"bytes_read": f"{_BYTES} AND op = 'read' AND path LIKE '%/small_accesses/%'"},
    ),
    "unaligned": Case(
        "unaligned-accesses",
        "unaligned",
        "os.pwrite(descriptor, block",
        facts={"writes": f"{_IO} AND op = 'pwrite'", "bytes_written": f"{_BYTES} AND op = 'pwrite'"},
    ),
    "no_chunking": Case(
        "hdf5-contiguous",
        "beneath",
        "= tile",
        ("read-modify-write", "read-again"),
        ("h5py",),
        {"tiles": "SELECT count(*) AS n FROM operations WHERE op = 'Dataset.__setitem__'",
         "bytes_written": "SELECT sum(bytes_moved) AS n FROM operations WHERE op = 'Dataset.__setitem__'"},
    ),
    "funnel": Case(
        "one-does-all",
        "bytes",
        "receiving.recv_bytes()",
        facts={"bytes_written": f"{_BYTES} AND op = 'pwrite' AND path LIKE '%/plot.dat'",
               "writers": "SELECT count(DISTINCT process) AS n FROM operations WHERE op = 'pwrite'"},
    ),
    "hdf5_metadata": Case(
        "hdf5-flush-per-item",
        "flushes",
        "file.flush()",
        ("hdf5-item-per-call", "unaligned-accesses"),
        ("h5py",),
        {"flushes": "SELECT count(*) AS n FROM operations WHERE op = 'File.flush'",
         "bytes_of_data": "SELECT sum(bytes_moved) AS n FROM operations WHERE op = 'Dataset.__setitem__'"},
    ),
    "ior_phases": Case(
        "sync-again",
        "syncs",
        "os.fsync(descriptor)",
        ("read-again", "small-accesses", "non-atomic-save"),
        facts={"reads": f"{_IO} AND op = 'pread' AND path LIKE '%/ior.%'",
               "writes": f"{_IO} AND op = 'pwrite' AND path LIKE '%/ior.%'",
               "bytes_read": f"{_BYTES} AND op = 'pread' AND path LIKE '%/ior.%'",
               "fsyncs": f"{_IO} AND op = 'fsync'"},
    ),
    "starved_trainer": Case(
        "hdf5-reopen-per-item",
        "opens",
        'h5py.File(self.path, driver="core") as file',
        (*LOADERS, "reopen-per-item", "read-again"),
        ("torch", "h5py"),
        {"batches": "SELECT count(*) AS n FROM operations WHERE op = 'DataLoader.fetch'"},
    ),
    "fork_trap": Case(
        "handle-over-fork",
        "child_calls",
        "self.file.",
        (*LOADERS, "read-again", "small-accesses"),
        ("torch",),
        {"items": f"{_IO} AND op = 'read' AND path LIKE '%/items.bin'"},
    ),
    "checkpoint_stall": Case(
        "checkpoint-stall",
        "syncs",
        "",
        ("sync-per-write", "non-atomic-save"),
        ("torch",),
        {"saves": "SELECT count(*) AS n FROM operations WHERE op = 'torch.save'", "fsyncs": f"{_IO} AND op = 'fsync'"},
    ),
    "duplicate_reads": Case(
        "tasks-read-again",
        "reads",
        "pq.read_table(path)",
        (),
        ("dask", "pandas"),
        {"readings": "SELECT count(*) AS n FROM operations WHERE op = 'pyarrow.parquet.read_table'"},
    ),
    "whole_array": Case(
        "whole-file-again",
        "loads",
        "np.load(path, **how)",
        ("reopen-per-item",),
        (),
        {"lookups": "SELECT count(*) AS n FROM operations WHERE op = 'numpy.load'"},
    ),
    "all_columns": Case(
        "parse-bound",
        "calls",
        "pd.read_csv(path)",
        (),
        ("pandas",),
        {"files": "SELECT count(*) AS n FROM operations WHERE op IN ('pandas.read_csv', 'pandas.read_parquet')"},
    ),
    "import_storm": Case(
        "import-storm",
        "calls",
        "",
        facts={"modules": "SELECT count(DISTINCT path || process) AS n FROM operations WHERE op = 'open' AND imported "
                          "AND path LIKE '%/toolbox/part%.py'"},
    ),
}  # fmt: skip


#: Cases that run as ranks of an MPI program, too: how many, and what stands in the line of the first finding.
RANKS = {
    "unaligned": (4, "os.pwrite(descriptor, block"),
    "no_chunking": (2, "= tile"),
    "funnel": (4, "world.recv(source=rank)"),
    "ior_phases": (2, "os.fsync(descriptor)"),
}


@cache
def _loaded(path: Path) -> list[str]:
    return path.read_text().splitlines()


def line_of(finding: Finding) -> str:
    """The text of its first source line; "" if it has none."""
    return _loaded(Path(finding.sites[0].file))[finding.sites[0].line - 1] if finding.sites else ""


def run(program: Runner, name: str, *options: str) -> Outcome:
    """A traced run of a case, in its folder of data."""
    log = f"{name}{''.join(options)}.pyio"
    environment = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": log, "PYIO_TRACE_QUIET": "1"}
    if name == "import_storm":
        environment["PYIO_TRACE_INCLUDE"] = "imports"  # what imports do is only counted otherwise
    return succeeded(program.command([sys.executable, CASES / f"{name}.py", *options], environment, log))


def right(found: list[Finding], case: Case) -> list[Finding]:
    """The right findings; there are no others but those that the case names."""
    assert {one.slug for one in found} <= {case.slug, *case.beside, *BY_TIMES}
    return [one for one in found if one.slug == case.slug]


def check_left(fixed: Outcome, case: Case, bad: list[Finding]) -> None:
    """With the remedy, next to nothing is left of the right findings of a bad run."""
    left = [one for one in findings_of(fixed, without_times()) if one.slug == case.slug]
    was, now = (sum(int(one.evidence[0].values[case.counted]) for one in found) for found in (bad, left))
    assert now <= LEFT * was and (was or not left), left


@pytest.mark.parametrize("name", [frameworks.param(name, case.needs) for name, case in EXPECTED.items()])
def test_case(program: Runner, name: str) -> None:
    case = EXPECTED[name]
    for module in ("duckdb", *case.needs):
        if find_spec(module) is None:
            pytest.skip(f"needs {module}")
    # GIVEN a case with its input
    if "def make" in (CASES / f"{name}.py").read_text():
        succeeded(program.command([sys.executable, CASES / f"{name}.py", "--make"]))
    # WHEN it is traced as it was found
    bad = run(program, name)
    # THEN it gets the right finding, at the right line, and the log has what the program says that it did
    found = right(findings_of(bad, without_times()), case)
    assert found and case.line in line_of(found[0])
    check_facts(bad, case)
    # WHEN it is traced with the remedy THEN next to nothing is left of it
    fixed = run(program, name, "--fixed")
    check_left(fixed, case, found)
    check_facts(fixed, case)


def run_ranks(program: Runner, mpiexec: str, name: str, count: int, *options: str) -> Outcome:
    """A traced run of a case as ranks of an MPI program, each with a log of its own."""
    logs = f"{name}{''.join(options)}"
    traced = [sys.executable, "-m", "pyio_trace", "--quiet", "-o", f"{logs}/%r.pyio", CASES / f"{name}.py", "--ranks"]
    return succeeded(program.command([mpiexec, "-n", count, *traced, *options], {}, logs))


@pytest.mark.parametrize("name", RANKS)
def test_case_with_ranks(program: Runner, name: str) -> None:
    case, (count, line) = EXPECTED[name], RANKS[name]
    for module in ("duckdb", "mpi4py", *case.needs):
        pytest.importorskip(module, exc_type=ImportError)
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if mpiexec is None:
        pytest.skip("there is no mpiexec")
    if "def make" in (CASES / f"{name}.py").read_text():
        succeeded(program.command([sys.executable, CASES / f"{name}.py", "--make"]))
    # GIVEN a case WHEN its ranks are traced as it was found THEN they get the right finding
    bad = run_ranks(program, mpiexec, name, count)
    found = right(findings_of(bad, without_times()), case)
    first = found[0]
    assert line in line_of(first)
    # AND its processes are called by their ranks, with programs that these start
    names = {titled(process).partition(",")[0] for process in bad.processes}
    assert names == {f"rank {rank}" for rank in range(count)}
    assert {process["global_rank"] for process in bad.processes} == set(range(count))
    if name == "funnel":
        assert first.title.startswith("rank 0 moves 100 %") and first.title.endswith(f"of {count} ranks")
        assert [Path(path).name for path in first.files] == ["plot.dat"]
    check_facts(bad, case)
    # WHEN they are traced with the remedy THEN next to nothing is left of it
    fixed = run_ranks(program, mpiexec, name, count, "--fixed")
    check_left(fixed, case, found)
    check_facts(fixed, case)


def check_facts(outcome: Outcome, case: Case) -> None:
    """What the program printed is in its log."""
    did: dict[str, Any] = json.loads(outcome.stdout.splitlines()[-1])
    for name, query in case.facts.items():
        (row,) = outcome.log.sql(query).to_pylist()
        assert (name, int(row["n"])) == (name, did[name])


def test_every_case_has_a_page_and_a_test() -> None:
    # GIVEN the cases of examples WHEN they are held against pages and tests THEN each has both
    names = {path.stem for path in CASES.glob("*.py")} - {"case"}
    pages = {path.stem for path in (ROOT / "docs" / "cases").glob("*.md")} - {"index"}
    assert names == set(EXPECTED) and {name.replace("_", "-") for name in names} == pages


def test_a_case_without_its_input(program: Runner) -> None:
    outcome = program.command([sys.executable, CASES / "whole_array.py"])
    assert outcome.status == 2 and "--make" in outcome.stderr
    assert not (program.folder / "case-data").exists()
