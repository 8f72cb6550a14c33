"""pickle: objects in files.  `loads` and `dumps` do no I/O.

The bytes are in the rows of the file object below.  If the program makes a
Pickler or Unpickler itself, only its file's calls are seen: types cannot be
watched in place, and their methods are also used to pickle into memory.
"""

from __future__ import annotations

from pyio_trace.capture.instrumentation.instrument import Instrument, Target


def _loaded(result: object, *args: object, **kwargs: object) -> dict[str, object]:
    return {"type": type(result).__name__}


def _dumped(obj: object, *args: object, **kwargs: object) -> dict[str, object]:
    return {"type": type(obj).__name__}


instrument = Instrument(
    "pickle",
    version=lambda module: None,
    targets=(
        Target("load", path="file", position=0, after=_loaded),
        Target("dump", path="file", position=1, details=_dumped),
    ),
)
