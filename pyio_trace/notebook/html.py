"""Small HTML with a style sheet of its own, for notebooks: of a log, a summary, findings, pictures.

Every text from a log is escaped, and so is what cannot be seen (errors.printable).
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from pyio_trace.errors import printable
from pyio_trace.join.processes.process_names import label
from pyio_trace.pictures.bars import Bar, draw_bars
from pyio_trace.pictures.canvas import Canvas
from pyio_trace.pictures.style import DARK, LIGHT, css
from pyio_trace.report.bars import LOOKS, states_of
from pyio_trace.report.conclusions import conclusions
from pyio_trace.units import counted, number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.results.figures import Summary
    from pyio_trace.insights.insights import Insights
    from pyio_trace.join.sources.facade import Log
    from pyio_trace.pictures.picture import Picture

#: Rows of a table.
_ROWS = 10
#: States of a process's time -> classes of pictures.
_CLASSES = {
    "io": "io", "sync": "sync", "lock": "sync", "library": "library", "hand_over": "handover", "waiting": "waiting",
    "task": "task", "other": "other", "computing": "task", "gil": "waiting", "asleep": "idle", "blocked": "other",
    "starting": "starting", "idle": "idle",
}  # fmt: skip
_LAYOUT = """
.pyio-trace{font:14px/1.45 system-ui,sans-serif;max-width:960px;padding:12px 16px;border-radius:8px}
.pyio-trace h4{margin:14px 0 2px;font-size:15px}.pyio-trace h4:first-of-type{margin-top:0}
.pyio-trace p{margin:2px 0 6px}.pyio-trace svg{display:block;margin:6px 0}
.pyio-trace table{border-collapse:collapse;margin:4px 0}
.pyio-trace td,.pyio-trace th{padding:2px 14px 2px 0;text-align:left;vertical-align:top;background:none;border:0}
.pyio-trace th{font-weight:normal;opacity:.7}.pyio-trace details{margin:0 0 8px}
"""


def _themed(palette: dict[str, str], scope: str) -> str:
    ground = f"{scope}{{background:{palette['card']};color:{palette['label']}}}"
    return ground + css(palette, f"{scope} svg")


def page(*parts: str) -> str:
    """The parts as one element, with the style sheet for light and dark surroundings."""
    dark = _themed(DARK, ".pyio-trace")
    jupyter = _themed(DARK, '[data-jp-theme-light="false"] .pyio-trace')
    light = _themed(LIGHT, '[data-jp-theme-light="true"] .pyio-trace')
    style = f"{_LAYOUT}{_themed(LIGHT, '.pyio-trace')}@media (prefers-color-scheme:dark){{{dark}}}{light}{jupyter}"
    return f'<div class="pyio-trace"><style>{style}</style>{"".join(parts)}</div>'


def text(words: str) -> str:
    """A text from anywhere, as HTML."""
    return escape(printable(words))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns: its head, empty: none."""
    head = "".join(f"<th>{text(one)}</th>" for one in columns)
    body = "".join(f"<tr>{''.join(f'<td>{text(one)}</td>' for one in row)}</tr>" for row in rows)
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if columns else ''}<tbody>{body}</tbody></table>"


def html_of_picture(picture: Picture) -> str:
    """One picture with its title, sentence and table, without a style sheet."""
    rows = f"<details><summary>table</summary>{table(picture.columns, picture.rows)}</details>"
    return f"<h4>{text(picture.title)}</h4><p>{text(picture.sentence)}</p>{picture.svg}{rows}"


def html_of_log(log: Log) -> str:
    """What is known without reading the operations: the run, its processes, what is missing."""
    info, processes = log.info(), log.processes().to_pylist()
    about = [("host", str(info["host"])), ("mode", str(info["mode"])), ("operations", number(log.rows()))]
    if info["end"] is not None and info["end"] > info["start"]:
        about.insert(0, ("took", seconds(info["end"] - info["start"])))
    about += [("losses", f"{name}: {_brief(what)}") for name, what in log.losses().items()]
    rows = [(label(row), str(row["ended"])) for row in processes[:_ROWS]]
    more = (
        f"<p>{counted(len(processes) - _ROWS, 'further process', 'further processes')}</p>"
        if len(processes) > _ROWS
        else ""
    )
    return page(f"<h4>{text(str(log.path))}</h4>", table((), about), table(("process", "ended"), rows), more)


def html_of_summary(summary: Summary) -> str:
    """The conclusions, and the time of each kind of process as a bar."""
    run = summary.run
    head = f"<h4>{text(' '.join(run.command) or run.path)}: {seconds(max(run.wall, 0))}</h4>"
    said = "".join(f"<p>{text(one)}</p>" for one in conclusions(summary))
    rows = [
        (one.layer, number(one.count), size(one.read), size(one.written), seconds(one.time)) for one in summary.layers
    ]
    return page(head, said, _states(summary), table(("layer", "calls", "read", "written", "time"), rows))


def html_of_findings(insights: Insights) -> str:
    """The findings, most time first."""
    rows = [
        (
            one.severity, seconds(one.recoverable_ns) if one.recoverable.is_time else "", one.title,
            str(one.sites[0]) if one.sites else "", one.remedy.text if one.remedy is not None else "",
        )
        for one in insights.findings[:_ROWS]
    ]  # fmt: skip
    more = len(insights.findings) - len(rows)
    rest = f"<p>{counted(more, 'further finding')}</p>" if more > 0 else ""
    if not rows:
        return page("<p>No findings.</p>")
    return page(table(("severity", "could save up to", "what", "line", "what to do"), rows), rest)


def _states(summary: Summary) -> str:
    kinds = summary.overview.kinds if summary.overview is not None else []
    if not kinds:
        return ""
    canvas, used, bars = Canvas("states", "Time by kind of process"), dict[str, str](), []
    for kind in kinds[:_ROWS]:
        states = {state: ns for state, ns in states_of(kind.split).items() if ns > 0}
        used |= {_CLASSES[state]: LOOKS[state][0] for state in states if _CLASSES[state] not in used}
        parts = tuple((_CLASSES[state], float(ns)) for state, ns in states.items())
        name = kind.kind if kind.processes == 1 else f"{kind.processes} {kind.kind}"
        bars.append(Bar(name, parts, seconds(kind.split.wall_ns)))
    canvas.legend(0, 18, used.items())
    draw_bars(canvas, 0, 40, 960, bars, 240)
    return canvas.picture("everybody", "Wall time of processes by what they did.", (), ()).svg


def _brief(what: Any) -> str:
    found = str(what)
    return found if len(found) <= 80 else f"{found[:77]}..."


def register(shell: Any) -> None:
    """Shows summaries and findings as HTML, and figures as pictures, in this IPython shell."""
    formatters = shell.display_formatter.formatters
    formatters["image/png"].for_type_by_name("matplotlib.figure", "Figure", _png)
    formatter = formatters["text/html"]
    formatter.for_type_by_name("pyio_trace.analysis.results.figures", "Summary", html_of_summary)
    formatter.for_type_by_name("pyio_trace.insights.insights", "Insights", html_of_findings)


def _png(figure: Any) -> bytes:
    written = io.BytesIO()
    figure.savefig(written, format="png")
    return written.getvalue()
