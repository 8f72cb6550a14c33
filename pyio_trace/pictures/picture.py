"""One picture of a run."""

from __future__ import annotations

from pyio_trace.light_dataclass import dataclass


@dataclass(frozen=True)
class Picture:
    """What the report, the notebook and the manual show."""

    #: Names it in links and file names: "heat-map".
    slug: str
    title: str
    #: The answer that the picture gives, in a sentence with its figures.
    sentence: str
    #: Whom it concerns: "everybody", "training", "arrays", "tables" or "ranks".
    concerns: str
    #: A whole <svg> element.  Colours are classes of the page's style sheet, never values; no script, no style
    #: attribute, no reference to anything outside; every text from the log is escaped.
    svg: str
    #: The table behind it, for those who cannot see it: names of the columns, then rows of formatted values.
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
