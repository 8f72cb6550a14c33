"""A file is saved so that a crash in between loses the old content and the new one.

`open(path, "w")` empties the file; until it is written again, a crash leaves a part
of it or nothing, and a reader finds that too. A new file that is renamed over the old
one is there as a whole for every reader, but a power cut may leave it without its
data, unless it was synced before the rename. Write to a temporary file in the same
folder, sync it, and rename it over the old one.

Files that are written once, appended to, removed or renamed in the end, and those of
SQLite are left out. That a file had content is known from reads and writes of the
same run only; what was done through file mappings is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.analysis.calls.name_patterns import role_of
from pyio_trace.insights import libraries, sql
from pyio_trace.insights.file_events import FILE_EVENTS
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Recoverable, Remedy
from pyio_trace.insights.library_frames import FramesOfLines
from pyio_trace.insights.observed import MOST_NAMED, patterns, site_of
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.insights.saves import Saved, overwritten, replaced
from pyio_trace.units import counted, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed

#: Endings of the names of files that hold nothing to lose: locks, process ids, journals.
_NOTHING_TO_LOSE = (".lock", ".lck", ".pid", "-journal", "-wal", "-shm")
#: Endings of the names of files that people look at and a program can make again.
_SHOWN = (".png", ".jpg", ".jpeg", ".svg", ".pdf", ".html", ".log", ".out")
_IN_PLACE = "until a file is written again, its path has neither its old content nor its new one"
_RENAMED = "a rename may be on the device before the data of the renamed file"

_TEXTS = {
    False: "Write to a temporary file in the same folder, sync it, and rename it over the old one.",
    True: "Sync the new file before it is renamed over the old one.",
}
_REMEDIES = {
    "": ("with open({}, 'w') as f:\n    f.write(text)", "python"),
    "json": ("with open({}, 'w') as f:\n    json.dump(state, f)", "python"),
    "pickle": ("with open({}, 'wb') as f:\n    pickle.dump(state, f)", "python"),
    "numpy": ("with open({}, 'wb') as f:\n    numpy.save(f, array)", "numpy"),
    "torch": ("with open({}, 'wb') as f:\n    torch.save(state, f)", "torch"),
}


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    events = run.of(FILE_EVENTS)
    known = [(False, overwritten(events, run.calls.path))]
    if run.has_each_row():
        known.append((True, replaced(events, run.calls.path)))
    for by_rename, found in known:
        lines: dict[int, list[Saved]] = defaultdict(list)
        for one in found:
            if _is_kept(run, one, by_rename) and (one.read or one.times >= limits["times"]):
                lines[one.site].append(one)
        for site, saves in lines.items():
            line = run.calls.site(site)
            if run.is_own(line) and not (by_rename and run.of(FramesOfLines()).between([line or ""])):
                yield _finding(run, limits, site, saves, by_rename)


def _is_kept(run: Observed, one: Saved, by_rename: bool) -> bool:
    """Whether a file is one to keep, as far as its name says."""
    if by_rename and run.mounts.kind_of(one.path) == "memory":
        return False  # lost in a power cut anyway
    name = one.path.rpartition("/")[2]
    return role_of(one.path) == "data" and not name.endswith(_NOTHING_TO_LOSE) and not run.is_database(one.path)


def _finding(run: Observed, limits: Mapping[str, float], site: int, saves: list[Saved], by_rename: bool) -> Finding:
    saves.sort(key=lambda one: (-one.times, one.path))
    times, moved = sum(one.times for one in saves), sum(one.moved for one in saves)
    paths = list(dict.fromkeys(one.path for one in saves))
    line, files = run.calls.site(site) or "", len(paths)
    repeated = any(
        one.times >= limits["warning_times"] and one.moved >= limits["bytes"] * one.times
        for one in saves
        if not one.path.endswith(_SHOWN)
    )
    name = paths[0].rpartition("/")[2][:40] if files == 1 else counted(files, "file")
    how = "replaced by a rename without a sync" if by_rename else "overwritten in place"
    where = sql.rows({"site": line} if by_rename else {"site": line, "path": paths[:MOST_NAMED]})
    return Finding(
        title=f"{name} {'is' if files == 1 else 'are'} {how}, {counted(times, 'time')}",
        evidence=[_evidence(files, times, moved, any(one.read for one in saves), by_rename)],
        recoverable_ns=0,
        recoverable=Recoverable(_RENAMED if by_rename else _IN_PLACE, "none", run.wall_ns),
        remedy=_remedy(run, line, by_rename),
        sites=[found for found in [site_of(line)] if found is not None],
        files=patterns(paths),
        processes=sorted({one.process for one in saves if one.process >= 0})[:MOST_NAMED],
        confidence=_confidence(run, by_rename),
        severity="warning" if repeated else "info",
        query=where,
    )


def _evidence(files: int, times: int, moved: int, read: bool, by_rename: bool) -> Evidence:
    how = "read or written" if read else "written"
    if by_rename:
        text = f"{counted(times, 'rename')} put a new file in place of content that the run had {how} before. "
        text += f"No new file ({size(moved // times)} on average) was synced after its last write."
    else:
        text = f"Content that the run had {how} before was emptied {counted(times, 'time')}, and then "
        text += f"{size(moved // times)} on average were written to the file."
    return Evidence(text, {"times": times, "files": files, "bytes": moved})


def _confidence(run: Observed, by_rename: bool) -> Confidence:
    why = "the order of opens, writes, syncs and renames is in the log"
    lowered = ["whether anybody needs the file after a crash is not known"]
    if by_rename:
        lowered.append("some file systems write the data first (ext4 mostly does)")
    more = run.of(FILE_EVENTS).more
    if more:
        lowered.append(f"{more:,} events were too many to look at")
    return Confidence(0.6 if by_rename else 0.7, why, lowered)


def _remedy(run: Observed, line: str, by_rename: bool) -> Remedy:
    save, library = _REMEDIES.get(libraries.requests_of(run.calls.where_lines([line])), _REMEDIES[""])
    after = f"new = f'{{path}}.new'\n{save.format('new')}\n    f.flush(); os.fsync(f.fileno())\nos.replace(new, path)"
    before = f"{save.format('new')}\nos.replace(new, path)" if by_rename else save.format("path")
    return Remedy(_TEXTS[by_rename], before, after, library)


RULE = Rule(
    "synchronisation",
    find,
    limits={
        "times": Limit(2, "that a line replaces a file's content, if the run did not read it before, at least"),
        "warning_times": Limit(3, "of one file, from which on the finding is a warning"),
        "bytes": Limit(65536, "written each time on average, from which on the finding is a warning"),
    },
    needs=(FILE_EVENTS,),
    untried="the remedy makes saves safe, and saves no time",
)
