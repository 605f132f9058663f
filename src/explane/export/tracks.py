"""The tree of tracks that a viewer shows: hosts, their GPUs with streams, their threads.

https://perfetto.dev/docs/reference/trace-packet-proto#TrackDescriptor
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from explane.errors import one_line
from explane.export import protobuf

_UUID, _NAME, _PARENT = 1, 2, 5
_CHILD_ORDERING, _RANK, _MERGE_BEHAVIOR, _MERGE_KEY = 11, 12, 15, 16
_EXPLICIT: Final = 3
_BY_KEY: Final = 3

Path = tuple[tuple[int, str], ...]
"""Where a track hangs: rank among its siblings and name, from the outermost group inwards."""


@dataclass
class TrackTree:
    """Numbers of tracks, and their descriptors in the order in which they must be written.

    Lanes of one place are tracks of the same name with one merge key, which viewers show as one
    track with several rows.
    """

    _numbers: dict[tuple[Path, int], int] = field(default_factory=dict)
    _unwritten: list[bytes] = field(default_factory=list)

    def number(self, path: Path, lane: int = 0) -> int:
        """The uuid of a track; made when it is new, with all the groups that it hangs in."""
        key = (path, lane)
        if key not in self._numbers:
            parent = self.number(path[:-1]) if len(path) > 1 else 0
            merge_key = self.number(path) if lane else len(self._numbers) + 1
            self._numbers[key] = len(self._numbers) + 1
            self._unwritten.append(_descriptor(self._numbers[key], parent, path[-1], merge_key))
        return self._numbers[key]

    def take_unwritten(self) -> Iterator[bytes]:
        """Contents of the TrackDescriptors since the last call, parents first."""
        new, self._unwritten = self._unwritten, []
        yield from new


def _descriptor(uuid: int, parent: int, place: tuple[int, str], merge_key: int) -> bytes:
    rank, name = place
    return b"".join(
        (
            protobuf.integer(_UUID, uuid),
            protobuf.integer(_PARENT, parent),
            protobuf.text(_NAME, one_line(name, 200)),
            protobuf.integer(_CHILD_ORDERING, _EXPLICIT),
            protobuf.integer(_RANK, rank),
            protobuf.integer(_MERGE_BEHAVIOR, _BY_KEY),
            protobuf.text(_MERGE_KEY, str(merge_key)),
        )
    )
