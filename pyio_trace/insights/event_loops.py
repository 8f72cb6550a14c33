"""Tells from a call stack whether a task or callback of an event loop made the call, on the loop's own thread.

A loop dispatches from one place in its code: asyncio from `Handle._run`, trio from
`unrolled_run`.  What is beneath that frame runs while the loop waits.  uvloop's
dispatch is written in C and has no frame: there, the task is right beneath the
Python function that runs the loop.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.join.base.arrow_arrays import texts_at
from pyio_trace.join.references.own_code import OwnCode
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct

# The expressions have to mean the same in DuckDB, whose syntax is RE2's: see conditions().

_RUNNER = r"(/asyncio/runners\.py:\d+:Runner\.run|/aiohttp/web\.py:\d+:run_app);"
#: Loop -> its frame above a task or callback.  uvloop's is also there under asyncio, which has frames of its own next.
DISPATCH = {
    "asyncio": r"/asyncio/events\.py:\d+:(Handle\.)?_run;",
    "trio": r"/trio/_core/_run\.py:\d+:unrolled_run;",
    "uvloop": _RUNNER,
}
_NOT_UVLOOP = rf"{_RUNNER}[^;]*/asyncio/"
#: Beneath a dispatch: an import, or a shell whose loop runs what a person has typed and is meant to wait for it.
_NO_TASK = r"<frozen importlib|/ipykernel/|/IPython/|/asyncio/__main__\.py:"
_DISPATCH = {loop: re.compile(text) for loop, text in DISPATCH.items()}
_NOT_UVLOOP_RE, _NO_TASK_RE = re.compile(_NOT_UVLOOP), re.compile(_NO_TASK)
_UNKNOWN, _OTHER, _BENEATH = range(3)
_USERS = OwnCode()  # a package that was started is a library here: its loop is its own affair


@dataclass(frozen=True)
class Beneath:
    """Where a stack is beneath a loop.

    loop: of DISPATCH; library: whose functions the program uses: "asyncio",
    "anyio" or "trio"; root: the program's outermost function beneath the dispatch,
    file:function, by which tasks and callbacks of different kinds are told apart.
    """

    loop: str
    library: str
    root: str


def beneath(stack: str | None) -> Beneath | None:
    """What a stack says; None: no line of the program is beneath a loop's dispatch, or there is no stack.

    Of a stack that was cut at its outer end, what is left is looked at: a
    dispatch that was cut off is not seen.
    """
    found = sorted((match.end(), loop) for loop, one in _DISPATCH.items() for match in one.finditer(stack or ""))
    if stack is None or not found:
        return None
    end, loop = found[-1]
    if _NO_TASK_RE.search(stack, found[0][0]) or (loop == "uvloop" and _NOT_UVLOOP_RE.search(stack)):
        return None
    root = next((frame for frame in stack[end:].split(";") if _USERS.is_own(frame)), None)
    if root is None:
        return None
    library = "anyio" if "/anyio/" in stack else "trio" if loop == "trio" else "asyncio"
    place, _, function = root.rpartition(":")
    return Beneath(loop, library, f"{place.rpartition(':')[0]}:{function}")


def conditions(loops: list[str]) -> str:
    """The same in SQL, for rows on lines of the program whose loops are these."""
    texts = []
    for loop in loops:
        text = f"regexp_matches(call_stack,\n    '{DISPATCH[loop]}')"
        texts.append(f"({text}\n  AND NOT {_matches(_NOT_UVLOOP)})" if loop == "uvloop" else text)
    dispatch = texts[0] if len(texts) == 1 else "({})".format("\n  OR ".join(texts))
    some = "|".join(DISPATCH[loop] for loop in loops)
    return f"{dispatch}\n  AND NOT {_matches(f'({some}).*({_NO_TASK})')}"


def _matches(expression: str) -> str:
    return f"regexp_matches(call_stack,\n    '{expression}')"


class StackKinds:
    """Which stacks of a log are beneath a loop, each decided once.  Empty when pickled."""

    def __init__(self) -> None:
        self._known: tuple[pa.Array, NDArray[np.int8]] | None = None  # a log's stacks; by code, the last for none

    def __getstate__(self) -> dict[str, Any]:
        return {"_known": None}

    def forget(self) -> None:
        """Lets go of the log."""
        self._known = None

    def beneath(self, dictionary: pa.Array, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """By row, whether it is.  dictionary: of the log's stacks, the same for all of its rows; codes: -1 for none."""
        known = self._known
        if known is None or not _same(known[0], dictionary):
            known = self._known = dictionary, np.full(len(dictionary) + 1, _UNKNOWN, np.int8)
            known[1][-1] = _OTHER
        kinds = known[1]
        new = distinct(codes[kinds.take(codes) == _UNKNOWN])
        for code, text in zip(new.tolist(), texts_at(dictionary, new), strict=True):
            kinds[code] = _OTHER if beneath(text) is None else _BENEATH
        found: NDArray[np.bool_] = kinds.take(codes) == _BENEATH
        return found


def _same(one: pa.Array, other: pa.Array) -> bool:
    """Whether two arrays of strings share their memory."""

    def place(array: pa.Array) -> tuple[int, int, list[int]]:
        return len(array), array.offset, [0 if buffer is None else buffer.address for buffer in array.buffers()]

    return place(one) == place(other)
