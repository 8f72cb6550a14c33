"""The run ended because a call on a file failed: too many open files, a full disk, a quota, a device.

It looks for errors that programs do not expect (EMFILE, ENFILE, ENOSPC, EDQUOT, EFBIG, EIO, ENOMEM, EROFS, ESTALE)
in a process that ended with a status other than 0, by SIGABRT or by SIGBUS. After the error the process must not have
read or written any file that it had opened: an error that the program recovered from is no finding, and neither is a
missing file. For too many open files the finding names the lines whose files were open; for a full disk, how much had
been written.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyio_trace.enums import Layer, OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Recoverable, Remedy
from pyio_trace.insights.observed import MOST_NAMED, OPENS, site_of
from pyio_trace.insights.rule import Rule
from pyio_trace.units import counted, size

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable, Group
    from pyio_trace.insights.observed import Observed

_CLOSE = Remedy(
    "Close each file when it is done with; else raise the limit (ulimit -n).",
    "files = [open(path) for path in paths]\nfor f in files:\n    work(f)",
    "for path in paths:\n    with open(path) as f:\n        work(f)",
)
_ROOM = Remedy(
    "Make room, or write elsewhere; and know it before the work is done.",
    "work()\nPath(path).write_bytes(result)",
    "if shutil.disk_usage(folder).free < needed:\n    sys.exit(f'{folder} has no room')\nwork()\n"
    "Path(path).write_bytes(result)",
)
_DEVICE = Remedy("Look what the kernel says of the device or the server (dmesg), and at the file elsewhere.")
#: Error -> what it says, and what to do.
_ERRORS = {
    errno.EMFILE: ("too many open files", _CLOSE),
    errno.ENFILE: ("too many open files in the whole system", _CLOSE),
    errno.ENOSPC: ("no space left on the device", _ROOM),
    errno.EDQUOT: ("the quota is used up", _ROOM),
    errno.EFBIG: ("the file is larger than the limit", Remedy("Raise the limit (ulimit -f), or write several files.")),
    errno.EIO: ("an error of the device", _DEVICE),
    errno.ENOMEM: ("no memory left", Remedy("Map or read less at a time, or raise the limit (ulimit -v).")),
    errno.EROFS: ("the file system is read-only", Remedy("Write elsewhere, or mount it to be written to.")),
    errno.ESTALE: ("the server no longer has the file", _DEVICE),
}
_TOO_MANY, _FULL = (errno.EMFILE, errno.ENFILE), (errno.ENOSPC, errno.EDQUOT)
#: What signals that end a process by its own doing are called.
_OWN_SIGNALS = ("signal 6", "signal 7")
_MOVING = (OpClass.READ, OpClass.WRITE)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    calls = run.calls.where(layer=(Layer.POSIX, Layer.STDIO))
    failed = calls.where(errno=list(_ERRORS))
    last = _last(calls, failed)
    first = run.processes[0] if run.processes else None
    if first is not None and _failed(first):  # a worker may have handed it the error
        found = max(last.values(), key=lambda one: one.last, default=None)
        ends = [] if found is None else [(first, found)]
    else:
        ends = [(run.processes[process], one) for process, one in last.items() if _failed(run.processes[process])]
    for process, one in ends[:MOST_NAMED]:
        yield _finding(run, calls, process, one)


def _failed(process: Mapping[str, Any]) -> bool:
    ended = process["ended"] or ""
    return (ended.startswith("exit ") and ended != "exit 0") or ended.startswith(_OWN_SIGNALS)


def _last(calls: CallTable, failed: CallTable) -> dict[int, Group]:
    """By process, the errors that it read and wrote nothing of its own after."""
    found: dict[int, Group] = {}
    opened = calls.where(kind=OpClass.OPEN, errno=0).codes("path")  # not its messages on stdout and stderr
    moved = calls.where(own=True, kind=_MOVING, errno=0, path=opened)
    for one in failed.by("process", "site", "path", "op", "errno"):
        process, known = one["process"], found.get(one["process"])
        if process < 0 or (known is not None and known.last >= one.last):
            continue
        own = moved.where(process=process)
        if not (own.columns["last"][own.columns["moved"] > 0] > one.last).any():
            found[process] = one
        else:
            found.pop(process, None)
    return found


def _finding(run: Observed, calls: CallTable, process: Mapping[str, Any], one: Group) -> Finding:
    number, path, line = one["errno"], run.calls.path(one["path"]) or "", run.calls.site(one["site"])
    what, remedy = _ERRORS[number]
    before = calls.rows(calls.columns["first"] <= one.last)
    text, sites = "", run.site_list(line)
    values: dict[str, int | float | str] = {"errno": number}
    if number in _TOO_MANY:
        text, more, sites = _open(run, before.where(process=one["process"]), sites)
        values |= more
    elif number in _FULL:
        here = before.where(kind=OpClass.WRITE, errno=0).where_paths([path]).total("moved") if path else 0
        whole = before.where(kind=OpClass.WRITE, errno=0).total("moved")
        text = f" The run had written {size(here)} to the file, {size(whole)} in all."
        values |= {"written": here, "written_in_all": whole}
    of = f" of {path}" if path else ""
    return Finding(
        title=f"{what.capitalize()} ({errno.errorcode[number]}) ended the run"
        + (f": {path.rpartition('/')[2][:40]}" if path else ""),
        evidence=[
            Evidence(
                f"{run.calls.op(one['op'])}{of} failed with {errno.errorcode[number]}, and the process ended with "
                f"{process['ended']}.{text}",
                values,
            )
        ],
        recoverable_ns=0,
        recoverable=Recoverable("the run did not come to its end", "failed", run.wall_ns),
        remedy=remedy,
        sites=sites,
        files=[path] if path else [],
        processes=[one["process"]],
        confidence=Confidence(0.9, "nothing was read or written afterwards, and the process ended by a failure"),
        severity="critical",
        query=sql.rows(
            {"errno": number, "process": one["process"]}, select="site, path, " + sql.SUMS, group="site, path, op"
        ),
    )


def _open(run: Observed, before: CallTable, sites: list[Any]) -> tuple[str, dict[str, int], list[Any]]:
    """What was open: a sentence, figures, and the lines, those with the most open files after the one that failed."""
    opens = before.where(role=Role.IO, kind=OpClass.OPEN, errno=0, imported=None).where(op=OPENS, imported=None)
    closes = before.where(role=Role.IO, kind=OpClass.CLOSE, errno=0, imported=None).sums("path")
    closed = dict(zip(closes["path"].tolist(), closes["calls"].tolist(), strict=True))
    lines: Counter[int] = Counter()
    for group in opens.by("path", "site"):
        done = min(closed.get(group["path"], 0), group.calls)
        closed[group["path"]] = closed.get(group["path"], 0) - done
        lines[group["site"]] += group.calls - done
    count = lines.total()
    worst = [(code, n) for code, n in lines.most_common(3) if n]
    if not worst:
        return "", {}, sites
    named = ", ".join(f"{counted(n, 'file')} of {site_of(run.calls.site(code)) or 'no line'}" for code, n in worst)
    more = [site for code, _ in worst for site in run.site_list(run.calls.site(code))]
    return f" Open were {named}.", {"open": count}, [*dict.fromkeys([*sites, *more])]


RULE = Rule("failure", find, untried="the run failed, and no time is saved")
