"""What a picture is: from the views of a log to its data, and from the data to an SVG and to a matplotlib figure.

A picture is a module of pyio_trace/pictures/kinds with an object under the name
KIND; there is no list of them.  Its data is a frozen dataclass with units in its
docstring, and both drawings show just that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from pyio_trace.analysis.reducer import Reducer
from pyio_trace.pictures.picture import Picture

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Data = TypeVar("Data")
Result = TypeVar("Result")


class Results:
    """The results of views, by the class of the reducer, and the log that they are of."""

    def __init__(self, log: Log, results: Mapping[type[Reducer[Any, Any]], Any]) -> None:
        self.log, self._results = log, results

    def get(self, reducer: type[Reducer[Any, Result]]) -> Result | None:
        """None: calls are left out that the view needs."""
        return self._results.get(reducer)

    def __getitem__(self, reducer: type[Reducer[Any, Result]]) -> Result:
        found: Result = self._results[reducer]
        return found

    @property
    def is_timed(self) -> bool:
        """Whether it is known when each call was made: sums of the mode profile, and of Darshan, do not say it."""
        return bool(self.log.info()["mode"] != "profile")


class Kind(Protocol[Data]):
    """One picture."""

    #: The method of Log.plot that draws it.
    name: ClassVar[str]
    #: Its place among the pictures; the lowest comes first.
    order: ClassVar[int]
    #: Whom it concerns; see Picture.concerns.
    concerns: ClassVar[str]
    #: The views that data() reads.
    views: ClassVar[tuple[type[Reducer[Any, Any]], ...]]

    def data(self, results: Results) -> list[Data]:
        """What is drawn, one element for each drawing; empty: this run has nothing for it."""

    def picture(self, data: Data, number: int) -> Picture:
        """The SVG; number: which of the drawings it is, from 1."""

    def figure(self, data: Data, figure: Any) -> None:
        """Draws into an empty matplotlib.figure.Figure."""
