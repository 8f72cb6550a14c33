"""Renames that the log has: what a file is called after them.

A file is named by the latest name that it was used under.  If it was renamed
and not used since, no row has its present name but that of the rename, in its
detail.  So if a file has lost the name that it was used under last, it gets the
one that its latest rename gave it.  A file without a name has the name of its
first link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls import details
from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
#: Columns that Renamings.add() needs.
COLUMNS = ("file", "path", "time", "duration", "op", "errno", "detail")
_RENAMES = ("rename", "renameat", "renameat2")
#: They name a file that had no name.
LINKS = ("link", "linkat")
#: What the kernel's names of files without a name end with.
_NAMELESS = " (deleted)"
#: Renames that are remembered.
_MANY = 1 << 20


class Renamings:
    """Collects the renames of files; parts add up like any sum."""

    def __init__(self) -> None:
        self._seen = GroupedSums(("file", "path", "detail", "link"), {"last": "max"}, _MANY)

    def add(self, columns: Columns) -> None:
        """Adds the renames and links among these rows."""
        words = columns.words("op")
        if not any(word in _RENAMES or word in LINKS for word in words):
            return
        links = columns.of_words("op", LINKS)
        file, path, detail = columns.file, columns.codes("path"), columns.codes("detail")
        chosen = (links | columns.of_words("op", _RENAMES)) & (file != 0) & (path >= 0) & (detail >= 0)
        at = np.flatnonzero(chosen & (columns.numbers("errno") == 0))
        self._seen.add({
            "file": file[at], "path": path[at], "detail": detail[at], "link": links[at].astype(np.int64),
            "last": columns.end[at],
        })  # fmt: skip

    def update(self, other: Renamings) -> None:
        """Adds what another one has."""
        self._seen.update(other._seen)

    def present(self, files: Ints, paths: Ints, log: Log) -> dict[int, str]:
        """Place -> name, where the file of this identity has lost the name of this code."""
        seen = self._seen.columns()
        order = np.argsort(seen["last"], kind="stable")
        rows = order[np.isin(seen["file"][order], files)]
        if not len(rows):
            return {}
        texts = details.parsed(log, seen["detail"][rows])
        names = log.dictionary("path")
        given: dict[int, str] = {}  # file -> name, in the order of time
        lost: dict[int, set[int]] = {}
        for file, path, detail, link in zip(
            *(seen[name][rows].tolist() for name in ("file", "path", "detail", "link")), strict=True
        ):
            to = details.text(texts[detail], "to")
            if to is None or (link and not (names[path].as_py() or "").endswith(_NAMELESS)):
                continue
            given[file] = to
            lost.setdefault(file, set()).add(path)
        pairs = enumerate(zip(files.tolist(), paths.tolist(), strict=True))
        return {place: given[file] for place, (file, path) in pairs if path in lost.get(file, ())}
