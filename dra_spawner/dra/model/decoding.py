"""Reading API objects from JSON: typed access that knows the path of every field.

As in Kubernetes' own decoder, unknown fields are ignored and null counts as absent. What a wrong type or a value
outside the API's bounds raises, an :class:`ObjectError`, names the object and the field.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NoReturn, cast

from dra_spawner.dra.quantity import Quantity, QuantityError

_TYPE_NAMES: Final = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "an integer"}

_MAX_SHOWN: Final = 500
"""Characters of a problem, a path or a name; an object may have a megabyte where a word is expected."""
_NO_UNICODE: Final = "must be Unicode text; it has half of a surrogate pair"

MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)

Json = Mapping[str, object]
"""A JSON object as ``json.loads`` makes it."""


class ObjectError(ValueError):
    """An object that the API server would refuse, or that is of another kind.

    Attributes
    ----------
    object_name
        Kind and name, for example ``ResourceSlice n0-gpu-0``; empty while the name is not known.
    path
        The field, for example ``spec.devices[3].capacity[memory].value``.
    problem
        What is wrong with it.
    """

    def __init__(self, object_name: str, path: str, problem: str) -> None:
        object_name, path, problem = map(_printable, (object_name, path, problem))
        self.object_name = object_name
        self.path = path
        self.problem = problem
        super().__init__(": ".join(part for part in (object_name, path, problem) if part))


class Reader:
    """One JSON object and where it stands."""

    __slots__ = ("_key", "_parent", "_value")

    def __init__(self, value: Json, key: str, parent: Reader | None = None) -> None:
        self._value = value
        self._key = key
        self._parent = parent

    @classmethod
    def root(cls, value: object, kind: str) -> Reader:
        """Reader of a whole API object, which errors call by its kind and name.

        Raises
        ------
        ObjectError
            When the value is no JSON object, or says that it is of another kind.
        """
        if not isinstance(value, Mapping):
            raise ObjectError(kind, "", f"must be an object, not {_shown_type(value)}")
        metadata = value.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        reader = cls(value, f"{kind} {name}" if isinstance(name, str) else kind)
        if value.get("kind", kind) != kind:
            reader.fail("kind", f"must be {kind}, not {value['kind']!r}")
        return reader

    def fail(self, key: str, problem: str) -> NoReturn:
        """Raise an :class:`ObjectError` about one field of this object (empty: about the object)."""
        path = [key]
        reader: Reader = self
        while reader._parent is not None:
            path.append(reader._key)
            reader = reader._parent
        text = ""
        for part in reversed(path):
            text += part if part.startswith("[") or not text or not part else f".{part}"
        raise ObjectError(reader._key, text, problem)

    def has(self, key: str) -> bool:
        """Whether the field is there and not null."""
        return self._value.get(key) is not None

    def text(self, key: str, default: str = "") -> str:
        value = self._value.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            self._wrong_type(key, "a string", value)
        if not (value.isascii() or is_unicode(value)):
            self.fail(key, _NO_UNICODE)
        return value

    def required_text(self, key: str) -> str:
        """A string that must be there and not be empty."""
        value = self.text(key)
        if not value:
            self.fail(key, "is required")
        return value

    def optional_text(self, key: str) -> str | None:
        return self.text(key) if self.has(key) else None

    def boolean(self, key: str) -> bool | None:
        value = self._value.get(key)
        if value is not None and not isinstance(value, bool):
            self._wrong_type(key, "a boolean", value)
        return value

    def integer(self, key: str, default: int = 0, minimum: int = MIN_INT64) -> int:
        """An int64."""
        value = self._value.get(key)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool):
            self._wrong_type(key, "an integer", value)
        if not minimum <= value <= MAX_INT64:
            self.fail(key, f"must be from {minimum} to {MAX_INT64}, not {value}")
        return value

    def quantity(self, key: str) -> Quantity:
        """A quantity; zero when absent, as in the API."""
        try:
            return Quantity.from_json(self._value.get(key))
        except QuantityError as error:
            self.fail(key, str(error))

    def optional_quantity(self, key: str) -> Quantity | None:
        return self.quantity(key) if self.has(key) else None

    def quantities(self, key: str) -> tuple[Quantity, ...] | None:
        """A list of quantities; None when absent."""
        if self._list(key) is None:
            return None
        items, names = self._items(key)
        return tuple(items.quantity(name) for name in names)

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of strings; None when absent."""
        values = self._list(key)
        if values is None:
            return None
        for index, value in enumerate(values):
            if not isinstance(value, str):
                self._wrong_type(f"{key}[{index}]", "a string", value)
            if not (value.isascii() or is_unicode(value)):
                self.fail(f"{key}[{index}]", _NO_UNICODE)
        return tuple(map(str, values))

    def integers(self, key: str) -> tuple[int, ...]:
        """A list of int64; empty when absent."""
        items, names = self._items(key)
        return tuple(items.integer(name) for name in names)

    def booleans(self, key: str) -> tuple[bool, ...]:
        """A list of booleans; empty when absent."""
        items, names = self._items(key)
        return tuple(bool(items.boolean(name)) for name in names)

    def child(self, key: str) -> Reader | None:
        """The object in this field; None when absent."""
        value = self._value.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self._wrong_type(key, "an object", value)
        return Reader(value, key, self)

    def required_child(self, key: str) -> Reader:
        child = self.child(key)
        if child is None:
            self.fail(key, "is required")
        return child

    def children(self, key: str) -> list[Reader]:
        """The objects of the list in this field; none when absent."""
        readers = []
        for index, value in enumerate(self._list(key) or ()):
            if not isinstance(value, Mapping):
                self._wrong_type(f"{key}[{index}]", "an object", value)
            readers.append(Reader(value, f"{key}[{index}]", self))
        return readers

    def entries(self, key: str) -> Iterator[tuple[str, Reader]]:
        """Keys and objects of the map in this field; none when absent."""
        value = self._value.get(key)
        if value is None:
            return
        if not isinstance(value, Mapping):
            self._wrong_type(key, "an object", value)
        self._check_names(key, value)
        for name, item in value.items():
            if not isinstance(item, Mapping):
                self._wrong_type(f"{key}[{name}]", "an object", item)
            yield name, Reader(item, f"{key}[{name}]", self)

    def quantity_map(self, key: str) -> dict[str, Quantity] | None:
        """A map of quantities; None when absent."""
        child = self.child(key)
        if child is None:
            return None
        self._check_names(key, child._value)
        try:
            return {name: Quantity.from_json(value) for name, value in child._value.items()}
        except QuantityError:
            for name in child._value:
                Reader({f"[{name}]": child._value[name]}, key, self).quantity(f"[{name}]")
            raise

    def text_map(self, key: str) -> dict[str, str]:
        """A map of strings; empty when absent."""
        child = self.child(key)
        if child is None:
            return {}
        found = cast(Mapping[str, str], child._value)
        try:
            if "".join(found).isascii() and "".join(found.values()).isascii():
                return dict(found)
        except TypeError:
            pass  # not all are strings
        self._check_names(key, found)
        return {name: child.text(name) for name in found}

    def without(self, keys: Collection[str]) -> Reader:
        """The same object without some fields."""
        return Reader({name: value for name, value in self._value.items() if name not in keys}, self._key, self._parent)

    def raw(self, key: str) -> object:
        """The value as it stands."""
        return self._value.get(key)

    def _list(self, key: str) -> Sequence[object] | None:
        value = self._value.get(key)
        if value is not None and not isinstance(value, (list, tuple)):
            self._wrong_type(key, "a list", value)
        return value

    def _items(self, key: str) -> tuple[Reader, list[str]]:
        """The items of a list as the fields "[0]", "[1]" and so on of an object, and the names of these fields."""
        values = {f"[{index}]": value for index, value in enumerate(self._list(key) or ())}
        return Reader(values, key, self), list(values)

    def _check_names(self, key: str, value: Json) -> None:
        try:
            names = "".join(value)
        except TypeError:
            self.fail(key, "must have strings as keys")
        if not names.isascii() and not all(map(is_unicode, value)):
            self.fail(key, "must have Unicode text as keys; one has half of a surrogate pair")

    def _wrong_type(self, key: str, wanted: str, value: object) -> NoReturn:
        self.fail(key, f"must be {wanted}, not {_shown_type(value)}")


def is_unicode(text: str) -> bool:
    """Whether it can be written as UTF-8, which half of a surrogate pair cannot; the API server has no such names."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _printable(text: str) -> str:
    """The text for logs and answers: long texts are cut, lone surrogates escaped."""
    shown = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]} ..."
    return shown if shown.isascii() else shown.encode("utf-8", "backslashreplace").decode()


def is_deeper_than(value: object, levels: int) -> bool:
    """Whether objects and lists are nested in more than so many levels; not recursive."""
    layer = [value] if isinstance(value, (dict, list)) else []
    for _ in range(levels):
        if not layer:
            return False
        layer = [
            item
            for each in layer
            for item in (each.values() if isinstance(each, dict) else each)
            if isinstance(item, (dict, list))
        ]
    return bool(layer)


def _shown_type(value: object) -> str:
    return _TYPE_NAMES.get(type(value), type(value).__name__)
