"""Who has written the pages of a file that is mapped several times, as far as that can be told.

The kernel tells each process of all dirty pages that it maps, whoever wrote them.
So several mappings of a file may report the same pages.  The sum made here never
exceeds the pages that became dirty; where the kernel does not say enough, it is a
lower bound.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

#: The most mappings of one file that are compared with each other; with more, the sum is only cut to the file's size.
_MOST_COMPARED = 256


class _Row(Protocol):
    written: int


class Share(NamedTuple):
    """What one shared mapping of a file was found to have written; in bytes, made and at in ticks.

    synced: the part of `written` that was synced.  others: what its msyncs cleaned besides.  dirty: of the whole file
    when this was measured, 0: unknown.  place: (offset, length).  parts: bits of the sixteenths that were touched.
    """

    row: _Row
    written: int
    synced: int
    others: int
    touched: int
    dirty: int
    made: int
    at: int
    place: tuple[int, int]
    parts: int
    inherited: bool
    was_synced: bool
    synced_others: bool


def divide(shares: list[Share]) -> None:
    """Corrects the rows of the mappings of one file."""
    if len(shares) < 2:
        return
    if any(share.inherited for share in shares) or len(shares) > _MOST_COMPARED:
        counted = _of_family(shares)
    else:
        counted = _in_order(shares)
    _return_cleaned(shares, counted)


def _of_family(shares: list[Share]) -> list[int]:
    """Cuts what the processes of one family wrote to the size of the file, counting children first.

    What a process has made dirty and synced itself is not cut.  Returns what is left of each.
    """
    left = max(sum(share.place) for share in shares)
    counted = [share.written for share in shares]
    for number in sorted(range(len(shares)), key=lambda at: (shares[at].synced_others, not shares[at].inherited)):
        share = shares[number]
        if share.synced_others or not share.was_synced:
            counted[number] = min(share.written, left)
            share.row.written -= share.written - counted[number]
            left = max(left - share.written, 0)
    return counted


def _in_order(shares: list[Share]) -> list[int]:
    """Counts for each mapping, in the order they were measured, only what surely no earlier one has counted.

    That is what it has beyond the earlier ones that share pages with it, or what is dirty in the file beyond all that
    was counted.  What was dirty when the mapping was made is subtracted already.  Returns what is left of each.
    """
    counted = [0] * len(shares)
    before: list[int] = []
    for number in sorted(range(len(shares)), key=lambda at: shares[at].at):
        share = shares[number]
        earlier = [(shares[other], counted[other]) for other in before]
        shared = sum(n for other, n in earlier if other.at > share.made and _may_share_pages(other, share))
        unsynced = share.written - share.synced
        beyond = max(unsynced - shared, share.dirty - sum(n for _, n in earlier), 0)
        counted[number] = min(unsynced, beyond)
        left = max(share.synced - shared, 0) + counted[number]
        share.row.written -= share.written - left
        before.append(number)
    return counted


def _may_share_pages(one: Share, other: Share) -> bool:
    if one.place == other.place and one.parts and other.parts:
        return bool(one.parts & other.parts)
    return one.place[0] < sum(other.place) and other.place[0] < sum(one.place)


def _return_cleaned(shares: list[Share], counted: list[int]) -> None:
    """Gives back to others what an msync cleaned of theirs, which they can no longer see, if they touched as much."""
    for number, share in enumerate(shares):
        others = [other for other in range(len(shares)) if other != number]
        left = share.others - sum(counted[other] for other in others) if share.others else 0
        for other in others:
            room = shares[other].touched - shares[other].written
            if left > 0 and room > 0 and shares[other].at > share.made:
                shares[other].row.written += min(room, left)
                left -= room
