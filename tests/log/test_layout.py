"""The reader's numbers against the C headers: every enumerator, constant, size and offset."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from pyio_trace import enums
from pyio_trace.log import layout
from pyio_trace.values import MODES, STACK_STATES
from tests.support.logwriter import OP, OP_ROWS

CORE = Path(__file__).resolve().parents[2] / "csrc" / "core"
HEADERS = [CORE / "format" / name for name in ("log_format.h", "log_records.h")]

#: Enums that are classes of the reader's: prefix of the C names, class.
CLASSES = {
    "pt_layer": ("PT_", enums.Layer),
    "pt_class": ("PT_", enums.OpClass),
    "pt_link": ("PT_LINK_", enums.Link),
    "pt_span_kind": ("PT_SPAN_", enums.SpanKind),
    "pt_trait": ("PT_", layout.Trait),
}
#: Enums of which the reader has only the words, by number or by bit: prefixes of the C names, words, bits.
WORDS = {
    "pt_desc_kind": (r"PT_(?:DESC|LEFT)_", layout.DESC_KINDS, False),
    "pt_blind": ("PT_BLIND_", layout.BLIND, True),
    "pt_stack_state": ("PT_STACKS_", STACK_STATES, False),
    "pt_mode": ("PT_MODE_", MODES, False),
    "pt_system_kind": ("PT_SYSTEM_", layout.SYSTEM_KINDS, False),
    "pt_sample_state": ("PT_SAMPLE_", [word.replace(" ", "_") for word in layout.SAMPLE_STATES], False),
}
#: Constants of the headers that writers alone need.
WRITERS_OWN = {
    "PT_PROCESS_BUCKETS", "PT_PROCESS_INDEX_OFFSET", "PT_SEEK_DISTANCE", "PT_SETTINGS_MOST",
    "PT_SHELLS",
}  # fmt: skip


def _text() -> str:
    text = "\n".join(header.read_text() for header in HEADERS)
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def _enums() -> dict[str, list[str]]:
    """The enumerators of each enum of the headers, in order."""
    found = re.findall(r"enum (\w+) \{(.*?)\}", _text(), flags=re.DOTALL)
    return {name: re.findall(r"\bPT_\w+", body) for name, body in found}


#: The headers' names by which they define a number.
DEFINES = re.findall(r"^#define (PT_\w+)\s+\\?\s*[(\d]", _text(), flags=re.MULTILINE)


def _run_c(body: list[str], folder: Path) -> dict[str, int]:
    source = folder / "offsets.c"
    source.write_text(
        '#include <stdio.h>\n#include "format/log_format.h"\nint main(void) {\n' + "\n".join(body) + "\nreturn 0;\n}\n"
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
    body += [
        f'printf("{name} %lld\\n", (long long)({name}));'
        for name in [*DEFINES, *(name for names in _enums().values() for name in names)]
    ]
    return _run_c(body, tmp_path_factory.mktemp("layout"))


@pytest.mark.parametrize("struct", layout.STRUCTS)
def test_struct_is_laid_out_as_in_c(struct: str, compiled: dict[str, int]) -> None:
    dtype = layout.STRUCTS[struct]
    assert dtype.itemsize == compiled[struct]
    fields = dtype.fields
    assert fields is not None
    for field, (kind, offset, *_) in fields.items():
        assert (offset, kind.itemsize) == (compiled[f"{struct}.{field}"], compiled[f"{struct}.{field}#"]), field


@pytest.mark.parametrize("enum", _enums())
def test_enum_is_that_of_c(enum: str, compiled: dict[str, int]) -> None:
    names = _enums()[enum]
    if enum in CLASSES:
        prefix, numbers = CLASSES[enum]
        own = {f"{prefix}{name}": number for name, number in vars(numbers).items() if name.isupper()}
        assert own == {name: compiled[name] for name in names}
    elif enum in WORDS:
        prefix, words, bits = WORDS[enum]
        assert [re.sub(f"^{prefix}", "", name).lower() for name in names] == list(words)
        assert [compiled[name] for name in names] == [1 << at if bits else at for at in range(len(words))]
    else:
        own = {name: getattr(layout, name.removeprefix("PT_"), None) for name in names}
        assert own == {name: compiled[name] for name in names}


def test_constants_are_those_of_c(compiled: dict[str, int]) -> None:
    own = {name: getattr(layout, name.removeprefix("PT_"), None) for name in DEFINES if name not in WRITERS_OWN}
    assert own.pop("PT_LOG_VERSION", None) is None
    assert compiled["PT_LOG_VERSION"] == layout.VERSION
    assert own == {name: compiled[name] for name in own}


def test_words_that_are_derived() -> None:
    assert enums.LAYERS == ("app", "user", "hdf5", "mpiio", "stdio", "posix")
    assert enums.LINKS == ("none", "thread", "context", "descriptor", "inferred")
    assert layout.STARTS == ("top", "fork", "joined", "vfork", "spawn", "found")
    assert set(layout.FULL_REASONS) == {getattr(layout, name[3:]) for name in _enums()["pt_full_reason"]} - {0}


def test_magic_and_layer_names() -> None:
    assert '#define PT_LOG_MAGIC "PYIOLOG\\n"' in _text()
    assert layout.MAGIC == b"PYIOLOG\n"
    table = (CORE / "format" / "operations.c").read_text().partition("pt_layer_names[] = {")[2].partition("};")[0]
    assert re.findall(r'\[PT_(\w+)\] = "(\w+)"', table) == [(name.upper(), name) for name in enums.LAYERS]


T = layout.Trait
POSITION = T.USES_POSITION | T.MOVES_POSITION
FIELDS = T.SIZE_IS_BYTES | T.RESULT_IS_BYTES | T.OFFSET_IS_PLACE | T.HAS_DESCRIPTOR


@pytest.mark.parametrize(
    ("op", "span", "traits"),
    [
        ("PREAD", "NONE", T.READS | T.KERNEL_COUNTS | POSITION | FIELDS | T.TAKES_PARENT),
        ("WRITE", "NONE", T.WRITES | T.KERNEL_COUNTS | POSITION | FIELDS | T.TAKES_PARENT),
        ("FREAD", "REQUEST", T.READS | T.KERNEL_COUNTS | T.MOVES_POSITION | FIELDS | T.TAKES_PARENT),
        ("A_BUF_READ", "REQUEST", T.READS | FIELDS | T.TAKES_PARENT),
        ("VMSPLICE", "NONE", T.WRITES | POSITION | FIELDS | T.TAKES_PARENT),
        ("LSEEK", "NONE", T.SETS_POSITION | T.MOVES_POSITION | T.OFFSET_IS_PLACE | T.HAS_DESCRIPTOR | T.TAKES_PARENT),
        (
            "COPY_FILE_RANGE_AT", "NONE",
            T.READS | T.WRITES | T.COPIES | T.KERNEL_COUNTS | T.MOVES_POSITION | T.OUTPUT_STAYS | FIELDS
            | T.AUX_IS_ID | T.TAKES_PARENT,
        ),
        ("SPLICE", "NONE", T.READS | T.WRITES | T.COPIES | T.MOVES_POSITION | FIELDS | T.AUX_IS_ID | T.TAKES_PARENT),
        ("OPENAT", "NONE", T.HAS_DESCRIPTOR | T.NAMES_PATH | T.OFFSET_IS_ID | T.ENCLOSES | T.TAKES_PARENT),
        ("STAT", "NONE", T.SIZE_IS_BYTES | T.RESULT_IS_BYTES | T.NAMES_PATH | T.TAKES_PARENT),
        ("RENAME", "NONE", T.NAMES_PATH | T.AUX_IS_ID | T.TAKES_NAME | T.GIVES_NAME | T.TAKES_PARENT),
        ("SYSTEM", "WAIT", T.NAMES_PATH),
        ("RESUME", "NONE", T.SETS_POSITION | FIELDS | T.HIDDEN),
        ("SPAN_USER", "CONTAINER", T.SIZE_IS_BYTES | T.RESULT_IS_BYTES | T.AUX_IS_ID | T.OFFSET_IS_ID | T.ENCLOSES),
        ("SPAN_APP", "REQUEST", T.SIZE_IS_BYTES | T.RESULT_IS_BYTES | T.AUX_IS_ID | T.OFFSET_IS_ID | T.ENCLOSES),
        (
            "H5D_READ", "REQUEST",
            T.READS | T.SIZE_IS_BYTES | T.RESULT_IS_BYTES | T.AUX_IS_ID | T.OFFSET_IS_ID | T.ENCLOSES,
        ),
    ],
)  # fmt: skip
def test_what_operations_do(op: str, span: str, traits: int) -> None:
    row = OP_ROWS[OP[op]]
    assert (int(row["span"]), int(row["traits"])) == (getattr(enums.SpanKind, span), traits)


def test_every_operation_is_consistent() -> None:
    for row in OP_ROWS[: len(OP)]:
        traits, klass = int(row["traits"]), int(row["klass"])
        moves = klass in (enums.OpClass.READ, enums.OpClass.WRITE, enums.OpClass.COPY)
        assert bool(traits & (T.READS | T.WRITES)) == moves, row
        assert not traits & (T.USES_POSITION | T.COPIES) or traits & T.MOVES_POSITION, row
        assert not traits & T.OUTPUT_STAYS or traits & T.COPIES, row
        assert not traits & T.KERNEL_COUNTS or moves, row
    assert not OP_ROWS[len(OP) :]["traits"].any()
