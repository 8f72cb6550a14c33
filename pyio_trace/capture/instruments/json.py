"""json: documents in files.  `loads` and `dumps` do no I/O; the bytes are in the rows of the file object below."""

from __future__ import annotations

from pyio_trace.capture.instrumentation.instrument import Instrument, Target


def _loaded(result: object, *args: object, **kwargs: object) -> dict[str, object]:
    return {"type": type(result).__name__}


def _dumped(obj: object, *args: object, **kwargs: object) -> dict[str, object]:
    return {"type": type(obj).__name__}


instrument = Instrument(
    "json",
    version=lambda module: None,
    targets=(
        Target("load", path="fp", after=_loaded),
        Target("dump", path="fp", details=_dumped),
    ),
)
