"""gzip: bytes out of files, passes over them, bytes in."""

from __future__ import annotations

from pyio_trace.capture.instrumentation.instrument import Instrument, Target
from pyio_trace.capture.instruments._codecs import REWIND, Attributes, is_in_memory, reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _closing(file: object) -> Any:
    known = Attributes(file)
    source = known.get("fileobj")
    if source is None or is_in_memory(source):
        return NotImplemented
    return source, reading(known.get("_buffer")) or {}


def _closed(result: object, file: object) -> dict[str, object] | None:
    """From Python 3.12 on, closing writes what is in the buffer."""
    known = Attributes(file)
    return None if "compress" not in known else {"in": known["size"]}


instrument = Instrument(
    "gzip",
    version=lambda module: None,
    targets=(
        REWIND,
        Target("_GzipReader.read", moved="len"),
        Target("GzipFile.close", path=_closing, after=_closed),
    ),
)
