"""
Hostile peers: HTTP/2 by hand, over TCP or TLS, to say what no well-behaved gRPC client would.

An attack is a generator: it connects, harms the server, and yields whenever the server has borne
something. `Attack` runs one on a thread of its own, again and again, until it is stopped.
"""

import contextlib
import random
import socket
import ssl
import threading

import pytest

hpack = pytest.importorskip("hpack", reason="python3-hpack is not installed")
frames = pytest.importorskip("hyperframe.frame", reason="python3-hyperframe is not installed")

OTHER_HOST = "127.0.0.2"  # each 127.0.0.x is a host of its own; other_host.c has it, too
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LIMIT_S = 120  # only bounds a test that fails
CANCEL = 8  # an error code of HTTP/2
RESOURCE_EXHAUSTED = "8"


def _fields(path):
    """Of a call's beginning. HPACK keeps none of them, so they look the same in each call."""
    return [
        hpack.NeverIndexedHeaderTuple(*field)
        for field in (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "test"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        )
    ]


class Peer:
    """
    A connection from the other host; with @tls, a context, it is TLS from greet() on. Who hears and
    sends on two threads needs a plain one.
    """

    def __init__(self, address, tls=None, source=OTHER_HOST):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), LIMIT_S, (source, 0))
        self._tls, self._host = tls, host
        self._encoder, self._decoder = hpack.Encoder(), hpack.Decoder()
        self._in = b""
        self._sending = threading.Lock()
        self.heard = self.greeted = self.closed = False
        self.calls = 0
        self.ended = {}  # the headers that a call has ended with, by its number; {}: it was reset

    @property
    def ended_calls(self):
        return self.calls if self.closed else len(self.ended)

    def close(self):
        self.closed = True
        self.socket.close()

    # ---- to say something ----

    def greet(self):
        """TLS, and what HTTP/2 begins with."""
        if self._tls is not None:
            self.socket = self._tls.wrap_socket(self.socket, server_hostname=self._host)
        self.send(PREFACE, frames.SettingsFrame())
        self.greeted = True
        return self

    def greeting(self):
        """The bytes with which that begins."""
        if self._tls is None:
            return PREFACE + frames.SettingsFrame().serialize()
        out = ssl.MemoryBIO()
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.wrap_bio(ssl.MemoryBIO(), out, server_hostname=self._host).do_handshake()
        return out.read()

    def send(self, *what):
        """
        Bytes and frames, in one piece. A server that has ended the connection meanwhile is heard of
        later.
        """
        data = b"".join(w if isinstance(w, bytes) else w.serialize() for w in what)
        with self._sending, contextlib.suppress(ConnectionError, ssl.SSLError):
            self.socket.sendall(data)
            return True
        self.closed = True
        return False

    def begin_headers(self, path):
        """Begin a call whose headers go on. Returns its number."""
        call = 2 * self.calls + 1
        self.calls += 1
        self.send(frames.HeadersFrame(call, self._encoder.encode(_fields(path), huffman=False)))
        return call

    def call(self, path, message=None):
        """Begin a call; with a message it is all that comes. Returns its number."""
        call = 2 * self.calls + 1
        self.calls += 1
        block = self._encoder.encode(_fields(path), huffman=False)
        begin = frames.HeadersFrame(call, block, flags=["END_HEADERS"])
        if message is None:
            self.send(begin)
        else:
            body = bytes(1) + len(message).to_bytes(4, "big") + message
            self.send(begin, frames.DataFrame(call, body, flags=["END_STREAM"]))
        return call

    # ---- to hear something ----

    def hear(self):
        """What has come; a server that ends the connection may do it in any way."""
        try:
            got = self.socket.recv(65536)
            while isinstance(self.socket, ssl.SSLSocket) and self.socket.pending() > 0:
                got += self.socket.recv(65536)
        except (ConnectionError, ssl.SSLError):
            got = b""
        self.closed = self.closed or not got
        self._in += got
        while len(self._in) >= 9:
            frame, size = frames.Frame.parse_frame_header(memoryview(self._in[:9]))
            if len(self._in) < 9 + size:
                break
            frame.parse_body(memoryview(self._in[9 : 9 + size]))
            self._in = self._in[9 + size :]
            self._take(frame)

    def _take(self, frame):
        self.heard = True
        asks = isinstance(frame, (frames.SettingsFrame, frames.PingFrame))
        if self.greeted and asks and "ACK" not in frame.flags:
            body = frame.opaque_data if isinstance(frame, frames.PingFrame) else b""
            answer = frames.PingFrame(0, body) if body else frames.SettingsFrame()
            answer.flags.add("ACK")
            self.send(answer)
        elif isinstance(frame, frames.HeadersFrame):
            headers = dict(self._decoder.decode(frame.data))
            if "END_STREAM" in frame.flags:
                self.ended[frame.stream_id] = headers
        elif isinstance(frame, frames.RstStreamFrame):
            self.ended.setdefault(frame.stream_id, {})

    def hear_until(self, condition):
        """Whether it came to be before the server hung up."""
        while not condition() and not self.closed:
            self.hear()
        return condition()

    def hear_the_end(self):
        """Until the server hangs up."""
        self.hear_until(lambda: False)


# ---- attacks: generators, which get connect() and the path of a method ----

CONNECTIONS = 30  # at a time, of those attacks that need several
TURNS_OF_SILENCE = 20
LARGEST = (1 << 24) - 1  # of a frame
FIELD = 7000  # of a header
FIELDS = 20
SILENT_CALLS = 1500  # at once, of one connection
RESETS = 40_000
FRAMES_AT_ONCE = 2000


