"""Checks that an installed wheel traces, using the standard library alone.

For the containers that wheels are built in: manylinux2014's is too old for the wheels of numpy and pyarrow, which
reading a log takes (.github/workflows/wheels.yml runs the suite elsewhere).  python tests/check_wheel.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pyio_trace import native

#: Ends as a program that is killed does, so that nothing is read at its end.
PROGRAM = """\
import os
with open("written by the program", "w") as file:
    file.write("text")
os.kill(os.getpid(), 9)
"""


def main() -> None:
    """Traces a program that writes a file; its log must have the file's name and the line of the program."""
    if not native.available():
        sys.exit(native.reason)
    with tempfile.TemporaryDirectory() as folder:
        script, log = Path(folder, "program.py"), Path(folder, "run.pyio")
        script.write_text(PROGRAM)
        wanted = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": str(log), "PYIO_TRACE_QUIET": "1"}
        ended = subprocess.run([sys.executable, script], cwd=folder, env=os.environ | wanted, timeout=240)
        found = log.read_bytes() if log.exists() else b""
    missing = [text for text in ("PYIOLOG\n", "written by the program", "program.py", "<module>")
               if text.encode() not in found]  # fmt: skip
    if ended.returncode != -9 or missing:
        sys.exit(f"status {ended.returncode}, not in the log: {missing}")
    print(f"{native.core.__file__} traces")


main()
