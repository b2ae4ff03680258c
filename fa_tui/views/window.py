"""The part of a row of things that is on screen, where there are more than fit side by side. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Window(NamedTuple):
    """Things `first` to `first` + `size` - 1 of `total` are seen.

    Attributes:
        first: place of the first one seen, from 0.
        size: how many are seen at a time.
        total: how many there are.
    """

    first: int
    size: int
    total: int

    @classmethod
    def on(cls, total: int, at_most: int, first: int = 0) -> Window:
        """At most so many of them, from the first one on, or as far back as it takes to see that many.

        >>> Window.on(10, 6, first=8)
        Window(first=4, size=6, total=10)
        """
        size = min(at_most, total)
        return cls(max(0, min(first, total - size)), size, total)

    def moved(self, step: int) -> Window:
        """The same some places later, not beyond an end.

        >>> Window.on(10, 6).moved(1).first, Window.on(10, 6).moved(6).first, Window.on(10, 6).moved(-1).first
        (1, 4, 0)
        """
        return Window.on(self.total, self.size, self.first + step)

    @property
    def end(self) -> int:
        """The place after the last one seen."""
        return self.first + self.size

    @property
    def hides(self) -> bool:
        """Whether some are not seen."""
        return self.size < self.total

    @property
    def words(self) -> str:
        """Which ones are seen, counted from 1; all of them by their number.

        >>> Window.on(10, 6).words, Window.on(7, 1, 6).words, Window.on(3, 6).words
        ('1-6 of 10', '7 of 7', '3')
        """
        if not self.hides:
            return str(self.total)
        return f"{self.first + 1}{f'-{self.end}' if self.size > 1 else ''} of {self.total}"
