"""pyio_trace.open(): a Log with what people who look at it in Python want: its summary, findings and plots.

The rest of the package opens logs by pyio_trace.join.sources.opening, which knows
nothing of reports and pictures.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyio_trace.join.sources import opening
from pyio_trace.join.sources.facade import Log
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.analysis.results.figures import Summary
    from pyio_trace.insights.insights import Insights
    from pyio_trace.notebook.plots import Plots
    from pyio_trace.pictures.picture import Picture


@dataclass(frozen=True)
class Findings:
    """What `pyio-trace insights` says, in a notebook as a table.  insights: the findings; summary: of the run."""

    insights: Insights
    summary: Summary

    def _repr_html_(self) -> str:
        from pyio_trace.notebook.html import html_of_findings

        return html_of_findings(self.insights)


class OpenedLog(Log):
    """A log, as pyio_trace.open() gives it: a Log with a summary, findings and plots."""

    @property
    def plot(self) -> Plots:
        """Its pictures as matplotlib figures: log.plot.heat_map() and so on.  The log is read once for each."""
        from pyio_trace.notebook.plots import Plots

        return Plots(self)

    def summary(self) -> Summary:
        """The figures of `pyio-trace summary`, in a notebook with bars.  Raises what reading the log raises."""
        from pyio_trace.analysis.summary.summarize import summarize

        return summarize(self)

    def findings(self) -> Findings:
        """What is slow, and what to do: `pyio-trace insights` with the settings of pyproject.toml.

        Raises ConfigError for wrong settings, and what reading the log raises.
        """
        from pyio_trace.insights import registry, settings
        from pyio_trace.insights.insights import find

        rules = registry.found()
        summary, insights = find(self, rules, settings.load(rules))
        return Findings(insights, summary)

    def pictures(self) -> list[Picture]:
        """The pictures that concern this run, as SVG, each with its table.  Raises what reading the log raises."""
        from pyio_trace.pictures import pictures_of

        return pictures_of(self)

    def _repr_html_(self) -> str:
        from pyio_trace.notebook.html import html_of_log

        return html_of_log(self)


def open_log(path: str | os.PathLike[str]) -> OpenedLog:
    """The log at path: a live log, a Parquet log, a log of another tool (pyio_trace/log/foreign), or a folder of them.

    In a folder, files that are not logs are skipped.  If there are a live log and
    the Parquet log packed from it, only the latter is read.  Logs that cannot be
    read are among the losses, unless none can be read.
    Raises LogError: no-such-log, not-a-log, log-unreadable, log-truncated,
    log-version, log-damaged.
    """
    _show_in_notebooks()
    return OpenedLog(Path(os.fsdecode(path)), opening.open_source(path))


def _show_in_notebooks() -> None:
    """In an IPython shell, what a log gives is shown as HTML without %load_ext, too."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    if shell is not None:
        from pyio_trace.notebook.html import register

        register(shell)
