"""``import pyio_trace.auto`` in a site's own sitecustomize: tracing for everyone.

The environment and the site's settings apply as always: PYIO_TRACE=0 in a
user's environment switches it off, PYIO_TRACE_OUTPUT says where logs go.  It
does nothing in a process with more rights than the user who started it
(set-user-ID and the like).  It never raises.
"""

import os

from pyio_trace.capture.startup.site_packages._pyio_trace_start import is_privileged

if not is_privileged() and os.environ.setdefault("PYIO_TRACE", "1"):
    from pyio_trace.capture.runtime import start_from_environment

    start_from_environment()
