"""bz2: bytes out of files, passes over them, bytes in."""

from __future__ import annotations

from pyio_trace.capture.instrumentation.instrument import Instrument
from pyio_trace.capture.instruments._codecs import READ, REWIND, closing

instrument = Instrument("bz2", version=lambda module: None, targets=(READ, REWIND, closing("BZ2File")))
