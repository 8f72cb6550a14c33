"""Bars of the states of a process's time, in block characters or, where the encoding lacks them, in ASCII."""

from __future__ import annotations

from pyio_trace.analysis.results.overview_figures import PARTS_OF_OTHER, STATES, Split
from pyio_trace.light_dataclass import dataclass

#: State -> (word, block character, ASCII character), in the order of bars.
LOOKS: dict[str, tuple[str, str, str]] = {
    "io": ("I/O", "█", "#"),
    "sync": ("sync", "▓", "="),
    "lock": ("locks", "▞", "&"),
    "library": ("library", "▒", "+"),
    "hand_over": ("hand-over", "▚", "%"),
    "waiting": ("waiting", "░", "-"),
    "task": ("task", "▄", "*"),
    "other": ("other", "·", "."),
    "computing": ("computing", "▃", "^"),
    "gil": ("GIL", "▘", "@"),
    "asleep": ("asleep", "╌", "~"),
    "blocked": ("blocked", "╎", "!"),
    "starting": ("starting", "┄", ":"),
    "idle": ("idle", "_", "_"),
}


@dataclass(frozen=True)
class Letters:
    """The characters that an output can show."""

    blocks: bool = True

    def of(self, state: str) -> str:
        return LOOKS[state][1 if self.blocks else 2]

    @property
    def arrow(self) -> str:
        return "→" if self.blocks else "->"

    @property
    def dots(self) -> str:
        return "…" if self.blocks else "..."


def letters_for(encoding: str | None) -> Letters:
    """Block characters if this encoding has them; None: any text."""
    try:
        "".join((*(block for _, block, _ in LOOKS.values()), "→…")).encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return Letters(False)
    return Letters()


def states_of(split: Split) -> dict[str, int]:
    """ns by state, in the order of bars.  Where samples say what the rest is made of, that replaces it."""
    found = {state: split.state(state) for state in STATES}
    if split.computing_ns is None:
        return found
    parts = {state: getattr(split, f"{state}_ns") or 0 for state in PARTS_OF_OTHER}
    parts["blocked"] = max(found["other"] - sum(parts.values()), 0)
    at = STATES.index("other")
    return {name: found[name] for name in STATES[:at]} | parts | {name: found[name] for name in STATES[at + 1 :]}


def bar(split: Split, width: int, letters: Letters) -> str:
    """The states as `width` characters, each by its share; states with the largest remainders are rounded up."""
    if split.wall_ns <= 0:
        return ""
    exact = {state: time * width / split.wall_ns for state, time in states_of(split).items()}
    cells = {state: int(share) for state, share in exact.items()}
    by_rest = sorted(exact, key=lambda state: cells[state] - exact[state])
    for state in by_rest[: width - sum(cells.values())]:
        cells[state] += 1
    return "".join(letters.of(state) * count for state, count in cells.items())


def legend(bars: list[str], letters: Letters) -> str:
    """What the characters of these bars mean."""
    shown = [
        f"{letters.of(state)} {LOOKS[state][0]}" for state in LOOKS if any(letters.of(state) in one for one in bars)
    ]
    return "  ".join(shown)
