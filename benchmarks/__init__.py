"""The cost of pyio_trace, bare against traced: `python -m benchmarks` (docs/evidence/benchmarks.md).

The installed package is measured.  The source tree has no compiled core, so it
goes to the end of sys.path, where it hides nothing.
"""

import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[1])
sys.path[:] = [entry for entry in sys.path if str(Path(entry).resolve()) != _ROOT] + [_ROOT]
