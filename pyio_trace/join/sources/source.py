"""The interface that live logs, Parquet logs and folders of them share.

The facade (facade.py) and the packer (pack/packer.py) use nothing else of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.base.identities import Identities
    from pyio_trace.join.base.samples import Samples
    from pyio_trace.join.base.system import System


class Source(Protocol):
    """Operations, and what is known about their run, as plain values."""

    def rows(self) -> int:
        """How many operations."""

    def values(self, column: str) -> pa.Array:
        """The dictionary of a dictionary column, which is the same in every batch."""

    def batches(
        self, columns: Sequence[str], rows: int, within: tuple[int, int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The columns (of pyio_trace.events), at most `rows` at a time, always with the same dictionaries.

        within: only those of the divisions from the first number up to the second, without it; None: all.
        """

    def divisions(self) -> list[int]:
        """In how many divisions the rows of each log come.  Divisions are numbered from 0 on, in the order of the
        logs; each can be read without the others."""

    def processes(self) -> list[dict[str, Any]]:
        """Rows of the process table."""

    def mappings(self) -> list[dict[str, Any]]:
        """Rows of the mappings table."""

    def renames(self) -> list[dict[str, Any]]:
        """Files that were renamed by calls that bypassed the hooks."""

    def counters(self) -> list[dict[str, Any]]:
        """Rows of the counters table."""

    def samples(self) -> Samples:
        """What the threads were found doing; nothing where there was no sampler."""

    def system(self) -> System:
        """What was seen of the machine beside the program; nothing where nobody looked."""

    def stripes(self) -> dict[str, str]:
        """Path -> layout of files on Lustre (log/stripes.py), as far as known."""

    def identities(self) -> Identities:
        """Device and inode of files, as far as they are known; only of a log of one host."""

    def release(self) -> None:
        """Gives back files and memory that it can get again when it is asked for more."""

    def attachment(self, name: str) -> str | None:
        """A text that was attached to the log when it was packed, None: there is none."""

    def losses(self) -> dict[str, Any]:
        """What is known to be missing; empty if nothing."""

    def info(self) -> dict[str, Any]:
        """The run's description."""
