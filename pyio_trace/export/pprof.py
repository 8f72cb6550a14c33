"""A profile for pprof (profile.proto, packed): calls, bytes and time of I/O by call stack.

The numbers are those of fields in profile.proto of pprof; what they name stands
beside them.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyio_trace.protobuf import chunk, number, numbers, text

if TYPE_CHECKING:
    from pyio_trace.export import Options
    from pyio_trace.join.sources.facade import Log
    from pyio_trace.timeline.limited import Limited
    from pyio_trace.timeline.stack_sums import StackSums

LIMITED = True
#: Characters of call stacks for each byte of the file, at most.
_LETTERS = 32

_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING = 1, 2, 4, 5, 6  # of Profile
_BEGIN, _DURATION, _DEFAULT = 9, 10, 14
_TYPE, _UNIT = 1, 2  # of ValueType
_LOCATIONS, _VALUES = 1, 2  # of Sample
_ID, _LINE = 1, 4  # of Location
_FUNCTION_ID, _LINE_NUMBER = 1, 2  # of Line
_NAME, _SYSTEM_NAME, _FILE = 2, 3, 4  # of Function
_TYPES = (("calls", "count"), ("bytes", "bytes"), ("io_time", "nanoseconds"))


class _Strings:
    """The table of strings; the first one is empty."""

    def __init__(self) -> None:
        self.all = [""]
        self._known = {"": 0}

    def of(self, word: str) -> int:
        found = self._known.setdefault(word, len(self.all))
        if found == len(self.all):
            self.all.append(word)
        return found


def write(log: Log, path: str, options: Options, progress: Callable[[int], None] | None) -> list[str]:
    """Writes sums by call stack; see pyio_trace.export.Format."""
    from pyio_trace.timeline.limited import write_limited
    from pyio_trace.timeline.stack_sums import StackSums

    sums = StackSums(log, options.imports, progress)
    info = log.info()
    start = int(info["start"])
    duration = max((info["end"] or start) - start, 0)

    def attempt(file: Limited, rows: int) -> None:
        with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
            for part in _profile(sums, rows, start, duration):
                packed.write(part)

    written = write_limited(path, options.max_size, sums.fitting(options.max_size * _LETTERS), attempt)
    return sums.said(path, written, f"by go tool pprof -http=: {path}")


def _profile(sums: StackSums, rows: int, start: int, duration: int) -> Iterator[bytes]:
    strings = _Strings()
    for kind, unit in _TYPES:
        yield chunk(_SAMPLE_TYPE, number(_TYPE, strings.of(kind)) + number(_UNIT, strings.of(unit)))
    for stack in sums.stacks(rows):
        places = [frame + 1 for frame in reversed(stack.frames)]  # the innermost first
        values = stack.calls, stack.bytes, stack.ns
        yield chunk(_SAMPLE, numbers(_LOCATIONS, places) + numbers(_VALUES, values))
    functions: dict[tuple[str, str], int] = {}
    for place, frame in enumerate(sums.frames.frames, 1):
        function = functions.setdefault((frame.function, frame.file), len(functions) + 1)
        line = number(_FUNCTION_ID, function) + number(_LINE_NUMBER, frame.line)
        yield chunk(_LOCATION, number(_ID, place) + chunk(_LINE, line))
    for (name, file), function in functions.items():
        called = number(_NAME, strings.of(name)) + number(_SYSTEM_NAME, strings.of(name))
        yield chunk(_FUNCTION, number(_ID, function) + called + number(_FILE, strings.of(file)))
    yield number(_BEGIN, start) + number(_DURATION, duration) + number(_DEFAULT, strings.of(_TYPES[-1][0]))
    for word in strings.all:
        yield text(_STRING, word)
