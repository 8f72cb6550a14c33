"""Results of reducers, to be compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pyio_trace.analysis.reducers.library_calls import CallList
from pyio_trace.analysis.view_sums.call_table import CallTable


def plain(result: Any) -> Any:
    """A result as lists and dicts: tables as rows, arrays as lists, a log's own numbers for texts as the texts."""
    if isinstance(result, CallTable):
        return _rows(result.columns, {name: words.to_pylist() for name, words in result.words.items()})
    if isinstance(result, CallList):
        return [_rows(columns, result.words) for columns in (result.columns, result.lines)]
    if isinstance(result, pa.Table | pa.Array | pa.ChunkedArray):
        return result.to_pylist()
    if isinstance(result, np.ndarray):
        return result.tolist()
    if hasattr(result, "__dict__"):
        return {name: plain(value) for name, value in vars(result).items()}
    if isinstance(result, dict):
        return {name: plain(value) for name, value in result.items()}
    if isinstance(result, list | tuple):
        return [plain(one) for one in result]
    return result


def _rows(columns: Mapping[str, np.ndarray], words: Mapping[str, list[str]]) -> list[tuple[Any, ...]]:
    shown = {name: values.tolist() for name, values in columns.items()}
    for name in words.keys() & shown.keys():
        shown[name] = [words[name][code] if code >= 0 else "" for code in shown[name]]
    return sorted(zip(*shown.values(), strict=True))
