"""Undo log of a snapshot: the cost of a revert depends on the changes, not on the snapshot's size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Journal:
    """Undo functions of the changes since each open mark.

    Make the change first, then record its undo. Without an open mark nothing is recorded. Marks nest: an outer mark
    also undoes the changes since a forgotten inner mark.

    Examples
    --------
    >>> journal, numbers = Journal(), [1]
    >>> mark = journal.mark()
    >>> numbers.append(2)
    >>> journal.record(numbers.pop)
    >>> journal.revert_to(mark)
    >>> numbers
    [1]
    """

    __slots__ = ("_is_reverting", "_marks", "_undos")

    def __init__(self) -> None:
        self._undos: list[Callable[[], object]] = []
        self._marks: list[int] = []
        self._is_reverting = False

    @property
    def depth(self) -> int:
        """Number of open marks."""
        return len(self._marks)

    def mark(self) -> int:
        """Open a mark.

        Returns
        -------
        int
            The mark, for `revert_to` or `forget_to`; valid until it, or a mark outside it, is closed.
        """
        self._marks.append(len(self._undos))
        return len(self._marks) - 1

    def record(self, undo: Callable[[], object]) -> None:
        """Record the undo of the last change. An undo must neither fail nor record."""
        if self._is_reverting:
            raise RuntimeError("an undo recorded a change")
        if self._marks:
            self._undos.append(undo)

    def revert_to(self, mark: int) -> None:
        """Undo everything since the mark, latest first, and close it and the marks inside it.

        Raises
        ------
        ValueError
            When the mark is not open.
        """
        length = self._close(mark)
        self._is_reverting = True
        try:
            while len(self._undos) > length:
                self._undos.pop()()
        finally:
            self._is_reverting = False

    def forget_to(self, mark: int) -> None:
        """Keep the changes since the mark, and close it and the marks inside it.

        Raises
        ------
        ValueError
            When the mark is not open.
        """
        self._close(mark)
        if not self._marks:
            self._undos.clear()

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Undo the changes of the block if it raises."""
        mark = self.mark()
        try:
            yield
        except BaseException:
            self.revert_to(mark)
            raise
        self.forget_to(mark)

    def _close(self, mark: int) -> int:
        """Length of the log at the mark."""
        if not 0 <= mark < len(self._marks):
            raise ValueError(f"mark {mark} is not open; {len(self._marks)} marks are open")
        length = self._marks[mark]
        del self._marks[mark:]
        return length
