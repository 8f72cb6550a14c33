"""All that an instrument of another distribution needs: docs/how-to/add-a-library.md.

These names stay.  What is behind them, such as the modules that they come from, may change in any version.  A traced
program imports this module, so it imports nothing but them.
"""

from pyio_trace.capture.instrumentation.instrument import Instrument, Target

__all__ = ["Instrument", "Target"]
