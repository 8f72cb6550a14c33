"""Views of tensors that torch.save writes with their whole storages."""

from __future__ import annotations

import pytest

from tests.support.findings import evidence_of, findings_of, none, only
from tests.support.programs import Runner

pytestmark = [pytest.mark.once, pytest.mark.frameworks("torch")]

#: A table of 4 MiB, and its first eighth.
SAVING = """
import collections, torch
table = torch.zeros(1 << 20)
part = table[: 1 << 17]
class Own(torch.Tensor): pass
class Box:
    def __init__(self, tensor): self.tensor = tensor
for n in range(3): torch.save(WHAT, f"part-{n}.pt")
"""
MIB = 1 << 20
VIEWS = {
    "part": MIB // 2,
    "{'a': part, 'b': [part.reshape(2, -1), 7, 'x']}": MIB,
    "collections.OrderedDict(a=torch.nn.Parameter(part))": MIB // 2,
    "(part, torch.zeros(1 << 10))": MIB // 2 + 4096,
}


@pytest.mark.parametrize("what", VIEWS)
def test_views(program: Runner, what: str) -> None:
    # GIVEN views that are saved three times WHEN findings are made
    outcome = program.traced(SAVING.replace("WHAT", what))
    finding = only(findings_of(outcome), "saved-storages")
    # THEN it says the bytes that they have, and those in the files
    values = finding.evidence[0].values
    files = sum(path.stat().st_size for path in program.folder.glob("part-*.pt"))
    assert values["tensors"] == 3 * VIEWS[what] and 0 <= files - int(values["written"]) < 30_000
    assert finding.sites[0].line == 8 and evidence_of(finding, outcome.log)
    assert finding.remedy is not None and ".clone()" in finding.remedy.after


@pytest.mark.parametrize("what", [
    "table", "part.clone()", "{'a': part, 'b': table}", "[table[: 1 << 19], table[1 << 19 :]]", "table[::2].clone()",
    "Box(part)", "part.as_subclass(Own)", "torch.zeros(9).to_sparse()", "'text'", "torch.nn.Linear(9, 9).state_dict()",
])  # fmt: skip
def test_what_has_no_more_than_it_needs(program: Runner, what: str) -> None:
    # GIVEN whole tensors, views of all of one, and objects of other kinds WHEN findings are made THEN nothing is said
    outcome = program.traced(SAVING.replace("WHAT", what))
    assert outcome.status == 0 and none(findings_of(outcome), "saved-storages")


def test_a_mode_of_the_program(program: Runner) -> None:
    # GIVEN a program that sees each function that is called on a tensor WHEN it saves THEN it sees none of ours
    text = """
    import torch
    from torch.overrides import TorchFunctionMode
    class Seen(TorchFunctionMode):
        def __torch_function__(self, function, kinds, args=(), kwargs=None):
            print(getattr(function, "__name__", function))
            return function(*args, **(kwargs or {}))
    table = torch.zeros(100)
    with Seen(): torch.save(table[:10], "part.pt")
    """
    assert program.traced(text).stdout == program.bare(text).stdout
