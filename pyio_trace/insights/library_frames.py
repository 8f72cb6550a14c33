"""Names the libraries between a line of the program and its calls on files, from their Python stacks.

A library without an instrument appears nowhere else in a log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.enums import Role
from pyio_trace.join.references.own_code import OwnCode, in_pyio_trace, module_of
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

#: Pairs of a line and a stack that are kept.
_MOST = 1 << 14
#: Modules that only pass calls on and say nothing about a file's format.
_PASS_ON = frozenset((
    "_collections_abc", "_compression", "_pyio", "_thread", "abc", "ast", "asyncio", "codecs", "collections",
    "compression", "concurrent", "contextlib", "copy", "copyreg", "dataclasses", "decorator", "encodings",
    "enum", "functools", "genericpath", "heapq", "importlib", "inspect", "io", "itertools", "lazy_importer",
    "lazy_loader", "multiprocess", "multiprocessing", "ntpath", "operator", "os", "pathlib", "posixpath",
    "queue", "random", "runpy", "shutil", "subprocess", "tempfile", "threading", "timeit", "toolz", "tqdm",
    "traceback", "types", "typing", "warnings", "weakref", "wrapt", "zipimport",
))  # fmt: skip


class LibraryFrames:
    """Which libraries are on the stacks of calls, by line."""

    def __init__(self, stacks: dict[str, list[tuple[str, int]]], code: OwnCode) -> None:
        """stacks: by line, folded stacks and the time of the calls on files there, ns."""
        self._stacks, self._code = stacks, code
        self._known: dict[str, tuple[str, ...]] = {}

    def between(self, lines: Collection[str]) -> tuple[str, ...]:
        """The packages and modules that most of these lines' time in calls on files went through, the one that the
        program called first comes first; empty if the program, or code that is not Python, made the calls."""
        found: Counter[tuple[str, ...]] = Counter()
        for line in lines:
            for stack, time in self._stacks.get(line, ()):
                found[self._of(stack)] += time
        return found.most_common(1)[0][0] if found else ()

    def _of(self, stack: str) -> tuple[str, ...]:
        if stack not in self._known:
            names: list[str] = []
            for frame in reversed(stack.split(";")):
                if self._code.is_own(frame):
                    break
                file = frame.rsplit(":", 2)[0]
                if not in_pyio_trace(file) and not file.startswith("<"):
                    names.append(module_of(file).partition(".")[0])
            self._known[stack] = tuple(dict.fromkeys(name for name in reversed(names) if name not in _PASS_ON))
        return self._known[stack]


@dataclass(frozen=True)
class FramesOfLines:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = (*MEANING, "duration", "site", "call_stack", "in_import")

    def partial(self, batch: pa.RecordBatch) -> GroupedSums:
        part, columns = _empty(), Columns(batch)
        site, stack = columns.codes("site"), columns.codes("call_stack")
        of_files = columns.leaf & np.isin(columns.role, (Role.IO, Role.SYNC, Role.MAP)) & ~columns.imported
        at = np.flatnonzero(of_files & ~columns.truths("in_import") & (site >= 0) & (stack >= 0))
        if len(at):
            part.add({"site": site[at], "stack": stack[at], "time": np.maximum(columns.duration[at], 1)})
        return part

    def combine(self, part: GroupedSums, later: GroupedSums) -> GroupedSums:
        part.update(later)
        return part

    def finish(self, part: GroupedSums | None, log: Log) -> LibraryFrames:
        sums = (part or _empty()).columns()
        found: dict[str, list[tuple[str, int]]] = {}
        for site, stack, time in zip(
            texts(log, "site", sums["site"]),
            texts(log, "call_stack", sums["stack"]),
            sums["time"].tolist(),
            strict=True,
        ):
            if site is not None and stack is not None:
                found.setdefault(site, []).append((stack, time))
        return LibraryFrames(found, log.own_code())


def _empty() -> GroupedSums:
    return GroupedSums(("site", "stack"), {"time": "sum"}, _MOST)
