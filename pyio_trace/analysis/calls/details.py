"""The details of operations, which are JSON in the log: each distinct text is parsed once.

A forged log may have any JSON.  What parse() returns is small enough to be
looked at for each operation, and can be written as JSON and as text again.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.join.base.arrow_arrays import codes as codes_of
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

Detail = dict[str, Any]
Parsed = TypeVar("Parsed")

#: Characters of a detail, and levels of lists and objects in it: more than the tracer's own details have.
_LONGEST, _DEEPEST = 1 << 20, 32
#: A detail of more characters than this has its texts cut to so many: they are compared for each operation.
_LONG, _CUT = 1 << 16, 1 << 12
#: What a number that is no 64-bit integer, or not finite, contains.
_ODD = re.compile(r"[0-9]{19}|[0-9][eE]|NaN|Infinity")


def parsed(log: Log, codes: NDArray[np.int64]) -> dict[int, Detail]:
    """Code of the column detail -> its object; empty where it is none."""
    used = distinct(codes)
    return dict(zip(used.tolist(), map(parse, texts(log, "detail", used)), strict=True))


def of_rows(column: pa.DictionaryArray, at: NDArray[np.int64], convert: Callable[[str | None], Parsed]) -> list[Parsed]:
    """convert(text) for these rows of a dictionary column, None for null: once for each distinct text."""
    chosen = codes_of(column)[at]
    known = {
        code: convert(column.dictionary[code].as_py() if code >= 0 else None) for code in distinct(chosen).tolist()
    }
    return [known[code] for code in chosen.tolist()]


def parse(text: str | None) -> Detail:
    """The object that a detail is; empty for anything else, and if it is longer than any tracer writes.

    Has None for numbers that are not finite or have more than 64 bits, and for what is nested too deeply; texts in a
    very long one are cut.
    """
    if not text or len(text) > _LONGEST:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    if len(text) > _LONG or _ODD.search(text) or text.count("[") + text.count("{") > _DEEPEST:
        return {name: _sound(value, _DEEPEST) for name, value in found.items()}
    return found


def _sound(value: Any, levels: int) -> Any:
    if isinstance(value, (dict, list)) and not levels:
        return None
    if isinstance(value, dict):
        return {name: _sound(one, levels - 1) for name, one in value.items()}
    if isinstance(value, list):
        return [_sound(one, levels - 1) for one in value]
    if isinstance(value, str):
        return value[:_CUT]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return None if isinstance(value, int) and (value if value >= 0 else ~value) >> 63 else value


def number(detail: Detail, name: str) -> int | None:
    """An integer of a detail, within 64 bits."""
    value = detail.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(detail: Detail, name: str) -> str | None:
    """A string of a detail."""
    value = detail.get(name)
    return value if isinstance(value, str) else None


def spelled(detail: Detail, name: str) -> str | None:
    """A shape, selection or the like, as compact JSON; None if there is none."""
    return json.dumps(detail[name], separators=(",", ":")) if detail.get(name) is not None else None
