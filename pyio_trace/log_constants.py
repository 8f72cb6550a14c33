"""What both halves of pyio_trace know of the log's format: its version, and the words for how processes ended.

Each fact is written down here once; tests/log/test_layout.py compares the
numbers with csrc/core/format/log_*.h.  The enumerations of operations are in
enums.py, those that are values of options in values.py, and the bytes that a log begins with in
existing_files.py.
"""

LOG_VERSION = 4
LOG_HEADER_SIZE = 4096
#: Ids are counted in 1 << ID_SHIFT bytes.
ID_SHIFT = 4

#: How a process ended, in the process table, where it is neither "exit N" nor "signal N (NAME)".
RUNNING = "running"
REPLACED = "exec"  #: it became another program
STOPPED = "stopped tracing"
LOST = "lost (killed or crashed; not seen)"
NOT_FOLLOWED = "not followed"
