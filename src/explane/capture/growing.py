"""Tables of columns that grow while a file is read.

No table of millions of events exists twice: when a column runs out of room, only that one is
copied. A column that has one value throughout is stored as that one value.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Columns = TypeVar("Columns")

_DTYPES: Final = {"I32": np.int32, "I64": np.int64, "U8": np.uint8}


def is_constant(column: Array) -> bool:
    """Whether a column is one value that is stored once (`np.broadcast_to`)."""
    return len(column) > 0 and column.strides == (0,)


def pick(column: Array, rows: npt.NDArray[np.intp]) -> Array:
    """Rows of a column; a constant one stays constant."""
    if is_constant(column) and len(rows):
        return np.broadcast_to(column[0], len(rows))
    return column[rows]


class _Column:
    """One growing column: a single value as long as all are equal, then an array with room."""

    def __init__(self, dtype: type):
        self._constant: Array = np.zeros((), dtype)
        self._room: Array | None = None
        self._count = 0

    def append(self, part: Array) -> None:
        """Add values at the end."""
        if len(part) == 0:
            return
        count = self._count + len(part)
        if self._room is None and self._goes_on(part):
            self._constant = np.array(part[0], self._constant.dtype)
        else:
            self._stored(count)[self._count : count] = part
        self._count = count

    def _goes_on(self, part: Array) -> bool:
        return is_constant(part) and (self._count == 0 or bool(part[0] == self._constant))

    def _stored(self, count: int) -> Array:
        """An array with room for a number of values, the present ones at its front.

        Room doubles; what is never written to takes no memory on systems that hand out pages
        when they are touched.
        """
        old = self._room
        if old is None or len(old) < count:
            self._room = np.empty(max(count, 2 * self._count), self._constant.dtype)
            self._room[: self._count] = self._constant if old is None else old[: self._count]
            return self._room
        return old

    def fill(self, first: int, value: int) -> None:
        """Give all values from a row on the same value."""
        if self._room is None and (first == 0 or self._constant == value):
            self._constant = np.array(value, self._constant.dtype)
        else:
            self.values(first)[:] = value

    def values(self, first: int) -> Array:
        """The values from a row on, to write into before the column grows."""
        return self._stored(self._count)[first : self._count]

    def constant(self) -> int | None:
        """The one value that all rows have, or None."""
        return int(self._constant) if self._room is None else None

    def truncate(self, count: int) -> None:
        """Drop the values from a row on."""
        self._count = count

    def finish(self) -> Array:
        """The column."""
        if self._room is None:
            return np.broadcast_to(self._constant, self._count)
        return self._room[: self._count]


class GrowingTable(Generic[Columns]):
    """A table that grows by parts.

    Args:
        kind: Dataclass whose fields are columns, named by their types in the model.
    """

    def __init__(self, kind: type[Columns]):
        self._kind = kind
        self._columns = {
            f.name: _Column(_DTYPES[str(f.type)])
            for f in fields(kind)  # type: ignore[arg-type]
        }
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, part: Columns) -> None:
        """Add rows at the end."""
        n_rows = 0
        for name, column in self._columns.items():
            values: Array = getattr(part, name)
            n_rows = len(values)
            column.append(values)
        self._count += n_rows

    def fill(self, name: str, first: int, value: int) -> None:
        """Set a column to one value from a row on."""
        self._columns[name].fill(first, value)

    def rows(self, name: str, first: int) -> Array:
        """The values of a column from a row on, to change in place before more are added."""
        return self._columns[name].values(first)

    def constant(self, name: str) -> int | None:
        """The value of a column that has only one so far, else None."""
        return self._columns[name].constant()

    def truncate(self, count: int) -> None:
        """Drop the rows from a row on."""
        for column in self._columns.values():
            column.truncate(count)
        self._count = count

    def finish(self) -> Columns:
        """The whole table."""
        return self._kind(**{name: column.finish() for name, column in self._columns.items()})
