"""What a log has to give, wherever its rows come from.

A live log, a Parquet log and a folder of them are sources; the facade
(facade.py) and pack (pack.py) know nothing else of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class Source(Protocol):
    """Rows and what is known about their run, as plain values."""

    def rows(self) -> int:
        """How many operations."""

    def values(self, column: str) -> pa.Array:
        """The dictionary that every batch has for a dictionary column."""

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The columns (of pyio_trace.events), at most rows at a time, always with the same dictionaries."""

    def processes(self) -> list[dict[str, Any]]:
        """Rows of the process table."""

    def mappings(self) -> list[dict[str, Any]]:
        """Rows of the mappings table."""

    def counters(self) -> list[dict[str, Any]]:
        """Rows of the counters table."""

    def losses(self) -> dict[str, Any]:
        """What is known to be missing; empty if nothing."""

    def info(self) -> dict[str, Any]:
        """The run's description."""
