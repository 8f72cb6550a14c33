"""limit_io: what a marker allows, and the message of a test that does more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pyio_trace.errors import ConfigError, printable
from pyio_trace.globs import path_matcher
from pyio_trace.values import did_you_mean, parse_bytes, parse_path_pattern
from pyio_trace_plugins.pytest.names import below, rolled_up

if TYPE_CHECKING:
    import pytest

#: What can be limited -> what a message calls it.
WORDS = {"opens": "opens", "reads": "reads", "writes": "writes", "metadata": "metadata calls",
         "bytes_read": "bytes read", "bytes_written": "bytes written"}  # fmt: skip
_SHOWN = 3


class Place(NamedTuple):
    """What one line (None: no Python line) did to one file; phases.Counts by the names of WORDS."""

    path: str
    site: str | None
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Limit:
    """One marker.  most: by name of WORDS; under: as the user wrote it, or None."""

    most: Mapping[str, int]
    under: str | None
    matches: Callable[[str], bool]

    def excess(self, places: Iterable[Place], shown: Callable[[str], str]) -> str:
        """The message of a test that did more than this; empty: it did not.  shown: a path for people."""
        inside = [place for place in places if self.matches(place.path)]
        messages = []
        for name, most in self.most.items():
            total = sum(place.counts[name] for place in inside)
            if total > most:
                where = f" under {self.under}" if self.under else ""
                lines = [f"limit_io: {total:,} {WORDS[name]}{where}, and {most:,} are allowed"]
                messages.append("\n".join(lines + _worst(inside, name, shown)))
        return "\n".join(messages)


def limits_of(item: pytest.Item, tmp_path: str | None) -> list[Limit]:
    """The markers of a test.  Raises ConfigError."""
    return [_limit(mark.args, dict(mark.kwargs), tmp_path) for mark in item.iter_markers("limit_io")]


def _limit(args: tuple[Any, ...], given: dict[str, Any], tmp_path: str | None) -> Limit:
    under = given.pop("under", None)
    if args or not given:
        raise ConfigError("bad-value", f"limit_io takes some of {', '.join(WORDS)}, by name: limit_io(opens=3)")
    most = {}
    for name, value in given.items():
        if name not in WORDS:
            raise ConfigError("bad-value", f"limit_io cannot limit {name!r}{did_you_mean(name, WORDS)}")
        try:
            most[name] = parse_bytes(str(value), name)
        except ConfigError as error:
            raise ConfigError("bad-value", f"limit_io: {error.args[0]}") from None
    return Limit(most, under, _matcher(under, tmp_path))


def _matcher(under: Any, tmp_path: str | None) -> Callable[[str], bool]:
    if under is None:
        return lambda path: True
    if not isinstance(under, str) or not under:
        raise ConfigError("bad-value", "limit_io: under is 'tmp_path' or a pattern of paths, a string")
    if under != "tmp_path":
        return path_matcher(parse_path_pattern(under, "limit_io: under"))
    if tmp_path is None:
        raise ConfigError("bad-value", "limit_io: under='tmp_path', and the test has no fixture tmp_path")
    return lambda path: below(path, tmp_path) is not None


def _worst(places: list[Place], name: str, shown: Callable[[str], str]) -> list[str]:
    """The files and lines with the most of it, files whose names differ only in digits together."""
    sums: Counter[tuple[str, str]] = Counter()
    files: dict[tuple[str, str], set[str]] = {}
    for place in places:
        path = shown(place.path)
        key = rolled_up("", path, "/" * path.startswith("/")), shown(place.site or "no line of Python")
        sums[key] += place.counts[name]
        files.setdefault(key, set()).add(path)
    lines = []
    worst = [(key, count) for key, count in sums.most_common() if count]
    for key, count in worst[:_SHOWN]:
        those = files[key]
        path = min(those) if len(those) == 1 else f"{key[0]} ({len(those):,} files)"
        lines.append(printable(f"  {count:>9,}  {path}  {key[1]}"))
    if len(worst) > _SHOWN:
        rest = sum(count for _, count in worst[_SHOWN:])
        lines.append(f"  {rest:>9,}  at {len(worst) - _SHOWN:,} more")
    return lines
