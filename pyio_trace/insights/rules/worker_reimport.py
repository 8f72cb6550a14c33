"""Workers import again what the process that started them had imported.

A spawned worker begins with an empty interpreter. It runs the program's main module
again, and imports all that this needs, which takes seconds with large libraries;
so does each child of a fork server that has not imported it. Fork, preload the
modules in a fork server, keep the workers, or move imports that they do not
need under `if __name__ == "__main__":`. Workers and parent are compared by the files
that they loaded if the log has the rows (`--include imports`), else by the packages
that took longest. Workers of a DataLoader are
loader-first-batch and loader-workers-restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Query, Remedy
from pyio_trace.insights.import_use import Worker, is_of_loky, package_of, workers_again, worst_folders
from pyio_trace.insights.observed import MOST_NAMED, covered
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import counted, number, seconds

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed

_MS = 1_000_000


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    by_line: dict[tuple[int, str], list[Worker]] = {}
    for worker in workers_again(run):
        enough = worker.calls >= limits["calls"] if worker.again is None else worker.again >= limits["files"]
        if enough:
            by_line.setdefault((worker.starter, worker.row["site"] or ""), []).append(worker)
    for (starter, line), workers in by_line.items():
        if any(run.is_loader_worker(worker.index) for worker in workers):
            continue
        # Imports go on for at least so long from the start of each; those of workers that start at once count once.
        begins = [worker.row["begin"] for worker in workers]
        time = covered(begins, [begin + one.time for begin, one in zip(begins, workers, strict=True)])
        gain = run.gain({starter: time}, "imports of the workers; those side by side count once")
        if gain.ns >= max(limits["share"] * run.wall_ns, limits["ms"] * _MS):
            yield _finding(run, line, workers, {"recoverable_ns": gain.ns, "recoverable": gain.recoverable})


def _finding(run: Observed, line: str, workers: list[Worker], gain: dict[str, Any]) -> Finding:
    known = [worker for worker in workers if worker.again is not None]
    longest = max(worker.time for worker in workers)
    calls = sum(worker.calls for worker in workers)
    who = counted(len(workers), "worker")
    evidence = [
        Evidence(
            f"They spent {seconds(sum(worker.time for worker in workers))} in imports, the longest {seconds(longest)}, "
            f"with {number(calls)} calls on files.",
            {"workers": len(workers), "import_ns": sum(worker.time for worker in workers), "calls": calls},
        )
    ]
    if known:
        evidence.append(_files(run, known))
        title = f"{who} imported again what their parent had imported"
        confidence = Confidence(0.8, "the parent had loaded the same files before the workers began")
    elif any(worker.packages for worker in workers):
        most = max(workers, key=lambda worker: sum(time for _, time in worker.packages))
        named = ", ".join(f"{name} {seconds(time)}" for name, time in most.packages[:3])
        evidence.append(Evidence(f"What took longest in one of them, and the parent had imported: {named}."))
        title = f"{who} imported again what their parent had imported"
        why = "the packages that took longest are the parent's too"
        confidence = Confidence(0.7, why, ["record imports (--include imports) to know which modules are the same"])
    else:
        title = f"{who} spent up to {seconds(longest)} in imports, as their parent did"
        why = "workers and their parent imported about as much; which modules is not in the log"
        confidence = Confidence(0.5, why, ["record imports (--include imports) to know whether they are the same"])
    return Finding(
        title=title,
        evidence=evidence,
        remedy=_remedy(workers),
        sites=run.site_list(line),
        processes=[worker.index for worker in workers][:MOST_NAMED],
        confidence=confidence,
        query=_query(line, workers),
        **gain,
    )


def _files(run: Observed, workers: list[Worker]) -> Evidence:
    most = max(workers, key=lambda worker: worker.again or 0)
    rows = run.imported.where(imported=True, process=[worker.index for worker in workers])
    folders = worst_folders(rows.sums("path"), rows.words["path"], package_of)
    return Evidence(
        f"Of {number(most.files or 0)} files that one of them loaded, the parent had loaded {number(most.again or 0)}. "
        f"The packages with the most time in calls on files: {', '.join(folders)}.",
        {"files": most.files or 0, "again": most.again or 0},
    )


def _remedy(workers: list[Worker]) -> Remedy:
    ends = [worker.row["end"] for worker in workers if worker.row["end"] is not None]
    last = max(worker.row["begin"] for worker in workers)
    if ends and min(ends) <= last:  # some began after others had ended
        return Remedy(
            "Keep the workers, instead of starting others that import again.",
            "for part in parts:\n    with multiprocessing.Pool() as pool:\n        pool.map(work, part)",
            "with multiprocessing.Pool() as pool:\n    for part in parts:\n        pool.map(work, part)",
        )
    if workers[0].row["process_kind"] == "Dask worker":
        return Remedy(
            "Let a fork server import once for all workers, or start fewer workers with more threads.",
            "with LocalCluster(n_workers=8) as cluster: ...",
            "dask.config.set({\n    'distributed.worker.multiprocessing-method': 'forkserver'})\n"
            "with LocalCluster(n_workers=8) as cluster: ...",
            "dask",
        )
    if is_of_loky(workers[0].row):
        return Remedy(
            "Fork them, where the program has no threads yet; or import less in the module of what they call.",
            "joblib.Parallel(n_jobs=8)(jobs)",
            "joblib.Parallel(n_jobs=8, backend='multiprocessing')(jobs)",
            "joblib",
        )
    method = "forkserver" if workers[0].row["start"] == "fork" else "spawn"
    return Remedy(
        "Let a fork server import once for all workers; move what they do not need under if __name__ == '__main__'.",
        f"import torch\nwith multiprocessing.get_context('{method}').Pool() as pool: ...",
        "context = multiprocessing.get_context('forkserver')\ncontext.set_forkserver_preload(['torch'])\n"
        "with context.Pool() as pool: ...",
    )


def _query(line: str, workers: list[Worker]) -> Query:
    where = sql.condition("site", line) if line else sql.condition('"index"', [worker.index for worker in workers])
    return Query(f"SELECT pid, imports, import_time / 1e9 AS seconds\nFROM processes\nWHERE {where}\n  AND imports > 0")


RULE = Rule(
    "start-up",
    find,
    limits={
        "calls": Limit(2000, "on files that the imports of a worker made, at least, where files are not known"),
        "files": Limit(100, "that a worker loaded, as its parent had, at least"),
        "share": Limit(0.05, "of the wall time, at least"),
        "ms": Limit(200, "in imports, at least"),
    },
    untried="needs the program: an import runs the module",
)
