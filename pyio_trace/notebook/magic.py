"""%load_ext pyio_trace: the cell magic %%pyio_trace, which traces a cell and shows beneath it what it did.

    %%pyio_trace [-o NAME] [--sample [HZ]]

-o: where the log goes (*.pyio or *.parquet); without it, into a temporary folder,
until the kernel ends.  --sample: also looks at what threads do between calls, so
many times a second (200).  The log is then the variable `pyio_trace_log`.
"""

from __future__ import annotations

import argparse
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pyio_trace.errors import ConfigError, PyioTraceError
from pyio_trace.notebook.html import html_of_findings, html_of_picture, page, register, text
from pyio_trace.notebook.opened import OpenedLog, open_log
from pyio_trace.report.conclusions import conclusions

if TYPE_CHECKING:
    from pyio_trace.analysis.results.figures import Summary
    from pyio_trace.insights.insights import Insights
    from pyio_trace.pictures.picture import Picture

#: Samples a second, and the variable that has the log.
_SAMPLES, VARIABLE = "200", "pyio_trace_log"
#: Pictures beneath a cell, and those of them for everybody.
_PICTURES, _FOR_ALL = 3, ("lines", "timeline")
#: Findings are not looked for in logs of more operations: somebody waits.
_SEARCHED = 2_000_000


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError("bad-arguments", f"%%pyio_trace: {message}; write %%pyio_trace [-o NAME] [--sample [HZ]]")


class CellReport:
    """What a traced cell did: HTML in a notebook, lines of text elsewhere."""

    def __init__(self, log: OpenedLog, summary: Summary, insights: Insights | None, pictures: list[Picture]) -> None:
        self.log, self.summary, self.insights, self.pictures = log, summary, insights, pictures

    @classmethod
    def of(cls, log: OpenedLog) -> CellReport:
        """From a log.  Raises what reading it raises."""
        if log.rows() <= _SEARCHED:
            found = log.findings()
            return cls(log, found.summary, found.insights, _chosen(log.pictures()))
        return cls(log, log.summary(), None, _chosen(log.pictures()))

    def _sentences(self) -> list[str]:
        return conclusions(self.summary) or ["The cell did no I/O that took a notable part of its time."]

    def __repr__(self) -> str:
        return "\n".join([*self._sentences(), f"log: {self.log.path}"])

    def _repr_html_(self) -> str:
        said = "".join(f"<p>{text(one)}</p>" for one in self._sentences())
        findings = html_of_findings(self.insights) if self.insights is not None and self.insights.findings else ""
        log = f"<p>log: {text(str(self.log.path))}</p>"
        return page("<h4>This cell</h4>", said, *map(html_of_picture, self.pictures), log) + findings


def _chosen(pictures: list[Picture]) -> list[Picture]:
    """Those that say most of this run: of arrays or training, where there are such, then those for everybody."""
    special = [one for one in pictures if one.concerns in ("arrays", "training")][:1]
    return [*special, *(one for one in pictures if one.slug in _FOR_ALL)][:_PICTURES]


class CellMagic:
    """The magic of one shell.  The folder of its logs is removed when the kernel ends."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0

    def __call__(self, line: str, cell: str) -> None:
        from IPython.core.error import UsageError
        from IPython.display import display

        from pyio_trace.session import trace

        try:
            options = _options(line)
            traced = trace(options.output or self._name(), sample=options.sample).start()
        except PyioTraceError as problem:
            raise UsageError(str(problem)) from None
        try:
            result = self._shell.run_cell(cell)
        finally:
            _stop(traced)
        try:
            log = open_log(traced.path or "")
            self._shell.user_ns[VARIABLE] = log
            display(CellReport.of(log))
        except PyioTraceError as problem:
            raise UsageError(str(problem)) from None
        if not result.success:
            raise UsageError("the cell failed; the report is of what it did until then")

    def _name(self) -> str:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="pyio_trace-")
        self._count += 1
        return str(Path(self._folder.name) / f"cell-{self._count}.pyio")


def _options(line: str) -> argparse.Namespace:
    """Raises ConfigError."""
    parser = _Parser(prog="%%pyio_trace", add_help=False, allow_abbrev=False)
    parser.add_argument("-o", "--output", metavar="NAME")
    parser.add_argument("--sample", metavar="HZ", nargs="?", const=_SAMPLES)
    try:
        words = shlex.split(line)
    except ValueError as problem:
        raise ConfigError("bad-arguments", f"%%pyio_trace: {problem}") from None
    return parser.parse_args(words)


def _stop(traced: Any) -> None:
    """Ends tracing; a log that cannot be packed stays live."""
    traced.__exit__(None, None, None)


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext pyio_trace` does: adds the cell magic %%pyio_trace, and shows summaries and findings as HTML."""
    shell.register_magic_function(CellMagic(shell), "cell", "pyio_trace")
    register(shell)
