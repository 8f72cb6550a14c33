"""All that a view of another distribution needs: docs/how-to/add-a-view.md.

These names stay.  What is behind them, such as the modules that they come from, may change in any version.
"""

from __future__ import annotations

from pyio_trace.analysis.reducer import Reducer, scan
from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.view_sums.key_sums import ByKey, SumsTable
from pyio_trace.enums import Layer, OpClass, Role

__all__ = [
    "MEANING", "ByKey", "Columns", "GroupedSums", "Layer", "OpClass", "Reducer", "Role", "SumsTable", "scan",
]  # fmt: skip
