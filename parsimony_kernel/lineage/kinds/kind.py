"""What a kind of objects is: how they are copied, compared with the copy, and set back."""

from collections.abc import Collection, Iterable
from typing import Any, Protocol


class Kind(Protocol):
    """How objects of one kind are copied."""

    def size(self, value: Any) -> int:
        """The bytes that a copy takes."""
        ...

    def copy(self, value: Any) -> Any:
        """What ``value`` holds."""
        ...

    def same(self, value: Any, held: Any) -> bool:
        """Whether ``value`` still holds that."""
        ...

    def set_back(self, value: Any, held: Any) -> Any:
        """``value`` holding that again, or what takes its place where it cannot be mended."""
        ...

    def parts(self, held: Any) -> Collection[Any]:
        """What lies in it."""
        ...


def same_objects(one: Iterable[Any], other: Iterable[Any], sizes: tuple[int, int]) -> bool:
    """Whether two hold the very same objects in the same order."""
    return sizes[0] == sizes[1] and all(a is b for a, b in zip(one, other, strict=False))
