"""Tasks of Dask, Ray or a pool that read the same data: what one of them read, the others read again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from pyio_trace.enums import TASKS
from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.library_use import NEEDS, Group, calls_of, joined
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import counted, seconds, size

_READS = ("pandas.read_", "pyarrow.", "ParquetFile.", "Dataset.to_table", "Fragment.to_table", "Scanner.", "numpy.load",
          "numpy.fromfile", "json.load", "pickle.load", "torch.load")  # fmt: skip


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Files that several tasks read in the same way."""
    tasks = calls_of(observed, *TASKS)
    reads = calls_of(observed, *_READS)
    reads = reads.where(np.isin(reads.column("task"), tasks.column("id")) & (reads.column("path") >= 0))
    asked: dict[str, list[int]] = defaultdict(list)
    for number, detail in enumerate(reads.details):
        parts = [detail.get(name) for name in ("names", "usecols", "groups", "nrows", "skiprows", "filtered")]
        path = int(reads.column("path")[number]) if len(reads) < 1000 else 0
        asked[f"{path} {parts}"].append(number)
    again: list[Group] = []
    files = 0
    for numbers in asked.values():
        for _, group in Group(reads.calls, reads.at[numbers]).by("path", "op"):
            if len(set(group.column("task").tolist())) >= limits["tasks"] and group.total("read"):
                again.append(group)
                files += 1
    if again:
        yield _finding(observed, joined(again), files, tasks)


def _finding(observed: Observed, group: Group, files: int, tasks: Group) -> Finding:
    count, time = len(group), group.total("duration")
    how = f"{count - files:,} of {count:,} reads repeat another task's"
    gain = observed.gain(group.scaled(int(time * (count - files) / count)), how, "estimate")
    read = group.total("read")
    chosen = tasks.where(np.isin(tasks.column("id"), group.column("task")))
    names = sorted({str(detail.get("prefix") or detail.get("name") or "task") for detail in chosen.details})
    evidence = Evidence(
        f"{len(chosen):,} tasks ({', '.join(names[:3])}) read {counted(files, 'file')} {count:,} times: {size(read)}, "
        f"where {size(read * files // count)} are different. The reads took {seconds(time)}.",
        {"tasks": len(chosen), "files": files, "reads": count, "read": read},
    )
    confidence = Confidence(
        0.85, "each read and its task are in the log", ["whether what is read fits in memory is not known"]
    )
    title = f"Tasks read the same files {count / files:.0f} times"
    return library_use.finding(observed, group, title, gain, [evidence], _remedy(chosen), confidence)


def _remedy(tasks: Group) -> Remedy:
    """In the words of what ran the tasks."""
    if any(op.startswith("ray.") for op in tasks.ops()):
        return Remedy(
            "Read it once, and put it into the object store, which all tasks of a node share.",
            "ray.get([score.remote(part, path) for part in parts])    # loads path",
            "table = ray.put(load(path))\nray.get([score.remote(part, table) for part in parts])",
            "ray",
        )
    if any(op in ("thread.task", "pool.task") for op in tasks.ops()):
        return Remedy(
            "Read it once in each process.",
            "def work(part):\n    table = load(path)",
            "load_once = functools.cache(load)\n\ndef work(part):\n    table = load_once(path)",
        )
    return Remedy(
        "Make the reading a task of its own, which the others share; or persist what it returns.",
        "parts = [delayed(load_and_compute)(path, name) for name in names]",
        "frame = delayed(load)(path)\nparts = [delayed(compute)(frame, name) for name in names]",
        "dask",
    )


RULE = Rule(
    "Dask and Ray",
    find,
    {"tasks": Limit(2, "tasks that read a file in the same way")},
    NEEDS,
    trial=Trial("pyio_trace.insights.trials.loads:kept", rows="files"),
)
