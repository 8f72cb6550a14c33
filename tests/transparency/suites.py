"""Which tests are run: CPython's that touch files, processes, signals, threads or the interpreter's own state,
and those of libraries whose wheels ship them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_CPYTHON = """
test_io test_fileio test_bufio test_file test_file_eintr test_fileinput test_fileutils test_memoryio test_univnewlines
test_largefile test_mmap test_os test_posix test_stat test_fcntl test_ioctl test_shutil test_tempfile
test_threadedtempfile test_pathlib test_genericpath test_posixpath test_glob test_filecmp test_linecache test_tokenize
test_unicode_file test_unicode_file_functions test_zipfile test_zipfile64 test_zipimport test_zipapp test_tarfile
test_gzip test_bz2 test_lzma test_zlib test_dbm test_dbm_dumb test_dbm_gnu test_dbm_ndbm test_dbm_sqlite3 test_shelve
test_sqlite3 test_pickle test_marshal test_csv test_json test_tomllib test_configparser test_mailbox test_netrc
test_mimetypes test_plistlib test_wave test_logging test_codecs test_array test_memoryview test_picklebuffer
test_buffer test_struct test_subprocess test_popen test_pty test_openpty test_tty test_wait3 test_wait4 test_fork1
test_signal test_threadsignals test_eintr test_select test_selectors test_poll test_epoll test_socket
test_socketserver test_resource test_pwd test_threading test_threading_local test_thread test_queue
test_concurrent_futures test_multiprocessing_fork test_multiprocessing_spawn test_multiprocessing_forkserver
test_multiprocessing_main_handling test_asyncio test_ctypes test_faulthandler test_atexit test_gc test_weakref
test_finalization test_sys test_sys_settrace test_sys_setprofile test_monitoring test_audit test_tracemalloc
test_warnings test_inspect test_pydoc test_doctest test_traceback test_frame test_code test_descr test_call
test_context test_contextlib test_functools test_types test_typing test_abc test_builtin test_exceptions
test_generators test_coroutines test_capi test_embed test_interpreters test__xxsubinterpreters test__interpreters
test_stable_abi_ctypes test_site test_sysconfig test_venv test_import test_importlib test_pkgutil test_runpy
test_modulefinder test_pkg test_py_compile test_compileall test_cmd_line test_cmd_line_script test_utf8_mode
test_c_locale_coercion test_source_encoding test_repl test_pdb test_bdb test_trace test_profile test_cprofile
test_perf_profiler test_unittest test_regrtest test_support test_script_helper test_platform test_uuid
test_httpservers test_urllib test_wsgiref test_ssl test_random test_time test_print test_readline test_eof test_copy
test_copyreg test_symtable test_dis test_set test_dict test_list test_property test_super test_crashers test_xxlimited
test_gdb test_getpath test_tools test_syslog test_locale test_curses
"""

#: Those that start programs that are not Python, run once more with these traced as well.
_FOLLOWED = ("test_subprocess", "test_popen", "test_os", "test_posix", "test_pty", "test_signal")

#: Left out by some builds of CPython; see environments.stand_ins.
_STAND_INS = {
    "test_multiprocessing_fork": "test_mp_fork",
    "test_multiprocessing_spawn": "test_mp_spawn",
    "test_multiprocessing_forkserver": "test_mp_forkserver",
}

# Of pytest's: nothing that needs a network or a graphical session; hypothesis makes the same examples each time.
_PYTEST = ("--hypothesis-seed=0", "-p", "no:randomly")

_LIBRARIES = {
    "h5py.tests": ("h5py.tests",),
    "numpy.lib.tests.test_io": ("numpy.lib.tests.test_io", "numpy.lib.tests.test_loadtxt"),
    "numpy.lib.tests.test_format": ("numpy.lib.tests.test_format", "numpy.lib.tests.test__datasource"),
    "numpy._core.tests.test_memmap": ("numpy._core.tests.test_memmap", "numpy._core.tests.test_longdouble"),
    "pyarrow.tests.test_io": ("pyarrow.tests.test_io",),
    "pyarrow.tests.test_fs": ("pyarrow.tests.test_fs",),
    "pyarrow.tests.test_ipc": ("pyarrow.tests.test_ipc", "pyarrow.tests.test_feather"),
    "pyarrow.tests.test_csv": ("pyarrow.tests.test_csv", "pyarrow.tests.test_json"),
    "pyarrow.tests.parquet": ("pyarrow.tests.parquet",),
    "pyarrow.tests.test_dataset": ("pyarrow.tests.test_dataset",),
    "pyarrow.tests.test_memory": ("pyarrow.tests.test_memory", "pyarrow.tests.test_misc", "pyarrow.tests.test_orc"),
    "pandas.tests.io.test_common": ("pandas.tests.io.test_common", "pandas.tests.io.test_compression"),
    "pandas.tests.io.test_pickle": ("pandas.tests.io.test_pickle",),
    "pandas.tests.io.test_parquet": ("pandas.tests.io.test_parquet", "pandas.tests.io.test_feather"),
    "pandas.tests.io.test_sql": ("pandas.tests.io.test_sql",),
    "pandas.tests.io.test_stata": ("pandas.tests.io.test_stata",),
    "pandas.tests.io.parser.common": ("pandas.tests.io.parser.common",),
    "pandas.tests.io.json": ("pandas.tests.io.json",),
}

_TIMEOUTS = {"test_asyncio": 1500, "test_multiprocessing_spawn": 1500, "test_multiprocessing_forkserver": 1500}

#: Tests that end nowhere on this machine, untraced as well: its sockets to the virtual machine's host accept nobody.
IGNORED = {"test_socket": ("ThreadedVSOCKSocketStreamTest",)}
#: On 3.11.7 and 3.12.1 an executor's manager thread can join, with shutdown_lock held, the feeder thread that waits for
#: that lock in _on_queue_feeder_error: of 288 untraced runs of this test on 3.12.1 8 hung, of 146 traced 1.
_OWN_DEADLOCK = ("-k", "not test_shutdown_deadlock_pickle")

#: What the tests may use: all that needs no network, sound or display, and no hours of processor time.
_RESOURCES = "all,-network,-urlfetch,-gui,-audio,-cpu"


@dataclass(frozen=True)
class Module:
    """One thing to run.  kind: `cpython` by its own runner, else by pytest.  stand_in: from environments.stand_ins.

    follow: which children are traced too.
    """

    name: str
    kind: str
    targets: tuple[str, ...]
    stand_in: bool = False
    options: tuple[str, ...] = ()
    follow: str = "python"

    @property
    def timeout(self) -> int:
        """Seconds after which a run of it is stopped."""
        return _TIMEOUTS.get(self.name, 900)

    @property
    def resources(self) -> str:
        """For regrtest's -u."""
        return _RESOURCES


def modules_for(standard_library: Path) -> tuple[list[Module], list[str]]:
    """What there is to run for an interpreter, and the names of what it does not ship."""
    found: list[Module] = []
    absent: list[str] = []
    for name in _CPYTHON.split():
        at = standard_library / "test" / name
        if at.is_dir() or at.with_suffix(".py").is_file():
            found.append(Module(name, "cpython", (name,)))
        elif name in _STAND_INS:
            found.append(Module(name, "cpython", (_STAND_INS[name],), stand_in=True))
        elif name == "test_concurrent_futures":
            found.append(Module(name, "pytest", ("test_futures",), stand_in=True, options=_OWN_DEADLOCK))
        else:
            absent.append(name)
    found += [Module(f"{name}, --follow=all", "cpython", (name,), follow="all") for name in _FOLLOWED]
    found += [Module(name, "pytest", targets, options=_PYTEST) for name, targets in _LIBRARIES.items()]
    return found, absent
