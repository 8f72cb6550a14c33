"""The screen of `pyio-trace top`, drawn by textual.

Looks are made in a thread, one at a time, so keys work meanwhile.  The time
between looks grows with what a look takes: no more than a tenth of a processor.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.widgets import DataTable, Input, Static
from textual.worker import get_current_worker

from pyio_trace.errors import LogError, printable
from pyio_trace.globs import path_matcher
from pyio_trace.report.top_text import (
    banner,
    cells,
    header_cells,
    in_flight_lines,
    key_text,
    sparkline,
    unseen,
    width_of_numbers,
)
from pyio_trace.running.activity import TABLES, Activity, Row, renamed, shown_first
from pyio_trace.running.watcher import Watcher

#: A look may take this share of the time.
_SHARE = 0.1
_SORTS = ("time", "calls", "bytes", "total")
_SPARK, _WIDE = 12, 100
_MOST_ROWS = 200
_KEYS = "q quit  tab table  s sort  p pause  / filter  t threads"


def show(watcher: Watcher, interval: float) -> int:
    """Shows a run until the user quits.  Returns the exit status."""
    screen = TopApp(watcher, interval)
    screen.run()
    return 0


class TopApp(App[None]):
    """Banner, calls in flight, one table, keys."""

    CSS = """
    Screen { layout: vertical; }
    #banner { height: 2; background: $primary-background; text-style: bold; }
    #banner.ended { background: $warning-darken-2; }
    #flight { height: auto; max-height: 45%; }
    #title { height: 1; text-style: bold; }
    #table { height: 1fr; }
    #rows { scrollbar-size: 0 0; }
    #filter { height: 1; border: none; padding: 0; }
    #notes { height: auto; color: $text-muted; }
    #keys { height: 1; color: $text-muted; }
    """
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[Any]] = [
        Binding("tab", "table(1)", "next table", priority=True),
        Binding("shift+tab", "table(-1)", "table before", priority=True),
        Binding("slash", "filter", "filter", priority=True),  # what is typed next, perhaps already, belongs to it
        ("q", "quit", "quit"), ("s", "sort", "sort"), ("p", "pause", "pause"), ("t", "threads", "threads"),
        ("escape", "no_filter", "no filter"), ("up", "scroll(-1)", "up"), ("down", "scroll(1)", "down"),
        ("pageup", "scroll(-10)", "page up"), ("pagedown", "scroll(10)", "page down"),
    ]  # fmt: skip

    def __init__(self, watcher: Watcher, interval: float) -> None:
        super().__init__()
        self._watcher, self._interval = watcher, interval
        self._activity: Activity | None = None
        self._shown = TABLES[0]
        self._sort = _SORTS[0]
        self._paused = self._ended = False
        self._pattern = ""
        self._problem = ""

    def compose(self) -> ComposeResult:
        yield Static(id="banner", markup=False)
        yield Static(id="flight", markup=False)
        yield Static(id="title", markup=False)
        with Vertical(id="table"):
            yield DataTable(id="rows", show_header=False, cursor_type="none", zebra_stripes=False, cell_padding=0)
        yield Input(id="filter", placeholder="a part of a name, or a pattern such as *.bin; enter")
        yield Static(id="notes", markup=False)
        yield Static(_KEYS, id="keys", markup=False)

    def on_mount(self) -> None:
        """Begins to look."""
        table = self.query_one("#rows", DataTable)
        table.can_focus = False  # it takes no keys
        table.add_column("")
        self.query_one("#filter").display = False
        self._keep_looking()

    def on_resize(self) -> None:
        """Draws again, as wide as the screen is now."""
        self.call_after_refresh(self._draw)

    @work(thread=True, exclusive=True)
    def _keep_looking(self) -> None:
        worker = get_current_worker()
        while not worker.is_cancelled:
            begun = time.monotonic()
            if not self._paused:
                try:
                    activity = self._watcher.look()
                except (LogError, OSError) as error:
                    self._problem = printable(str(error))
                    self.call_from_thread(self._draw)
                    return
                frozen = self._activity if activity.state == "ended" and self._ended else None
                self._ended = activity.state == "ended"
                # What was done last stays on the screen; the log is still to be packed.
                self._activity = activity if frozen is None else renamed(frozen, activity.summary_of)
                self.call_from_thread(self._draw)
            taken = time.monotonic() - begun
            until = begun + max(self._interval if not self._paused else 0.1, taken / _SHARE)
            while not worker.is_cancelled and time.monotonic() < until:
                time.sleep(0.05)

    # ---- keys

    def action_table(self, step: int) -> None:
        """The next table, or the one before."""
        self._shown = TABLES[(TABLES.index(self._shown) + step) % len(TABLES)]
        self._draw()

    def action_sort(self) -> None:
        """The next order."""
        self._sort = _SORTS[(_SORTS.index(self._sort) + 1) % len(_SORTS)]
        self._draw()

    def action_pause(self) -> None:
        """Looks no more, until it is pressed again; the program goes on."""
        self._paused = not self._paused
        self._draw()

    def action_threads(self) -> None:
        """The table of threads, and back to that of lines."""
        self._shown = "threads" if self._shown != "threads" else TABLES[0]
        self._draw()

    def action_scroll(self, lines: int) -> None:
        """Shows other rows of the table."""
        self.query_one("#rows", DataTable).scroll_relative(y=lines, animate=False)

    def action_filter(self) -> None:
        """Asks for a part of a name."""
        asked = self.query_one("#filter", Input)
        asked.display = True
        self.screen.set_focus(asked)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A / that is typed into the filter is a part of it."""
        return not (action == "filter" and self.query_one("#filter").display)

    def action_no_filter(self) -> None:
        """Shows all rows again."""
        self._filter("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Filters by what was typed."""
        self._filter(event.value)

    def _filter(self, pattern: str) -> None:
        asked = self.query_one("#filter", Input)
        asked.value = self._pattern = pattern
        asked.display = False
        self.set_focus(None)
        self._draw()

    # ---- drawing

    def _draw(self) -> None:
        if self._problem:
            self.query_one("#banner", Static).update(Text(self._problem))
            self.query_one("#banner").add_class("ended")
        activity = self._activity
        if activity is None:
            return
        width, height = self.size
        if not self._problem:
            lines = list(banner(activity, width))
            if self._paused:
                lines[0] = f"PAUSED  {lines[0]}"
            self.query_one("#banner", Static).update(_text(lines, width))
            self.query_one("#banner").set_class(activity.state == "ended", "ended")
        most = max((height - 8) // 4, 1)
        flight = [line for call in activity.in_flight[:most] for line in in_flight_lines(call, width)]
        more = activity.in_flight_count - most
        head = f"IN FLIGHT  {activity.in_flight_count}" + (f", {more} more below" if more > 0 else "")
        self.query_one("#flight", Static).update(_text([head if flight else "IN FLIGHT  nothing", *flight], width))
        self._draw_table(activity, width)

    def _draw_table(self, activity: Activity, width: int) -> None:
        spark = _SPARK if width >= _WIDE else 0
        room = width - width_of_numbers(width) - (spark + 1 if spark else 0)
        names = "  ".join(name.upper() if name == self._shown else name for name in TABLES)
        head = names if len(names) <= room else self._shown.upper()
        order = f"[by {self._sort}{f', /{self._pattern}' if self._pattern else ''}]"
        self.query_one("#title", Static).update(_text([f"{head:<{room}}" + header_cells(width)], width))
        notes = "; ".join(unseen(activity))
        self.query_one("#notes", Static).update(_text([f"NOT SEEN  {notes}"] if notes else [], width))
        self.query_one("#keys", Static).update(_text([f"{order} {_KEYS}"], width))
        table = self.query_one("#rows", DataTable)
        at = table.scroll_y
        table.clear()
        for row in self._rows(activity):
            text = f"{key_text(self._shown, row.key, room - 1):<{room}}" + cells(row, activity, width)
            text += " " + sparkline(row.history, spark) if spark else ""
            table.add_row(Text(text[:width], no_wrap=True))
        table.scroll_to(y=at, animate=False)

    def _rows(self, activity: Activity) -> list[Row]:
        rows: list[Row] = getattr(activity, self._shown)
        if self._pattern:
            rows = [row for row in rows if _fits(row.key, self._pattern)]
        return shown_first(rows, self._sort)[:_MOST_ROWS]


def _fits(key: str, pattern: str) -> bool:
    """Whether a name has this part, or fits this pattern."""
    if any(one in pattern for one in "*?["):
        return path_matcher(pattern)(key)
    return pattern.lower() in key.lower()


def _text(lines: list[str], width: int) -> Text:
    return Text("\n".join(line[:width] for line in lines), no_wrap=True, overflow="crop")
