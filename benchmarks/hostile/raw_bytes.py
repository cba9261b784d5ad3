"""Bytes on the socket that no HTTP client would send."""

import asyncio
from urllib.parse import urlsplit

from benchmarks.hostile.cases import BROKEN, REFUSED, TAKEN, Verdict

TIMEOUT_S = 3.0
"""A message that never ends is waited for as long."""
KEY = b"jm-KEY"
HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer "
    + KEY
    + b"\r\n"
)
BODIES = (
    ("no length at all", HEAD + b"\r\n{}"),
    ("two lengths", HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"),
    ("length and chunked", HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
    ("a negative length", HEAD + b"Content-Length: -2\r\n\r\n{}"),
    ("a length in words", HEAD + b"Content-Length: two\r\n\r\n{}"),
    ("a huge length", HEAD + b"Content-Length: 99999999999999999999\r\n\r\n{}"),
    ("more than the limit", HEAD + b"Content-Length: 99999999\r\n\r\n{}"),
    ("a bad chunk", HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"),
    ("a huge chunk", HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
    ("chunks with trailers", HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: y\r\n\r\n"),
    ("an unknown coding", HEAD + b"Transfer-Encoding: rot13\r\nContent-Length: 2\r\n\r\n{}"),
    ("a deflated lie", HEAD + b"Content-Encoding: deflate\r\nContent-Length: 2\r\n\r\n{}"),
    ("a gzipped lie", HEAD + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"),
    ("a folded header", HEAD + b"X-A: b\r\n c\r\nContent-Length: 2\r\n\r\n{}"),
    ("a header without a colon", HEAD + b"X-A\r\nContent-Length: 2\r\n\r\n{}"),
    ("a header with a space before its colon", HEAD + b"Content-Length : 2\r\n\r\n{}"),
    ("a NUL in a header", HEAD + b"X-A: \x00\r\nContent-Length: 2\r\n\r\n{}"),
    ("bytes above ASCII in a header", HEAD + b"Idempotency-Key: \xff\xfe\r\nContent-Length: 2\r\n\r\n{}"),
    ("bytes above ASCII as a key", HEAD + b"Authorization: Bearer \xff\xfe\r\nContent-Length: 2\r\n\r\n{}"),
    ("a 100 kB header", HEAD + b"X-A: " + b"a" * 100_000 + b"\r\nContent-Length: 2\r\n\r\n{}"),
    ("5000 headers", HEAD + b"X-A: b\r\n" * 5000 + b"Content-Length: 2\r\n\r\n{}"),
    ("bare line feeds", HEAD.replace(b"\r\n", b"\n") + b"Content-Length: 2\n\n{}"),
    ("no Host", b"GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n"),
    ("two Hosts", b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"),
    ("a Host that is no name", b"GET /v1/models HTTP/1.1\r\nHost: [::1\r\nConnection: close\r\n\r\n"),
    ("a Host with a user", b"GET /v1/models HTTP/1.1\r\nHost: a@localhost:x\r\nConnection: close\r\n\r\n"),
    ("an Origin that is no name", b"GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://[\r\n\r\n"),
    ("HTTP/1.0", b"GET /v1/models HTTP/1.0\r\n\r\n"),
    ("HTTP/9.9", b"GET /v1/models HTTP/9.9\r\nHost: localhost\r\n\r\n"),
    ("no version", b"GET /v1/models\r\n\r\n"),
    ("an absolute target", b"GET http://localhost/v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
    ("a foreign target", b"GET http://evil.example/v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
    ("a target that is no URL", b"GET //[ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
    ("an asterisk", b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
    ("CONNECT", b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
    ("an upgrade", b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"),
    ("a long target", b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("a TLS greeting", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200),
    ("zeros", b"\x00" * 1000),
    ("bytes above ASCII", b"\xff" * 1000),
    ("an unknown method", b"FOO /v1/feedback HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("line ends", b"\r\n" * 1000),
)  # fmt: skip


async def raw_verdicts(url: str, *, key: str) -> list[Verdict]:
    """One verdict a message. Closing without a word is an answer; a 5xx but for `not implemented` is not."""
    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    return [
        await _judge(address.hostname, address.port, name, message.replace(KEY, key.encode()))
        for name, message in BODIES
    ]


async def _judge(host: str, port: int, name: str, message: bytes) -> Verdict:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(message)
        answer = await asyncio.wait_for(reader.read(65536), TIMEOUT_S)
    except (TimeoutError, ConnectionError) as problem:
        answer = repr(problem).encode()
    finally:
        writer.close()
    status = answer.split(b" ", 2)[1:2]
    is_broken = (status and status[0].startswith(b"5") and status[0] != b"501") or b"Traceback" in answer
    outcome = BROKEN if is_broken else TAKEN if status and status[0].startswith(b"2") else REFUSED
    return Verdict(area="raw bytes", name=name, outcome=outcome, message=answer[:200].decode("utf-8", "replace"))
