"""compression.zstd, of Python 3.14 and later: bytes out of files, passes over them, bytes in."""

from __future__ import annotations

from pyio_trace.capture.instrumentation.instrument import Instrument
from pyio_trace.capture.instruments._codecs import READ, REWIND, closing

instrument = Instrument(
    "compression",
    version=lambda module: None,
    targets=(READ, REWIND, closing("ZstdFile", "compression.zstd._zstdfile")),
)
