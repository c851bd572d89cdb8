"""tf.train's Example and its parts: what goes into TFRecord files, built in Python and serialized without protobuf.

    Example(features=Features(feature={"label": Feature(int64_list=Int64List(value=[3]))})).SerializeToString()
"""

import struct

from ._hints import missing_name as _missing_name
from ._wire import field, varint

__all__ = ["BytesList", "Example", "Feature", "Features", "FloatList", "Int64List"]


def _read_varint(data, at):
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


def _fields(data):
    """(number, wire type, value) of each field of a message."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _read_varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = data[at:at + size], at + size
        elif wire == 2:
            size, at = _read_varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            raise ValueError(f"not a serialized tf.Example: wire type {wire}")
        if at > len(data):
            raise ValueError("not a serialized tf.Example: a field is cut off")
        yield key >> 3, wire, value


class _Message:
    """Messages with equal bytes are equal."""

    def SerializeToString(self):
        """The message as bytes."""
        return self._bytes()

    def __eq__(self, other):
        return type(self) is type(other) and self.SerializeToString() == other.SerializeToString()

    __hash__ = None

    @classmethod
    def FromString(cls, data):
        """The message in @data; ValueError if it is none."""
        message = cls()
        message._merge(bytes(data))
        return message

    def ParseFromString(self, data):
        """Become the message in @data; the number of its bytes."""
        self.__init__()
        self._merge(bytes(data))
        return len(data)


class _List(_Message):
    def __init__(self, value=()):
        self.value = [self._check(v) for v in value]

    def __repr__(self):
        return f"{type(self).__name__}(value={self.value!r})"


class BytesList(_List):
    """Strings, as bytes."""

    @staticmethod
    def _check(value):
        if isinstance(value, str):
            raise TypeError(f"BytesList holds bytes, not str ({value!r}): encode it")
        return bytes(value)

    def _bytes(self):
        return b"".join(field(1, v) for v in self.value)

    def _merge(self, data):
        self.value += [value for number, _, value in _fields(data) if number == 1]


class FloatList(_List):
    """Numbers, as float32."""

    _check = staticmethod(float)

    def _bytes(self):
        return field(1, struct.pack(f"<{len(self.value)}f", *self.value)) if self.value else b""

    def _merge(self, data):
        for number, _, value in _fields(data):
            if number == 1:  # packed or not: the bytes are the same
                self.value += struct.unpack(f"<{len(value) // 4}f", value)


class Int64List(_List):
    """Integers."""

    @staticmethod
    def _check(value):
        number = value.__index__()
        if not -2**63 <= number < 2**63:
            raise ValueError(f"{number} does not fit int64")
        return number

    def _bytes(self):
        return field(1, b"".join(map(varint, self.value))) if self.value else b""

    def _merge(self, data):
        for number, wire, value in _fields(data):
            if number != 1:
                continue
            raw, at = [value] if wire == 0 else [], 0
            while wire == 2 and at < len(value):
                one, at = _read_varint(value, at)
                raw.append(one)
            self.value += [v - (1 << 64) if v >> 63 else v for v in raw]


class Feature(_Message):
    """One of the three lists."""

    _KINDS = {"bytes_list": (1, BytesList), "float_list": (2, FloatList), "int64_list": (3, Int64List)}

    def __init__(self, bytes_list=None, float_list=None, int64_list=None):
        given = {"bytes_list": bytes_list, "float_list": float_list, "int64_list": int64_list}
        given = {name: value for name, value in given.items() if value is not None}
        if len(given) > 1:
            raise ValueError(f"a Feature holds one list, not {' and '.join(given)}")
        self._kind, self._list = next(iter(given.items()), (None, None))
        if self._kind and not isinstance(self._list, self._KINDS[self._kind][1]):
            raise TypeError(f"{self._kind} is a {self._KINDS[self._kind][1].__name__}, not {type(self._list).__name__}")

    def _get(self, name):
        return self._list if self._kind == name else self._KINDS[name][1]()

    bytes_list = property(lambda self: self._get("bytes_list"), doc="Its BytesList; an empty one if it holds another.")
    float_list = property(lambda self: self._get("float_list"), doc="Its FloatList; an empty one if it holds another.")
    int64_list = property(lambda self: self._get("int64_list"), doc="Its Int64List; an empty one if it holds another.")

    def WhichOneof(self, group):
        """The name of the list that it holds; None if it holds none."""
        return self._kind

    def _bytes(self):
        return b"" if self._kind is None else field(self._KINDS[self._kind][0], self._list.SerializeToString())

    def _merge(self, data):
        for number, _, value in _fields(data):
            for name, (tag, cls) in self._KINDS.items():
                if tag == number:
                    self._kind, self._list = name, cls.FromString(value)

    def __repr__(self):
        return f"Feature({self._kind}={self._list!r})" if self._kind else "Feature()"


class Features(_Message):
    """A Feature for each name: a dict, `feature`."""

    def __init__(self, feature=None):
        self.feature = dict(feature or {})
        for name, value in self.feature.items():
            if not isinstance(value, Feature):
                raise TypeError(f"feature {name!r} is a {type(value).__name__}, not a Feature")

    def _bytes(self):
        out = bytearray()
        for name in sorted(self.feature):
            out += field(1, field(1, name.encode()) + field(2, self.feature[name].SerializeToString()))
        return bytes(out)

    def _merge(self, data):
        for number, _, entry in _fields(data):
            if number == 1:
                parts = {tag: value for tag, _, value in _fields(entry)}
                self.feature[parts.get(1, b"").decode()] = Feature.FromString(parts.get(2, b""))

    def __repr__(self):
        return f"Features(feature={self.feature!r})"


class Example(_Message):
    """One record: `features`."""

    def __init__(self, features=None):
        self.features = features if features is not None else Features()

    def _bytes(self):
        return field(1, self.features.SerializeToString())

    def _merge(self, data):
        for number, _, value in _fields(data):
            if number == 1:
                self.features._merge(value)

    def __repr__(self):
        return f"Example(features={self.features!r})"


__getattr__ = _missing_name(__name__)
