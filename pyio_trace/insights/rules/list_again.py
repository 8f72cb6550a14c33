"""A folder is listed again and again.

A listing costs a call for every few hundred names, and on a network file system
a message for each. Keep the list, or watch for changes (inotify) if it changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyio_trace.enums import Layer
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Evidence, Finding, Remedy
from pyio_trace.insights.library_frames import FramesOfLines
from pyio_trace.insights.line_walls import with_libraries
from pyio_trace.insights.observed import MOST_NAMED
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.insights.rules.polling import ASKING, WATCH, is_watching
from pyio_trace.units import counted, number, seconds

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed


LISTING = ("opendir", "fdopendir", "readdir", "readdir_r", "closedir", "scandir", "getdents64")
_NAMES = Remedy(
    "List once, and keep the names.",
    "for item in items:\n    if item in os.listdir(folder):\n        ...",
    "names = set(os.listdir(folder))\nfor item in items:\n    if item in names:\n        ...",
)
_PATTERNS = Remedy(
    "List once, and keep the names.",
    "for item in items:\n    for path in glob.glob(f'data/**/{item}.txt', recursive=True):\n        ...",
    "paths = {}\nfor path in glob.glob('data/**/*.txt', recursive=True):    # once\n"
    "    paths.setdefault(Path(path).stem, []).append(path)\nfor item in items:\n"
    "    for path in paths.get(item, ()):\n        ...",
)
#: Of a program that sleeps between its listings: what it does with the names is not in the log.
_EITHER = Remedy(
    "List once, and keep the names; or, if the program waits for what is new there, have the kernel say it (inotify, "
    "as in watchfiles)."
)
#: Of a library that lists a folder to open what is there.
_OPENED = Remedy(
    "Open it once, and keep what is opened (a store, a dataset): each opening lists the folder, and reads what "
    "describes its content."
)
_OPENING = ("opendir", "fdopendir", "scandir")


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    listing = run.calls.where(op=LISTING, own=True, layer=Layer.POSIX, errno=0)
    sums = listing.where(op=_OPENING).sums("process", "path")
    often = sums["path"][(sums["calls"] >= limits["listings"]) & (sums["path"] >= 0)]
    listing = listing.where(path=often.tolist())
    opened = listing.where(op=_OPENING)
    count, folders = opened.total("calls"), opened.distinct("path")
    if not count:
        return
    share, times = (count - folders) / count, run.times(listing, (count - folders) / count)
    gain = run.gain(times, "all listings but the first of each", "estimate")
    at_lines = run.calls.where(site=listing.codes("site"), layer=Layer.POSIX).total("calls")
    of_library = share * listing.total("calls") / max(at_lines, 1)  # what it does besides has calls of its own
    gain = with_libraries(run, gain, run.sites(listing), of_library, times)
    frames = run.of(FramesOfLines()).between(listing.lines()[:MOST_NAMED])
    yield Finding(
        title=f"{counted(folders, 'folder')} listed {number(count)} times",
        evidence=[
            Evidence(
                f"{number(count)} listings took {seconds(listing.total('time'))}.",
                {"listings": count, "folders": folders, "time_ns": listing.total("time")},
            )
        ],
        remedy=_remedy(run, listing, count, frames),
        query=sql.rows({"op": LISTING, "site": listing.lines()}),
        **run.about(listing, gain),
    )


def _remedy(run: Observed, listing: CallTable, count: int, frames: tuple[str, ...]) -> Remedy:
    """count: of listings; frames: libraries that make them: all but glob do so to open something."""
    if is_watching(run, run.sites(listing)):
        asked = run.calls.where(site=listing.codes("site"), op=ASKING).total("calls")
        return WATCH if asked > 2 * count else _EITHER  # it looks at the times of all files
    if "glob" in frames:
        return _PATTERNS
    return replace(_OPENED, library=frames[0]) if frames else _NAMES


RULE = Rule(
    "metadata",
    find,
    limits={"listings": Limit(100, "of one folder in a process, at least", few=5)},
    topic="metadata",
    yields_to=("read-again", "reopen-per-item"),
    trial=Trial("pyio_trace.insights.trials.files:asked_once"),
)
