"""The files of functions that were sent to other processes.

cloudpickle (Dask, Ray, joblib) sends a function as its code.  From 3.1.2 on it
leaves out the file, so that in a worker every line is one of "<dynamic-code>".
The sender notes which code it has pickled (csrc/ext/frames/frames.c).  Code that
has arrived is that of the sender's which has the same name, first line and line
table, if all such code is of one file.
"""

from __future__ import annotations

from functools import cached_property

from pyio_trace.log.heap import Heap
from pyio_trace.log.live import LiveLog
from pyio_trace.log.sorting import distinct

DYNAMIC = "<dynamic-code>"

Key = tuple[str, int, int]  # name, first line, hash of the line table


class SentCode:
    """The code that the processes of a log have sent."""

    def __init__(self, log: LiveLog, heap: Heap) -> None:
        self._log, self._heap = log, heap

    def file_of(self, identity: int, function: str) -> int:
        """The string id of the file that code which has arrived came from; 0: it is not known."""
        return self._files.get((function, *self._heap.code_key(identity)), 0)

    @cached_property
    def _files(self) -> dict[Key, int]:
        texts: dict[Key, set[str]] = {}
        files: dict[Key, int] = {}
        visited: set[int] = set()  # forged lists may be circles
        for identity in distinct(self._log.processes()["sent"]).tolist():
            while identity and identity not in visited:
                visited.add(identity)
                identity, code = self._heap.loaded(identity) or (0, 0)
                found = self._heap.code(code)
                file, function = (None, None) if found is None else map(self._heap.text, found)
                first_line, line_table = self._heap.code_key(code)
                if found is None or file is None or function is None or file == DYNAMIC or not line_table:
                    continue
                key = function, first_line, line_table
                files[key] = found[0]
                texts.setdefault(key, set()).add(file)
        return {key: file for key, file in files.items() if len(texts[key]) == 1}
