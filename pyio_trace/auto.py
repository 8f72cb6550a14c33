"""``import pyio_trace.auto`` in a site's own sitecustomize: tracing for everyone.

Governed by the environment and the site's settings like any other start:
PYIO_TRACE=0 in a user's environment switches it off, PYIO_TRACE_OUTPUT says
where logs go.  It never raises.
"""

import os

if os.environ.setdefault("PYIO_TRACE", "1"):
    from pyio_trace.capture.bootstrap import start_from_environment

    start_from_environment()