def say_nothing(connect, path):
    """TCP, and not a byte."""
    peers = [connect() for _ in range(CONNECTIONS)]
    for _ in range(TURNS_OF_SILENCE):
        yield
    for peer in peers:
        peer.close()


def greet_a_byte_at_a_time(connect, path):
    """The beginning of TLS, or of HTTP/2, over several connections."""
    peers = [connect() for _ in range(CONNECTIONS)]
    for byte in peers[0].greeting():
        for peer in peers:
            peer.send(bytes((byte,)))
        yield
    for peer in peers:
        peer.close()


def talk_nonsense(connect, path):
    """What is neither TLS nor HTTP/2."""
    noise = random.Random(1)
    while True:
        peer = connect()
        peer.send(noise.randbytes(1000))
        peer.hear_the_end()
        yield


def talk_nonsense_later(connect, path):
    """The same after a greeting."""
    noise = random.Random(2)
    while True:
        peer = connect().greet()
        peer.send(noise.randbytes(1000))
        peer.hear_the_end()
        yield


def send_frames_that_are_too_large(connect, path):
    for kind in (frames.DataFrame, frames.HeadersFrame, frames.SettingsFrame, frames.PingFrame):
        peer = connect().greet()
        of_a_call = kind in (frames.DataFrame, frames.HeadersFrame)
        stream = peer.call(path) if of_a_call else 0
        head = LARGEST.to_bytes(3, "big") + bytes((kind.type, 0)) + stream.to_bytes(4, "big")
        peer.send(head, bytes(100_000))
        peer.hear_the_end()
        yield


def send_headers_that_are_too_large(connect, path):
    """Each in frames of a fair size. The call is refused, and the next one, too."""
    field = hpack.NeverIndexedHeaderTuple("x", "y" * FIELD)
    peer = connect().greet()
    while True:
        call = peer.begin_headers(path)
        more = [hpack.Encoder().encode([field], huffman=False)] * FIELDS
        parts = [frames.ContinuationFrame(call, block) for block in more]
        parts[-1].flags.add("END_HEADERS")
        peer.send(*parts)
        assert peer.hear_until(lambda: call in peer.ended), "the server hung up"
        assert peer.ended[call].get("grpc-status") == RESOURCE_EXHAUSTED, peer.ended[call]
        yield


def send_beyond_the_window(connect, path):
    """A message of which more comes than the server has asked for."""
    while True:
        peer = connect().greet()
        chunk = frames.DataFrame(peer.call(path), bytes(16_000))
        while peer.send(*[chunk] * 100):
            pass
        yield


def begin_calls_without_a_message(connect, path):
    """More than may be open, on one connection, until some are ended."""
    while True:
        peer = connect().greet()
        peer.send(calls(path, SILENT_CALLS))
        peer.hear_until(lambda: peer.ended)
        yield
        peer.close()


def take_back_calls(connect, path):
    """Rapid reset: so many in one piece that the server does not come to anything else."""
    flood = calls(path, RESETS, frames.RstStreamFrame(1, CANCEL))
    while True:
        peer = connect().greet()
        peer.send(flood)
        peer.hear_the_end()
        yield


def calls(path, n, after=None):
    """The frames that begin @n calls of a new connection, each with the frame @after behind it."""
    encoder = hpack.Encoder()
    block = encoder.encode(_fields(path), huffman=False)
    begin = frames.HeadersFrame(1, block, flags=["END_HEADERS"]).serialize()
    parts = [begin] if after is None else [begin, after.serialize()]
    return b"".join(
        part[:5] + stream.to_bytes(4, "big") + part[9:]
        for stream in range(1, 2 * n, 2)
        for part in parts
    )


def send_what_is_no_call(connect, path):
    """Frames that nobody counts, one kind after the other."""
    for frame in (
        frames.PingFrame(0, bytes(8)),
        frames.SettingsFrame(0, {frames.SettingsFrame.INITIAL_WINDOW_SIZE: 65535}),
        frames.PriorityFrame(1, 0, 16),
    ):
        peer = connect().greet()
        many = frame.serialize() * FRAMES_AT_ONCE
        while peer.send(many):
            pass
        yield


def say_what_is_no_message(connect, path):
    """Calls that are answered with an error, each of them, on one connection."""
    noise = random.Random(3)
    peer = connect().greet()
    while True:
        for message in (b"\xff" * 20, b"\x0a\xff\xff\xff\xff\x0f", noise.randbytes(500)):
            call = peer.call(path, message)
            assert peer.hear_until(lambda: call in peer.ended), "the server hung up"
            assert peer.ended[call].get("grpc-status") not in (None, "0"), peer.ended[call]
            yield


class Attack:
    """
    One attack on one server. @turns: it ends after so many; what costs the server much shall not
    go on for ever.
    """

    PAUSE_S = 0.1  # from one turn to the next: an attack needs the CPU no more than it must

    def __init__(self, hurt, address, path, tls=None, turns=None):
        self.turns = 0
        self._hurt, self._address, self._path, self._tls = hurt, address, path, tls
        self._turns_max = turns
        self._peers = []
        self._stopping = threading.Event()
        self._died = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _connect(self):
        peer = Peer(self._address, self._tls)
        self._peers = [p for p in self._peers if not p.closed] + [peer]
        return peer

    def _run(self):
        try:
            while not self._stopping.is_set():
                for _ in self._hurt(self._connect, self._path):
                    self.turns += 1
                    if self.turns == self._turns_max or self._stopping.wait(self.PAUSE_S):
                        return
        except Exception as e:  # told by check()
            self._died = e

    def check(self):
        if self._died is not None:
            raise self._died
        return True

    def stop(self):
        """Every connection is closed then."""
        self._stopping.set()
        self._thread.join()
        for peer in self._peers:
            peer.close()
