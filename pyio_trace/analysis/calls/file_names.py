"""Names the files that are known by identity: each gets the latest name it was used under, or was renamed to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls import renamings
from pyio_trace.analysis.calls.renamed_files import present_names
from pyio_trace.analysis.calls.renamings import Renamings
from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.join.base.arrow_arrays import coded
from pyio_trace.join.base.arrow_arrays import codes as code_numbers

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
#: Columns that FileNames.add() needs.
COLUMNS = renamings.COLUMNS
#: Pairs of a file and a name that are remembered.
_MANY = 1 << 21
#: What a file is called of which the log has no name.
UNKNOWN = "(name not known)"


class FileNames:
    """Collects the names that files are used under; parts add up like any sum."""

    def __init__(self, most: int | None = _MANY) -> None:
        """most: pairs of a file and a name that are remembered, None: all."""
        self._seen = GroupedSums(("file", "path"), {"last": "max"}, most)
        self._renamings = Renamings()

    def add(self, columns: Columns, at: Ints | None = None) -> None:
        """Adds the names in these rows (None: in all)."""
        file, path, end = columns.file, columns.codes("path"), columns.end
        if at is not None:
            file, path, end = file[at], path[at], end[at]
        self._renamings.add(columns)
        known = np.flatnonzero((file != 0) & (path >= 0))
        self._seen.add({"file": file[known], "path": path[known], "last": end[known]})

    def update(self, other: FileNames) -> None:
        """Adds what another one has."""
        self._seen.update(other._seen)
        self._renamings.update(other._renamings)

    def of(self, files: Ints, log: Log) -> list[str]:
        """The name of each of these files (identities; 0: no file)."""
        names = self.present(files, log)[0]
        texts, place = names.dictionary.to_pylist(), code_numbers(names).tolist()
        return [texts[code] if code >= 0 else UNKNOWN for code in place]

    def present(self, files: Ints, log: Log) -> tuple[pa.DictionaryArray, pa.DictionaryArray]:
        """(the name of each of these files, or null; the name it was written under, where the first one is inferred)"""
        seen = self._seen.columns()
        order = np.lexsort((seen["path"], seen["last"], seen["file"]))
        known, last = np.unique(seen["file"][order][::-1], return_index=True)
        path = seen["path"][order][::-1][last]
        place = np.minimum(np.searchsorted(known, files), max(len(known) - 1, 0))
        found = known[place] == files if len(known) else np.zeros(len(files), np.bool_)
        codes = path[place] if len(known) else np.zeros(len(files), np.int64)
        codes = np.where(found, codes, -1)
        names, before = present_names(files, codes, log)
        renamed = self._renamings.present(files, codes, log)
        return renamed_to(names, renamed), before

    def counts(self, files: Ints) -> Ints:
        """How many names each of these files was used under; files: ascending, and all that there are."""
        seen = self._seen.columns()["file"]
        return np.bincount(np.searchsorted(files, seen), minlength=len(files))


def renamed_to(names: pa.DictionaryArray, renamed: Mapping[int, str]) -> pa.DictionaryArray:
    """The names, with others at some places."""
    if not renamed:
        return names
    texts, codes = names.dictionary.to_pylist(), code_numbers(names).tolist()  # many files may have one long name
    return coded([renamed.get(at, texts[code] if code >= 0 else None) for at, code in enumerate(codes)])
