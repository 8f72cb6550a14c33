"""``python -m pyio_trace``: the command line (pyio_trace/cli/main.py)."""

import sys

from pyio_trace.cli.main import main

sys.exit(main())
