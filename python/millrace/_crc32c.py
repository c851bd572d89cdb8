"""CRC-32C (Castagnoli), which TFRecord files are checked with. NumPy does the work for long records."""

import numpy as np

_POLYNOMIAL = 0x82F63B78


def _make_table():
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> np.uint32(1) ^ np.uint32(_POLYNOMIAL), table >> np.uint32(1))
    return table


_TABLE = _make_table()
_LIST = _TABLE.tolist()
_LANES = 256  # a long record is cut into this many pieces, whose CRCs advance together
_LANES_FROM = 16384  # bytes from which that pays


def _times(matrix, vector):
    """A 32 x 32 matrix over GF(2) (one integer a column) times a vector."""
    out = 0
    for column in matrix:
        if vector & 1:
            out ^= column
        vector >>= 1
    return out


def _zeros_operator(count):
    """What @count zero bytes do to a CRC register, as a matrix."""
    step = [_LIST[1 << i] if i < 8 else 1 << (i - 8) for i in range(32)]
    result = [1 << i for i in range(32)]
    while count:
        if count & 1:
            result = [_times(step, column) for column in result]
        step = [_times(step, column) for column in step]
        count >>= 1
    return result


def _update(register, data):
    table = _LIST
    for byte in data:
        register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register


def crc32c(data):
    """The CRC-32C of bytes."""
    register = 0xFFFFFFFF
    if len(data) >= _LANES_FROM:
        size = len(data) // _LANES
        pieces = np.frombuffer(data, np.uint8, size * _LANES).reshape(_LANES, size).T
        registers = np.zeros(_LANES, np.uint32)
        eight, low = np.uint32(8), np.uint32(0xFF)
        for row in np.ascontiguousarray(pieces):
            registers = _TABLE[(registers ^ row) & low] ^ (registers >> eight)
        operator = _zeros_operator(size)
        for piece in registers.tolist():
            register = _times(operator, register) ^ piece
        data = data[size * _LANES:]
    return _update(register, data) ^ 0xFFFFFFFF


def masked_crc32c(data):
    """The form in which TFRecord files store it."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
