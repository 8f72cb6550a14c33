"""Log.plot: the pictures of a run as matplotlib figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyio_trace.errors import ConfigError
from pyio_trace.pictures.found import found, results_of
from pyio_trace.pictures.plotting import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pyio_trace.join.sources.facade import Log


class Plots:
    """The pictures of one log.  Each method reads the log, and returns a figure that a notebook shows and
    figure.savefig(NAME) writes.

    number: where a run has several such pictures, which of them, from 1: the one with the most time.  All raise
    ConfigError: not-installed without matplotlib, nothing-to-plot if the run has nothing for it.
    """

    def __init__(self, log: Log) -> None:
        self._log = log

    def lines(self) -> Figure:
        """Time by line of the program: I/O, libraries, computing, waiting."""
        return self._drawn("lines", 1)

    def timeline(self) -> Figure:
        """Bytes a second and calls in flight over the run."""
        return self._drawn("timeline", 1)

    def heat_map(self) -> Figure:
        """Bytes read and written by process and time."""
        return self._drawn("heat_map", 1)

    def offsets(self, number: int = 1) -> Figure:
        """Where in its file each transfer went, and when; number: of the file."""
        return self._drawn("offsets", number)

    def sizes(self) -> Figure:
        """Sizes of reads and writes, and the time in them."""
        return self._drawn("sizes", 1)

    def latencies(self) -> Figure:
        """How long calls took, and the time in them."""
        return self._drawn("latencies", 1)

    def flame(self, number: int = 1) -> Figure:
        """Call stacks by time (number 1) or by bytes (2)."""
        return self._drawn("flame", number)

    def chunks(self, number: int = 1) -> Figure:
        """The chunks of a dataset, how often each was needed, and the selections; number: of the dataset."""
        return self._drawn("chunks", number)

    def tasks(self) -> Figure:
        """Which task read how much of which file."""
        return self._drawn("tasks", 1)

    def batches(self, number: int = 1) -> Figure:
        """Waits for batches and their fetches; number: of the loader."""
        return self._drawn("batches", number)

    def shared(self, number: int = 1) -> Figure:
        """Which process touched which part of a file that several use; number: of the file."""
        return self._drawn("shared", number)

    def ranks(self) -> Figure:
        """I/O time of each rank, or process."""
        return self._drawn("ranks", 1)

    def _drawn(self, name: str, number: int) -> Figure:
        figure: Figure = new_figure()  # before the log is read: without matplotlib there is no need to
        kind = next(kind for kind in found() if kind.name == name)
        data = kind.data(results_of(self._log, [kind]))
        if not 1 <= number <= len(data):
            raise ConfigError("nothing-to-plot", _reason(name, number, len(data)))
        kind.figure(data[number - 1], figure)
        return figure


def _reason(name: str, number: int, known: int) -> str:
    if known:
        return f"plot.{name}: there is no number {number!r}; this run has 1 to {known}"
    return f"plot.{name}: this run has nothing for it, or its log does not tell; log.pictures() has what there is"
