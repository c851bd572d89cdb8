"""The bytes of protobuf messages, so that the package needs no protobuf."""


def varint(value: int) -> bytes:
    """@value as a base-128 number; negative ones are those of 64 bits."""
    value &= (1 << 64) - 1
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, payload: bytes | bytearray) -> bytes:
    """Field @number that has a length: a string, a message, packed numbers."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload
