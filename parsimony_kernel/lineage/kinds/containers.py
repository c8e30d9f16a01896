"""How the containers of Python are copied and set back."""

import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from weakref import ref

from parsimony_kernel.lineage.kinds.kind import same_objects


@dataclass(frozen=True)
class _Container:
    def size(self, value: Any) -> int:
        return sys.getsizeof(value)

    def copy(self, value: Any) -> Any:
        return value.copy()

    def parts(self, held: Any) -> Collection[Any]:
        parts: Collection[Any] = held
        return parts


@dataclass(frozen=True)
class SequenceKind(_Container):
    def same(self, value: Any, held: Any) -> bool:
        return same_objects(value, held, (len(value), len(held)))

    def set_back(self, value: Any, held: Any) -> Any:
        if type(value) is list:
            value[:] = held
        else:
            value.clear()
            value.extend(held)
        return value


@dataclass(frozen=True)
class MappingKind(_Container):
    """A mapping. A weak reference that was added since stays, and is no change: what it refers to
    takes it out again when it is gone, and looks for it here."""

    def same(self, value: Any, held: Any) -> bool:
        if new := _new_references(value, held):
            value = {key: each for key, each in value.items() if key not in new}
        sizes = (len(value), len(held))
        return same_objects(value, held, sizes) and same_objects(
            value.values(), held.values(), sizes
        )

    def set_back(self, value: Any, held: Any) -> Any:
        new = _new_references(value, held)
        value.clear()
        value.update(held)
        value.update(new)
        return value

    def parts(self, held: Any) -> Collection[Any]:
        parts: Collection[Any] = held.values()
        return parts


@dataclass(frozen=True)
class SetKind(_Container):
    def same(self, value: Any, held: Any) -> bool:
        return len(value) == len(held) and {id(each) for each in value} == {
            id(each) for each in held
        }

    def set_back(self, value: Any, held: Any) -> Any:
        value.clear()
        value.update(held)
        return value


@dataclass(frozen=True)
class BytesKind(_Container):
    def copy(self, value: Any) -> Any:
        return value[:]

    def same(self, value: Any, held: Any) -> bool:
        return bytes(value) == bytes(held)

    def set_back(self, value: Any, held: Any) -> Any:
        value[:] = held
        return value

    def parts(self, held: Any) -> Collection[Any]:
        return ()


@dataclass(frozen=True)
class TupleKind(_Container):
    """Cannot be changed; what it holds can."""

    def size(self, value: Any) -> int:
        return 0

    def copy(self, value: Any) -> Any:
        return tuple.__getitem__(value, slice(None))

    def same(self, value: Any, held: Any) -> bool:
        return True

    def set_back(self, value: Any, held: Any) -> Any:
        return value


def _new_references(value: Any, held: Any) -> dict[Any, Any]:
    if len(value) <= len(held) or ref not in set(map(type, value.values())):
        return {}
    return {key: each for key, each in value.items() if type(each) is ref and key not in held}


SEQUENCE = SequenceKind()
MAPPING = MappingKind()
SET = SetKind()
BYTES = BytesKind()
TUPLE = TupleKind()
