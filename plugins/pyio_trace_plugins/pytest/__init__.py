"""The pytest plugin: I/O by test, limits of it, and fingerprints of it.

Every pytest run loads this module where pyio_trace is installed.  So it imports
pytest alone, and the rest (plugin.py) only if one of its options is given.
"""

from __future__ import annotations

import argparse
import os

import pytest

_LOG_SUFFIXES = (".parquet", ".pyio")
_MARKER = (
    "limit_io(opens, reads, writes, metadata, bytes_read, bytes_written, under): with --pyio-trace, the test fails if "
    "its call does more; under: 'tmp_path' or a pattern of paths"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pyio-trace", "I/O of tests (pyio_trace)")
    group.addoption(
        "--pyio-trace", nargs="?", const="", metavar="FILE", type=_log_name,
        help="show the tests with the most I/O, and enforce limit_io; FILE (*.parquet, *.pyio): keep the log there",
    )  # fmt: skip
    group.addoption("--io-record", action="store_true", help="record the I/O fingerprint of each test that passes")
    group.addoption("--io-check", action="store_true", help="fail if the I/O of a test is not what was recorded")
    parser.addini(
        "io_fingerprints", "the file of --io-record and --io-check, from the root", default="tests/io_fingerprints.json"
    )
    parser.addini("io_fingerprints_ignore", "patterns of paths that fingerprints leave out", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    if config.option.pyio_trace is not None or config.option.io_record or config.option.io_check:
        from pyio_trace_plugins.pytest.plugin import register

        register(config)


def _log_name(text: str) -> str:
    """The value of --pyio-trace.  `--pyio-trace tests` would take the folder for it, and run other tests than meant."""
    if not text:
        return text
    if not text.endswith(_LOG_SUFFIXES):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name of a log (*.parquet, *.pyio); if it says which tests to run, put it before the option"
        )
    return os.path.abspath(text)
