"""The summary that a large log keeps when it is packed, since all of its rows are read then.

It is used again for as long as the definitions are the same: it has a digest of
the code of pyio_trace.analysis.  Logs come from anywhere, so what does not fit
the types of figures.Summary is not used, and what the log itself says of its
file, run and losses replaces what the summary says.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from pyio_trace.analysis.results.figures import Summary
from pyio_trace.analysis.results.overview_figures import PARTS_OF_OTHER, STATES, LoaderLoop, Split
from pyio_trace.analysis.sums.size_histogram import BINS

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

NAME = "summary"
#: Operations from which on a scan takes longer than anybody likes to wait.
WORTH_KEEPING = 1 << 18
#: Characters of the text: for some thousand processes.
_LARGEST = 8 << 20
_MOST = 1 << 63
_WALL_IS = ("", "at most", "at least")
_ANALYSIS = Path(__file__).parents[1]

T = TypeVar("T")


def attachments_of(summary: Summary) -> dict[str, str]:
    """What to attach to the packed log of this summary, which must have been made with summarize()'s usual options;
    nothing if the log is small or its run goes on."""
    if summary.run.records < WORTH_KEEPING or summary.run.selection or summary.run.running:
        return {}
    import json

    text = json.dumps({"definitions": _definitions(), "summary": summary.to_dict()})
    return {NAME: text} if len(text) <= _LARGEST else {}


def kept_summary(log: Log) -> Summary | None:
    """The summary that was attached to a log, None: there is none that can be used."""
    import json

    text = log.attachment(NAME)
    if text is None or len(text) > _LARGEST:
        return None
    try:
        kept = json.loads(text)
        if kept["definitions"] != _definitions():
            return None
        summary = _made(Summary, kept["summary"])
    except (ValueError, TypeError, KeyError, RecursionError, OSError):
        return None
    info = log.info()
    if (summary.run.run, summary.run.start, summary.run.records) != (info["run"], info["start"], log.rows()):
        return None
    if not _is_sound(summary):
        return None
    file = {"path": str(log.path), "format": info["format"], "log_bytes": info["bytes"]}
    run = replace(summary.run, **file, bytes_per_operation=info["bytes_per_operation"])
    return replace(summary, run=run, unseen=replace(summary.unseen, losses=log.losses()))


def _is_sound(summary: Summary) -> bool:
    """Whether the figures agree where reports rely on it."""
    overview = summary.overview
    if overview is None:
        return False
    splits = [*(one.split for one in overview.kinds), *(one.split for one in overview.processes)]
    states = [[split.state(name) for name in STATES] for split in splits]
    labels = [label for label, _ in BINS]
    return (
        all(min(times) >= 0 and sum(times) == split.wall_ns for times, split in zip(states, splits, strict=True))
        and all(_is_divided(split) for split in splits)
        and all([label for label, _ in sizes.bins] == labels for sizes in (summary.reads, summary.writes))
        and all(0 <= (value or 0) <= limit for loop in overview.loops for value, limit in _bounds(loop))
        and summary.time.wall_is in _WALL_IS
        and all(one.wall_is in _WALL_IS for one in summary.processes)
    )


def _is_divided(split: Split) -> bool:
    """Whether the states that samples divide the rest of the time into add up to no more than that."""
    parts = [getattr(split, f"{state}_ns") or 0 for state in PARTS_OF_OTHER]
    return min(parts) >= 0 and sum(parts) <= split.other_ns


def _bounds(loop: LoaderLoop) -> list[tuple[float | None, float]]:
    """(a figure of a loop, how large it may be)."""
    return [(loop.au_mean_percentage, 100), (loop.throughput_mean_samples_per_second, _MOST), (loop.measured, _MOST)]


@cache
def _definitions() -> str:
    """A digest of the code that figures are made with.  Raises OSError."""
    import hashlib  # loads OpenSSL

    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(_ANALYSIS.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _made(kind: type[T], value: Any) -> T:
    """The value of a type of figures that JSON stands for.  Raises ValueError, TypeError, KeyError."""
    found: Any = _checked(kind, value)
    made: T = found
    return made


def _checked(kind: Any, value: Any) -> Any:
    if kind is Any:
        return value
    if is_dataclass(kind):
        types = get_type_hints(kind)
        given = {one.name: value[one.name] for one in fields(kind) if one.name in value or _is_required(one)}
        return kind(**{name: _checked(types[name], part) for name, part in given.items()})  # type: ignore[operator]
    origin, parts = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return None if value is None else _checked(next(part for part in parts if part is not type(None)), value)
    if origin is list and isinstance(value, list):
        return [_checked(parts[0], one) for one in value]
    if origin is tuple and isinstance(value, list):
        return tuple(_checked(part, one) for part, one in zip(parts, value, strict=True))
    if origin is dict and isinstance(value, dict):
        return {name: _checked(parts[1], one) for name, one in value.items()}
    if kind is float and type(value) in (int, float) and math.isfinite(value):
        return value
    if type(value) is not kind or (kind is int and not -_MOST <= value < _MOST):
        raise ValueError(f"{value!r} is no {kind}")
    return value


def _is_required(field: Any) -> bool:
    return field.default is MISSING and field.default_factory is MISSING
