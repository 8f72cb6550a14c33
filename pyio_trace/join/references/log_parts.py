"""What each pass over a log's records needs to read them."""

from __future__ import annotations

from typing import NamedTuple

from pyio_trace.join.base.vocabulary import Vocabulary
from pyio_trace.join.references.file_table import Files
from pyio_trace.log.heap import ObjectNumbers
from pyio_trace.log.live import LiveLog


class LogParts(NamedTuple):
    """A live log, and what its records refer to."""

    log: LiveLog
    words: Vocabulary
    numbers: ObjectNumbers
    files: Files
