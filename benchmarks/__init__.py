"""The cost of pyio_trace, bare against traced: `python -m benchmarks` (DESIGN section 8, docs/benchmarks.md).

What is measured is the installed package: the folder this is started from
would hide it behind the source tree, which has no compiled core.
"""

import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[1])
sys.path[:] = [entry for entry in sys.path if str(Path(entry).resolve()) != _ROOT] + [_ROOT]
