"""A log file is closed at the end."""

from __future__ import annotations

from tests.support.programs import Runner, succeeded


def test_a_log_that_is_open_to_the_interpreters_end(program: Runner) -> None:
    # GIVEN a log that is still open when the interpreter has emptied the modules
    text = """
    import pyio_trace
    from pyio_trace.log import log_file
    with pyio_trace.trace("run.pyio"):
        pass
    log = pyio_trace.open("run.pyio")
    log_file.os = None
    del log
    """
    # WHEN it goes THEN nothing is said
    assert succeeded(program.bare(text)).stderr == ""
