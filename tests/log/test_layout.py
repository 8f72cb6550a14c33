"""The reader's dtypes against the C header: every size, offset and constant."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pyio_trace import events
from pyio_trace.log import layout

CORE = Path(__file__).resolve().parents[2] / "csrc" / "core"

#: Constants whose C name is the reader's with PT_ before it.
_SAME_NAMES = (
    "TICKS_MONOTONIC_NS", "TICKS_TSC", "TICKS_CNTVCT", "MODE_TRACE", "MODE_PROFILE", "MODE_RING", "NOT_FULL",
    "FULL_BUDGET", "FULL_DISK", "FULL_LIMIT", "APP", "USER", "HDF5", "MPIIO", "STDIO", "POSIX", "META", "READ",
    "WRITE", "SYNC", "COPY", "MAP", "OPEN", "CLOSE", "SEEK", "SPANS", "INTERNAL", "PROCESS", "SHAPE_FD",
    "SHAPE_PATH", "SHAPE_PATH2", "SHAPE_OPEN", "SHAPE_FD2", "SHAPE_SPAN", "SHAPE_SEEK", "SHAPE_EXT", "SHAPE_DUP",
    "SHAPE_TRUNC", "SHAPE_PTRUNC", "CHUNK_OPS", "CHUNK_HEAP", "CHUNK_PROCESS", "CHUNK_PAD", "CHUNK_SUMS",
    "CHUNK_SUMS_DATA", "PROFILE_SIZE", "PROFILE_DATA_SIZE", "SIZE_RANGES", "COMMON_SIZES", "RING_SLOT",
    "HEAP_PROFILE", "GAP_NONE", "GAP_RESUMED", "GAP_LOST", "HEAP_STRING",
    "HEAP_STACK", "HEAP_CODE", "HEAP_DESC", "HEAP_MAPPING", "MAPPING_SHARED", "MAPPING_POPULATED", "MAPPING_SAMPLED",
    "MAPPING_PARTLY", "MAPPING_INHERITED", "NOT_MEASURED", "MEASURED_AT_MUNMAP", "MEASURED_AT_END", "MEASURING_SKIPPED",
    "ACCOUNT_BEGIN", "ACCOUNT_END", "ACCOUNT_MIXED",
    "START_TOP", "START_FORK", "START_JOINED", "START_VFORK", "START_SPAWN",
    "END_UNKNOWN", "END_EXIT", "END_SIGNAL", "END_EXEC", "END_STOPPED",
)  # fmt: skip

#: C name -> the reader's value.
CONSTANTS: dict[str, int] = {
    "PT_LOG_VERSION": layout.VERSION,
    "PT_PAGE": layout.PAGE,
    "PT_ID_SHIFT": layout.ID_SHIFT,
    "PT_MAX_OPS": layout.MAX_OPS,
    "PT_HEADER_SIZE": layout.HEADER_SIZE,
    "PT_OPTABLE_OFFSET": layout.OPTABLE_OFFSET,
    "PT_OVERFLOW_OFFSET": layout.OVERFLOW_OFFSET,
    "PT_FIRST_CHUNK": layout.FIRST_CHUNK,
    "PT_CHUNK_MAGIC": layout.CHUNK_MAGIC,
    "PT_OPS_START": layout.OPS_START,
    "PT_HEAP_START": layout.HEAP_START,
    "PT_STATE_MASK": layout.STATE_MASK,
    "PT_EMPTY": layout.EMPTY,
    "PT_BEGUN": layout.BEGUN,
    "PT_DONE": layout.DONE,
    "PT_FAILED": layout.FAILED,
    "PT_WIDE": layout.WIDE,
    "PT_COALESCED": layout.COALESCED,
    "PT_LINK_SHIFT": layout.LINK_SHIFT,
    "PT_NO_BYTES": layout.NO_BYTES,
    "PT_COUNTERS_OFFSET": layout.COUNTERS_OFFSET,
    "PT_PROCESS_CHUNK": layout.PROCESS_CHUNK,
    **{f"PT_{name}": getattr(layout, name) for name in _SAME_NAMES},
    **{f"PT_LINK_{name.upper()}": number for number, name in enumerate(events.LINKS)},
    **{
        f"PT_{'DESC' if number <= layout.DESC_KINDS.index('sys') else 'LEFT'}_{name.upper()}": number
        for number, name in enumerate(layout.DESC_KINDS)
    },
    **{f"PT_BLIND_{name.upper()}": 1 << number for number, name in enumerate(layout.BLIND)},
    **{f"PT_STACKS_{name.upper()}": number for number, name in enumerate(layout.STACK_STATES)},
    **{f"PT_MODE_{name.upper()}": number for number, name in enumerate(layout.MODES)},
    **{f"PT_{name.upper()}": number for number, name in enumerate(events.LAYERS)},
}


def _run_c(body: list[str], folder: Path) -> dict[str, int]:
    source = folder / "offsets.c"
    source.write_text(
        '#include <stdio.h>\n#include "log_format.h"\nint main(void) {\n' + "\n".join(body) + "\nreturn 0;\n}\n"
    )
    program = folder / "offsets"
    subprocess.run(["cc", "-std=c11", f"-I{CORE}", str(source), "-o", str(program)], check=True)
    out = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in (line.split() for line in out.splitlines())}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    body = []
    for struct, dtype in layout.STRUCTS.items():
        body.append(f'printf("{struct} %zu\\n", sizeof(struct {struct}));')
        for field in dtype.names or ():
            body.append(f'printf("{struct}.{field} %zu\\n", offsetof(struct {struct}, {field}));')
            body.append(f'printf("{struct}.{field}# %zu\\n", sizeof(((struct {struct} *)0)->{field}));')
    body += [f'printf("{name} %llu\\n", (unsigned long long)({name}));' for name in CONSTANTS]
    return _run_c(body, tmp_path_factory.mktemp("layout"))


@pytest.mark.parametrize("struct", layout.STRUCTS)
def test_struct_is_laid_out_as_in_c(struct: str, compiled: dict[str, int]) -> None:
    dtype = layout.STRUCTS[struct]
    assert dtype.itemsize == compiled[struct]
    fields = dtype.fields
    assert fields is not None
    for field, (kind, offset, *_) in fields.items():
        assert (offset, kind.itemsize) == (compiled[f"{struct}.{field}"], compiled[f"{struct}.{field}#"]), field


def test_constants_are_those_of_c(compiled: dict[str, int]) -> None:
    assert {name: compiled[name] for name in CONSTANTS} == CONSTANTS


def test_magic_and_class_names() -> None:
    header = (CORE / "log_format.h").read_text()
    assert '#define PT_LOG_MAGIC "PYIOLOG\\n"' in header
    assert layout.MAGIC == b"PYIOLOG\n"
    for number, name in enumerate(events.CLASSES):
        c_name = {"span": "SPANS"}.get(name, name.upper())
        assert f"PT_{c_name} = {number}" in header
