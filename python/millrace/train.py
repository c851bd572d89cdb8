"""tf.train's Example and its parts: what goes into TFRecord files, serialized without protobuf.

    Example(features=Features(feature={"label": Feature(int64_list=Int64List(value=[3]))}))

Messages with equal bytes are equal. As in TensorFlow they can be changed: `value` of a list,
`feature` of Features and `features` of an Example are attributes.
"""

from __future__ import annotations

import operator
import struct
from typing import Any, ClassVar, Iterable, Iterator, Mapping, TypeVar

from ._base.hints import missing_name as _missing_name
from ._base.wire import field, varint

__all__ = [
    "BytesList",
    "Example",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FloatList",
    "Int64List",
    "SequenceExample",
]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("not a serialized tf.Example: a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """(number, wire type, value) of each field of a message."""
    at = 0
    value: Any
    while at < len(data):
        key, at = _read_varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _read_varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = data[at : at + size], at + size
        elif wire == 2:
            size, at = _read_varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"not a serialized tf.Example: wire type {wire}")
        if at > len(data):
            raise ValueError("not a serialized tf.Example: a field is cut off")
        yield key >> 3, wire, value


_M = TypeVar("_M", bound="_Message")


class _Message:
    def _bytes(self) -> bytes:
        raise NotImplementedError

    def _merge(self, data: bytes) -> None:
        raise NotImplementedError

    def SerializeToString(self) -> bytes:
        """Write the message as bytes.

        Returns
        -------
        bytes
            As protobuf's, with features in the order of their names.

        Examples
        --------
        >>> mr.train.Int64List(value=[1, 300]).SerializeToString()
        b'\\n\\x03\\x01\\xac\\x02'
        """
        return self._bytes()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Message)
            and type(self) is type(other)
            and self.SerializeToString() == other.SerializeToString()
        )

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def FromString(cls: type[_M], data: bytes) -> _M:
        """Read a message.

        Parameters
        ----------
        data : bytes
            What `SerializeToString` gave, or protobuf.

        Returns
        -------
        message
            Of this class.

        Raises
        ------
        ValueError
            It is no such message.

        Examples
        --------
        >>> mr.train.Int64List.FromString(mr.train.Int64List(value=[7]).SerializeToString())
        Int64List(value=[7])
        """
        message = cls()
        message._merge(bytes(data))
        return message

    def ParseFromString(self, data: bytes) -> int:
        """Become a message that is read.

        Parameters
        ----------
        data : bytes
            What `SerializeToString` gave, or protobuf.

        Returns
        -------
        int
            The number of the bytes.

        Raises
        ------
        ValueError
            It is no such message.

        Examples
        --------
        >>> numbers = mr.train.Int64List()
        >>> numbers.ParseFromString(mr.train.Int64List(value=[7]).SerializeToString())
        3
        """
        type(self).__init__(self)
        self._merge(bytes(data))
        return len(data)


class _List(_Message):
    def __init__(self, value: Iterable[Any] = ()) -> None:
        if isinstance(value, (str, bytes, bytearray)) or not isinstance(value, Iterable):
            raise TypeError(
                f"the value of {type(self).__name__} is a list, not {type(value).__name__}: "
                "value=[x] holds one"
            )
        self.value: list[Any] = [self._check(v) for v in value]

    def _checked(self) -> list[Any]:
        """The values; they may have been changed since they were given."""
        return [self._check(v) for v in self.value]

    @classmethod
    def _check(cls, value: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def _refuse(cls, value: Any, holds: str, hint: str) -> TypeError:
        shown = repr(value)
        shown = shown if len(shown) <= 40 else shown[:37] + "..."
        return TypeError(
            f"{cls.__name__} holds {holds}, not {type(value).__name__} ({shown}): {hint}"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(value={self.value!r})"


class BytesList(_List):
    """A list of strings, as ``tf.train.BytesList``.

    Parameters
    ----------
    value : iterable of bytes
        The strings.

    Raises
    ------
    TypeError
        One is no bytes (a str: encode it), or they are no list.

    Examples
    --------
    >>> mr.train.BytesList(value=[b"a"])
    BytesList(value=[b'a'])
    """

    @classmethod
    def _check(cls, value: Any) -> bytes:
        if isinstance(value, str):
            raise cls._refuse(value, "bytes", "encode it")
        if not isinstance(value, (bytes, bytearray, memoryview)):
            hint = "x.tobytes() has the bytes of an array" if hasattr(value, "tobytes") else ""
            raise cls._refuse(value, "bytes", hint or "numbers go into Int64List and FloatList")
        return bytes(value)

    def _bytes(self) -> bytes:
        return b"".join(field(1, v) for v in self._checked())

    def _merge(self, data: bytes) -> None:
        self.value += [value for number, _, value in _fields(data) if number == 1]


class FloatList(_List):
    """A list of numbers, which are written as float32, as ``tf.train.FloatList``.

    Parameters
    ----------
    value : iterable of float
        The numbers.

    Raises
    ------
    TypeError
        One is no number, or they are no list.

    Examples
    --------
    >>> mr.train.FloatList(value=[1, 2.5])
    FloatList(value=[1.0, 2.5])
    """

    @classmethod
    def _check(cls, value: Any) -> float:
        if isinstance(value, (str, bytes)):
            raise cls._refuse(value, "numbers", "strings go into BytesList")
        try:
            return float(value)
        except TypeError as e:
            raise cls._refuse(value, "numbers", "x.ravel() has those of an array") from e

    def _bytes(self) -> bytes:
        values = self._checked()
        return field(1, struct.pack(f"<{len(values)}f", *values)) if values else b""

    def _merge(self, data: bytes) -> None:
        for number, _, value in _fields(data):
            if number == 1:  # packed or not: the bytes are the same
                self.value += struct.unpack(f"<{len(value) // 4}f", value)


class Int64List(_List):
    """A list of integers, as ``tf.train.Int64List``.

    Parameters
    ----------
    value : iterable of int
        The numbers.

    Raises
    ------
    TypeError
        One is no integer, or they are no list.
    ValueError
        One does not fit int64.

    Examples
    --------
    >>> mr.train.Int64List(value=[1, 2])
    Int64List(value=[1, 2])
    """

    @classmethod
    def _check(cls, value: Any) -> int:
        try:
            number = operator.index(value)
        except TypeError as e:
            hint = "int(x) makes one of a number, x.ravel() has those of an array"
            raise cls._refuse(value, "integers", hint) from e
        if not -(2**63) <= number < 2**63:
            raise ValueError(f"{number} does not fit int64")
        return number

    def _bytes(self) -> bytes:
        values = self._checked()
        return field(1, b"".join(map(varint, values))) if values else b""

    def _merge(self, data: bytes) -> None:
        for number, wire, value in _fields(data):
            if number != 1:
                continue
            raw, at = [value] if wire == 0 else [], 0
            while wire == 2 and at < len(value):
                one, at = _read_varint(value, at)
                raw.append(one)
            self.value += [v - (1 << 64) if v >> 63 else v for v in raw]


class Feature(_Message):
    """A list of strings, floats or integers, as ``tf.train.Feature``.

    Parameters
    ----------
    bytes_list : BytesList, optional
        At most one of the three is given.
    float_list : FloatList, optional
        At most one of the three is given.
    int64_list : Int64List, optional
        At most one of the three is given.

    Raises
    ------
    ValueError
        More than one is given.
    TypeError
        A list is of another class.

    Examples
    --------
    >>> mr.train.Feature(int64_list=mr.train.Int64List(value=[3]))
    Feature(int64_list=Int64List(value=[3]))
    """

    _KINDS: ClassVar[dict[str, tuple[int, type[_List]]]] = {
        "bytes_list": (1, BytesList),
        "float_list": (2, FloatList),
        "int64_list": (3, Int64List),
    }

    def __init__(
        self,
        bytes_list: BytesList | None = None,
        float_list: FloatList | None = None,
        int64_list: Int64List | None = None,
    ) -> None:
        lists = {"bytes_list": bytes_list, "float_list": float_list, "int64_list": int64_list}
        given: dict[str, Any] = {name: value for name, value in lists.items() if value is not None}
        if len(given) > 1:
            raise ValueError(f"a Feature holds one list, not {' and '.join(given)}")
        for name, value in given.items():
            cls = self._KINDS[name][1]
            if not isinstance(value, cls):
                raise TypeError(
                    f"{name} is a {cls.__name__}, not {type(value).__name__}: "
                    f"{name}=mr.train.{cls.__name__}(value=...)"
                )
        self._chosen: str | None = next(iter(given), None)
        self._lists: dict[str, Any] = given  # also those that were looked at, and may be filled

    @property
    def _kind(self) -> str | None:
        """The list that it holds: as with protobuf, one that gets a value takes the others' place."""
        for name in [name for name, values in self._lists.items() if values.value]:
            if name != self._chosen:
                self._lists = {name: self._lists[name]}
                self._chosen = name
        return self._chosen

    def _get(self, name: str) -> Any:
        if self._kind != name:
            self._lists.setdefault(name, self._KINDS[name][1]())
        return self._lists[name]

    @property
    def bytes_list(self) -> BytesList:
        """Its BytesList; an empty one if it holds another."""
        found: BytesList = self._get("bytes_list")
        return found

    @property
    def float_list(self) -> FloatList:
        """Its FloatList; an empty one if it holds another."""
        found: FloatList = self._get("float_list")
        return found

    @property
    def int64_list(self) -> Int64List:
        """Its Int64List; an empty one if it holds another."""
        found: Int64List = self._get("int64_list")
        return found

    def WhichOneof(self, group: str) -> str | None:
        """Return which list it holds.

        Parameters
        ----------
        group : str
            "kind", as with protobuf; it means nothing.

        Returns
        -------
        str or None
            "bytes_list", "float_list" or "int64_list"; None if it holds none.

        Examples
        --------
        >>> mr.train.Feature(float_list=mr.train.FloatList(value=[1.5])).WhichOneof("kind")
        'float_list'
        """
        return self._kind

    def _bytes(self) -> bytes:
        kind = self._kind
        if kind is None:
            return b""
        return field(self._KINDS[kind][0], self._lists[kind].SerializeToString())

    def _merge(self, data: bytes) -> None:
        for number, _, value in _fields(data):
            for name, (tag, cls) in self._KINDS.items():
                if tag == number:
                    self._chosen, self._lists = name, {name: cls.FromString(value)}

    def __repr__(self) -> str:
        kind = self._kind
        return f"Feature({kind}={self._lists[kind]!r})" if kind else "Feature()"


class _ByName(dict[str, _M]):
    """Messages by name. As with protobuf, one that is not there is made when it is asked for."""

    def __init__(self, cls: type[_M], given: Mapping[str, _M]) -> None:
        super().__init__(given)
        self._cls = cls

    def __missing__(self, name: str) -> _M:
        self[name] = self._cls()
        return self[name]


class Features(_Message):
    """Features by name, as ``tf.train.Features``.

    Parameters
    ----------
    feature : mapping, optional
        Name -> Feature; the attribute `feature` is a dict of it.

    Raises
    ------
    TypeError
        A value is no Feature.

    Examples
    --------
    >>> sorted(mr.train.Features(feature={"n": mr.train.Feature()}).feature)
    ['n']
    """

    def __init__(self, feature: Mapping[str, Feature] | None = None) -> None:
        if feature is not None and not isinstance(feature, Mapping):
            raise TypeError(f"feature is a dict of name -> Feature, not {type(feature).__name__}")
        self.feature = _ByName(Feature, feature or {})
        for name, value in self.feature.items():
            if not isinstance(value, Feature):
                raise TypeError(f"feature {name!r} is a {type(value).__name__}, not a Feature")

    def _bytes(self) -> bytes:
        out = bytearray()
        for name in sorted(self.feature):
            value = self.feature[name].SerializeToString()
            out += field(1, field(1, name.encode()) + field(2, value))
        return bytes(out)

    def _merge(self, data: bytes) -> None:
        for number, _, entry in _fields(data):
            if number == 1:
                parts = {tag: value for tag, _, value in _fields(entry)}
                self.feature[parts.get(1, b"").decode()] = Feature.FromString(parts.get(2, b""))

    def __repr__(self) -> str:
        return f"Features(feature={self.feature!r})"


class Example(_Message):
    """One record, as ``tf.train.Example``.

    Parameters
    ----------
    features : Features, optional
        What it holds; an attribute, too.

    Raises
    ------
    TypeError
        `features` is no Features.

    Examples
    --------
    >>> label = mr.train.Feature(int64_list=mr.train.Int64List(value=[3]))
    >>> example = mr.train.Example(features=mr.train.Features(feature={"label": label}))
    >>> mr.train.Example.FromString(example.SerializeToString()) == example
    True
    """

    def __init__(self, features: Features | None = None) -> None:
        if features is not None and not isinstance(features, Features):
            raise TypeError(
                f"features is a Features, not {type(features).__name__}: "
                "features=mr.train.Features(feature=...)"
            )
        self.features = features if features is not None else Features()

    def _bytes(self) -> bytes:
        return field(1, self.features.SerializeToString())

    def _merge(self, data: bytes) -> None:
        for number, _, value in _fields(data):
            if number == 1:
                self.features._merge(value)

    def __repr__(self) -> str:
        return f"Example(features={self.features!r})"


class FeatureList(_Message):
    """The steps of one feature of a sequence, as ``tf.train.FeatureList``.

    Parameters
    ----------
    feature : iterable of Feature, optional
        One a step; the attribute `feature` is a list of them.

    Examples
    --------
    >>> len(mr.train.FeatureList(feature=[mr.train.Feature()]).feature)
    1
    """

    def __init__(self, feature: Iterable[Feature] | None = None) -> None:
        self.feature = list(feature or [])

    def _bytes(self) -> bytes:
        return b"".join(bytes(field(1, step.SerializeToString())) for step in self.feature)

    def _merge(self, data: bytes) -> None:
        self.feature += [Feature.FromString(value) for tag, _, value in _fields(data) if tag == 1]

    def __repr__(self) -> str:
        return f"FeatureList(feature={self.feature!r})"


class FeatureLists(_Message):
    """Feature lists by name, as ``tf.train.FeatureLists``.

    Parameters
    ----------
    feature_list : mapping, optional
        Name -> FeatureList; the attribute `feature_list` is a dict of it.

    Examples
    --------
    >>> sorted(mr.train.FeatureLists(feature_list={"n": mr.train.FeatureList()}).feature_list)
    ['n']
    """

    def __init__(self, feature_list: Mapping[str, FeatureList] | None = None) -> None:
        self.feature_list = _ByName(FeatureList, feature_list or {})

    def _bytes(self) -> bytes:
        out = bytearray()
        for name in sorted(self.feature_list):
            value = self.feature_list[name].SerializeToString()
            out += field(1, field(1, name.encode()) + field(2, value))
        return bytes(out)

    def _merge(self, data: bytes) -> None:
        for number, _, entry in _fields(data):
            if number == 1:
                parts = {tag: value for tag, _, value in _fields(entry)}
                name = parts.get(1, b"").decode()
                self.feature_list[name] = FeatureList.FromString(parts.get(2, b""))

    def __repr__(self) -> str:
        return f"FeatureLists(feature_list={self.feature_list!r})"


class SequenceExample(_Message):
    """One record that is a sequence, as ``tf.train.SequenceExample``.

    Parameters
    ----------
    context : Features, optional
        What belongs to the whole sequence; an attribute, too.
    feature_lists : FeatureLists, optional
        What each step has; an attribute, too.

    Examples
    --------
    >>> record = mr.train.SequenceExample(context=mr.train.Features())
    >>> mr.train.SequenceExample.FromString(record.SerializeToString()) == record
    True
    """

    def __init__(
        self, context: Features | None = None, feature_lists: FeatureLists | None = None
    ) -> None:
        self.context = context if context is not None else Features()
        self.feature_lists = feature_lists if feature_lists is not None else FeatureLists()

    def _bytes(self) -> bytes:
        parts = ((1, self.context), (2, self.feature_lists))  # what is empty was perhaps never set
        fields = ((number, part.SerializeToString()) for number, part in parts)
        return b"".join(field(number, content) for number, content in fields if content)

    def _merge(self, data: bytes) -> None:
        for number, _, value in _fields(data):
            if number == 1:
                self.context._merge(value)
            elif number == 2:
                self.feature_lists._merge(value)

    def __repr__(self) -> str:
        return f"SequenceExample(context={self.context!r}, feature_lists={self.feature_lists!r})"


__getattr__ = _missing_name(__name__)
