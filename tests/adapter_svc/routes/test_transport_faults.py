"""Every way in which an attempt can go wrong on the wire: where it got to, and that nothing was sent again."""

import gzip
import tracemalloc
import zlib
from collections.abc import Mapping

import pytest

from adapter_svc.routes import FailureCategory, ProviderAnswer, RequestProgress, Timeouts
from adapter_svc.routes.transport_http import MAX_HEAD_BYTES, MAX_INTERIM_ANSWERS
from tests.adapter_svc.routes.raw_server import (
    Peer,
    Script,
    answering,
    chunked_answer,
    dripping,
    flooding,
    holding,
    plain_answer,
    pushing_back,
    reset,
    resetting,
    stay,
)
from tests.adapter_svc.routes.transport_attempts import (
    BRIEF,
    FIRST_BYTE_SOON,
    LARGE_REQUEST,
    Failure,
    in_one,
    observe,
)

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
UNTIL_CLOSE = OK + b"\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
BLOCK = b"a" * 65_536
HTTP2_SETTINGS = bytes.fromhex("000006040000000000000300000064")
HTTP2_GOAWAY = bytes.fromhex("0000080700000000000000000000000001")
EVENTS = b'data: {"choices":[]}\n\ndata: [DONE]\n\n'
EMPTY_DEFLATE_BLOCK = bytes.fromhex("000000ffff")


def with_head(*fields: bytes) -> bytes:
    return OK + b"".join(field + b"\r\n" for field in fields) + b"\r\n"


def encoded(body: bytes, *encodings: str) -> bytes:
    return plain_answer(body, headers="".join(f"Content-Encoding: {encoding}\r\n" for encoding in encodings))


BROKEN_BEFORE_A_HEAD: Mapping[str, Script] = {
    "closed": answering(),
    "reset": resetting(),
    "closed in the status line": answering(b"HTTP/1.1 200"),
    "closed in the head": answering(OK + b"Content-Le"),
    "reset in the head": resetting(OK + b"Content-Le"),
    "closed after an interim answer": answering(CONTINUE),
    "HTTP/0.9": answering(b"<html>hello</html>\n"),
}

NO_ANSWER_IN_HTTP: Mapping[str, Script] = {
    "another protocol": holding(b"SSH-2.0-OpenSSH_9.9\r\n\r\n"),
    "HTTP/0.9 with an empty line": holding(b"<html>\r\n\r\nhello"),
    "HTTP/2 settings": holding(HTTP2_SETTINGS),
    "HTTP/2 goaway": holding(HTTP2_GOAWAY),
    "HTTP/2 preface": holding(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "HTTP/2 status line": holding(b"HTTP/2 200\r\n\r\n"),
    "TLS alert": holding(bytes.fromhex("15030100020246")),
    "status of four digits": holding(b"HTTP/1.1 2000 OK\r\n\r\n"),
    "no status": holding(b"HTTP/1.1 OK\r\n\r\n"),
    "switching protocols": holding(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n"),
    "space before a colon": holding(with_head(b"Content-Length : 2") + b"{}"),
    "a line that is no field": holding(with_head(b"hello") + b"{}"),
    "zero byte in a field": holding(with_head(b"X: a\0b") + b"{}"),
    "continuation of nothing": holding(OK + b" folded\r\n\r\n"),
    "lengths that differ": holding(with_head(b"Content-Length: 2", b"Content-Length: 3") + b"{}"),
    "lengths that differ in one field": holding(with_head(b"Content-Length: 2, 3") + b"{}"),
    "negative length": holding(with_head(b"Content-Length: -2") + b"{}"),
    "length that is no number": holding(with_head(b"Content-Length: 0x2") + b"{}"),
    "length beyond all bounds": holding(with_head(b"Content-Length: " + b"9" * 21)),
    "length and chunks": holding(with_head(b"Content-Length: 2", b"Transfer-Encoding: chunked") + b"0\r\n\r\n"),
    "chunks and length": holding(with_head(b"Transfer-Encoding: chunked", b"Content-Length: 5") + b"0\r\n\r\n"),
    "transfer coding that was not asked for": holding(with_head(b"Transfer-Encoding: gzip, chunked")),
    "transfer encoding twice": holding(with_head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked")),
}

HEAD_FLOODS: Mapping[str, Script] = {
    "continue without end": flooding(b"", CONTINUE * 1000),
    "early hints without end": flooding(b"", EARLY_HINTS * 1000),
    "one interim answer too many": holding(EARLY_HINTS * (MAX_INTERIM_ANSWERS + 1) + plain_answer(b"{}")),
    "a field without end": flooding(OK + b"X: ", BLOCK),
    "fields without end": flooding(OK, b"X-Field: 1\r\n" * 1000),
    "cookies without end": flooding(OK, b"Set-Cookie: a=b\r\n" * 1000),
    "a status line without end": flooding(b"HTTP/1.1 200 ", BLOCK),
    "a line without end": flooding(b"", BLOCK),
    "an early hint without end": flooding(b"HTTP/1.1 103 Early Hints\r\n", b"Link: </x>\r\n" * 1000),
    "one byte too many": holding(with_head(b"X: " + b"a" * MAX_HEAD_BYTES)),
}

CUT_BODIES: Mapping[str, Script] = {
    "length, closed": answering(plain_answer(b'{"whole": true}', length=16)),
    "length, nothing came": answering(plain_answer(b"", length=1)),
    "length, reset": resetting(plain_answer(b"{}", length=500)),
    "no chunk": answering(CHUNKED),
    "in a chunk's header": answering(CHUNKED + b"1"),
    "in a chunk": answering(CHUNKED + b"5\r\nhel"),
    "after a chunk's bytes": answering(CHUNKED + b"2\r\n{}"),
    "last chunk missing": answering(chunked_answer(b"{}", last=b"")),
    "in the last chunk": answering(chunked_answer(b"{}", last=b"0\r\n")),
    "in the trailer": answering(chunked_answer(b"{}", last=b"0\r\nX: 1\r\n")),
    "chunks, reset": resetting(chunked_answer(b"{}", last=b"")),
    "no length, reset": resetting(UNTIL_CLOSE + b"{}"),
    "events, last chunk missing": answering(
        chunked_answer(EVENTS, headers="Content-Type: text/event-stream\r\n", last=b"")
    ),
    "events, reset": resetting(chunked_answer(EVENTS, last=b"")),
    "an error's body": answering(plain_answer(b"oops", status="500 Internal Server Error", length=5)),
}

BAD_CHUNKS: Mapping[str, Script] = {
    "size that is no number": holding(CHUNKED + b"two\r\n{}\r\n"),
    "negative size": holding(CHUNKED + b"-2\r\n{}\r\n"),
    "more than the size": holding(CHUNKED + b"2\r\n{}}\r\n0\r\n\r\n"),
    "trailer that is no field": holding(chunked_answer(b"{}", last=b"0\r\nhello\r\n\r\n")),
}

CHUNK_FLOODS: Mapping[str, Script] = {
    "a size without end": flooding(CHUNKED, b"0" * 65_536),
    "an extension without end": flooding(CHUNKED + b"2;", BLOCK),
    "a trailer without end": flooding(CHUNKED + b"0\r\n", b"X: 1\r\n" * 1000),
}

BODY_FLOODS: Mapping[str, Script] = {
    "of a length": flooding(plain_answer(b"", length=10**15), BLOCK),
    "in chunks": flooding(CHUNKED, b"10000\r\n" + BLOCK + b"\r\n"),
    "until it closes": flooding(UNTIL_CLOSE, BLOCK),
    "of chunks with long extensions": flooding(CHUNKED, b"1;" + b"a" * 1000 + b"\r\n{\r\n"),
    "of packed nothing": flooding(
        with_head(b"Content-Encoding: gzip") + gzip.compress(b"")[:10], EMPTY_DEFLATE_BLOCK * 10_000
    ),
    "of an error": flooding(b"HTTP/1.1 500 Internal Server Error\r\n\r\n", BLOCK),
}

UNDECODABLE: Mapping[str, bytes] = {
    "gzip that is none": encoded(b"{}", "gzip"),
    "gzip cut": encoded(gzip.compress(b"{}")[:-4], "gzip"),
    "gzip with a wrong checksum": encoded(gzip.compress(b"{}")[:-8] + bytes(8), "gzip"),
    "gzip and more": encoded(gzip.compress(b"{}") + b"more", "gzip"),
    "gzip of nothing at all": encoded(b"", "gzip"),
    "deflate": encoded(zlib.compress(b"{}"), "deflate"),
    "deflate garbage": encoded(b"\xff\xfe\xfd", "deflate"),
    "brotli": encoded(b"\x0b\x00\x80{}\x03", "br"),
    "zstd": encoded(b"(\xb5/\xfd", "zstd"),
    "compress": encoded(b"\x1f\x9d", "compress"),
    "an encoding that nobody knows": encoded(b"{}", "x-countersign"),
    "gzip in gzip": encoded(gzip.compress(gzip.compress(b"{}")), "gzip, gzip"),
    "gzip in gzip, in two fields": encoded(gzip.compress(gzip.compress(b"{}")), "gzip", "gzip"),
    "gzip in brotli": encoded(b"\x0b\x00\x80{}\x03", "gzip, br"),
}

SENT, STARTED = RequestProgress.SENT, RequestProgress.RESPONSE_STARTED


def cases(scripts: Mapping[str, Script], progress: RequestProgress, category: FailureCategory) -> list[object]:
    return [pytest.param(script, (progress, category), id=f"{category}: {name}") for name, script in scripts.items()]


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        *cases(BROKEN_BEFORE_A_HEAD, SENT, FailureCategory.CONNECTION_BROKEN),
        *cases(NO_ANSWER_IN_HTTP, SENT, FailureCategory.PROTOCOL_VIOLATION),
        *cases(HEAD_FLOODS, SENT, FailureCategory.HEAD_TOO_LARGE),
        *cases(CUT_BODIES, STARTED, FailureCategory.CONNECTION_BROKEN),
        *cases(BAD_CHUNKS, STARTED, FailureCategory.PROTOCOL_VIOLATION),
        *cases(CHUNK_FLOODS, STARTED, FailureCategory.HEAD_TOO_LARGE),
        *cases(
            {name: holding(answer) for name, answer in UNDECODABLE.items()}, STARTED, FailureCategory.BODY_UNDECODABLE
        ),
    ],
)
async def test_what_came_is_no_answer(script: Script, failure: Failure) -> None:
    assert await observe(script) == in_one(failure)


@pytest.mark.parametrize("script", BODY_FLOODS.values(), ids=BODY_FLOODS)
async def test_a_body_without_end_is_read_to_the_limit(script: Script) -> None:
    observed = await observe(script, max_body_bytes=100_000)
    assert observed == in_one((STARTED, FailureCategory.BODY_TOO_LARGE))


@pytest.mark.parametrize(
    ("opening", "category"),
    [
        pytest.param(b"", FailureCategory.PROTOCOL_VIOLATION, id="for an answer"),
        pytest.param(OK + b"Echo \0: ", FailureCategory.PROTOCOL_VIOLATION, id="in a bad field"),
        pytest.param(b"HTTP/1.1 ", FailureCategory.PROTOCOL_VIOLATION, id="for a status"),
    ],
)
async def test_a_request_that_comes_back_is_not_shown(opening: bytes, category: FailureCategory) -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(opening + peer.head)
        await peer.gone()

    assert await observe(script) == in_one((SENT, category))


async def test_a_gzip_bomb_is_not_unpacked_beyond_the_limit() -> None:
    bomb = encoded(gzip.compress(bytes(64 * 1024 * 1024)), "gzip")
    tracemalloc.start()
    try:
        observed = await observe(holding(bomb), max_body_bytes=100_000)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert observed == in_one((STARTED, FailureCategory.BODY_TOO_LARGE))
    assert peak_bytes < 4 * 1024 * 1024


@pytest.mark.parametrize(
    ("script", "timeouts", "failure"),
    [
        pytest.param(holding(), FIRST_BYTE_SOON, (SENT, FailureCategory.FIRST_BYTE_TIMEOUT), id="silence"),
        pytest.param(holding(OK), FIRST_BYTE_SOON, (SENT, FailureCategory.FIRST_BYTE_TIMEOUT), id="half a head"),
        pytest.param(holding(CONTINUE), FIRST_BYTE_SOON, (SENT, FailureCategory.FIRST_BYTE_TIMEOUT), id="continue"),
        pytest.param(
            dripping(OK + b"X: ", b"a"), FIRST_BYTE_SOON, (SENT, FailureCategory.FIRST_BYTE_TIMEOUT), id="head drips"
        ),
        pytest.param(holding(), BRIEF, (SENT, FailureCategory.TOTAL_TIMEOUT), id="silence to the end"),
        pytest.param(
            holding(plain_answer(b"1", length=2)), BRIEF, (STARTED, FailureCategory.TOTAL_TIMEOUT), id="half a body"
        ),
        pytest.param(
            holding(chunked_answer(b"{}", last=b"")),
            BRIEF,
            (STARTED, FailureCategory.TOTAL_TIMEOUT),
            id="no last chunk",
        ),
        pytest.param(
            holding(UNTIL_CLOSE + b"{}"), BRIEF, (STARTED, FailureCategory.TOTAL_TIMEOUT), id="no length, not closed"
        ),
        pytest.param(
            dripping(CHUNKED, b"1\r\n \r\n"), BRIEF, (STARTED, FailureCategory.TOTAL_TIMEOUT), id="body drips"
        ),
        pytest.param(
            dripping(CHUNKED, b"f\r\n: keep-alive \n\n\r\n"),
            BRIEF,
            (STARTED, FailureCategory.TOTAL_TIMEOUT),
            id="comments",
        ),
    ],
)
async def test_what_does_not_end_runs_into_a_deadline(script: Script, timeouts: Timeouts, failure: Failure) -> None:
    assert await observe(script, timeouts=timeouts) == in_one(failure)


async def test_bytes_that_are_always_there_do_not_keep_a_deadline_from_its_turn() -> None:
    observed = await observe(flooding(CHUNKED, b"1\r\n \r\n" * 10_000), timeouts=BRIEF, max_body_bytes=10**12)
    assert observed == in_one((STARTED, FailureCategory.TOTAL_TIMEOUT))


@pytest.mark.parametrize(
    ("script", "timeouts", "outcome"),
    [
        pytest.param(
            pushing_back(then=reset),
            Timeouts(),
            (RequestProgress.SENDING, FailureCategory.CONNECTION_BROKEN),
            id="reset",
        ),
        pytest.param(
            pushing_back(then=stay), BRIEF, (RequestProgress.SENDING, FailureCategory.TOTAL_TIMEOUT), id="not read on"
        ),
        pytest.param(
            pushing_back(plain_answer(b"too much", status="413 Content Too Large"), then=reset),
            Timeouts(),
            ProviderAnswer(413, b"too much"),
            id="refused early",
        ),
        pytest.param(
            pushing_back(plain_answer(b"{}"), then=reset),
            Timeouts(),
            (STARTED, FailureCategory.CONNECTION_BROKEN),
            id="answered before it was asked",
        ),
    ],
)
async def test_a_request_that_is_not_taken(
    script: Script, timeouts: Timeouts, outcome: ProviderAnswer | Failure
) -> None:
    assert await observe(script, request=LARGE_REQUEST, timeouts=timeouts) == in_one(outcome, requests=0)


ANSWERS: Mapping[str, tuple[bytes, ProviderAnswer]] = {
    "after interim answers": (
        CONTINUE + EARLY_HINTS * (MAX_INTERIM_ANSWERS - 1) + plain_answer(b"{}"),
        ProviderAnswer(200, b"{}"),
    ),
    "a head of exactly the limit": (
        with_head(b"Content-Length: 2", b"X: " + b"a" * (MAX_HEAD_BYTES - 16)) + b"{}",
        ProviderAnswer(200, b"{}"),
    ),
    "another content type": (
        plain_answer(b"<html>", headers="Content-Type: text/html\r\n"),
        ProviderAnswer(200, b"<html>"),
    ),
    "an empty body": (plain_answer(b""), ProviderAnswer(200, b"")),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", ProviderAnswer(204, b"")),
    "a status of its own": (plain_answer(b"x", status="599 Whatever"), ProviderAnswer(599, b"x")),
    "no reason": (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n{}", ProviderAnswer(200, b"{}")),
    "the same length twice": (
        with_head(b"Content-Length: 2", b"Content-Length: 2") + b"{}",
        ProviderAnswer(200, b"{}"),
    ),
    "no length": (UNTIL_CLOSE + b'{"a": 1}', ProviderAnswer(200, b'{"a": 1}')),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\n{}", ProviderAnswer(200, b"{}")),
    "more than its length": (plain_answer(b"{} and more", length=2), ProviderAnswer(200, b"{}")),
    "a second answer": (plain_answer(b"{}") + plain_answer(b"[]"), ProviderAnswer(200, b"{}")),
    "chunks": (chunked_answer(b'{"a"', b": 1}"), ProviderAnswer(200, b'{"a": 1}')),
    "chunks with an extension and a trailer": (
        CHUNKED + b"2;name=value\r\n{}\r\n0\r\nX-Trailer: 1\r\n\r\n",
        ProviderAnswer(200, b"{}"),
    ),
    "events": (
        chunked_answer(EVENTS[:7], EVENTS[7:], headers="Content-Type: text/event-stream\r\n"),
        ProviderAnswer(200, EVENTS),
    ),
    "events until it closes": (UNTIL_CLOSE + EVENTS, ProviderAnswer(200, EVENTS)),
    "encodings that are none": (encoded(b"{}", "identity", "identity"), ProviderAnswer(200, b"{}")),
    "gzip in an identity": (encoded(gzip.compress(b"{}"), "identity, gzip"), ProviderAnswer(200, b"{}")),
    "gzip of nothing": (encoded(gzip.compress(b""), "gzip"), ProviderAnswer(200, b"")),
    "kept alive": (plain_answer(b"{}", headers="Connection: keep-alive\r\n"), ProviderAnswer(200, b"{}")),
    "too many requests": (
        plain_answer(b"{}", status="429 Too Many Requests", headers="Retry-After: 0\r\n"),
        ProviderAnswer(429, b"{}"),
    ),
    "busy": (plain_answer(b"{}", status="503 Busy", headers="Retry-After: 0\r\n"), ProviderAnswer(503, b"{}")),
    "timed out itself": (plain_answer(b"", status="408 Request Timeout"), ProviderAnswer(408, b"")),
    "asks for a key": (
        plain_answer(b"", status="401 Unauthorized", headers='WWW-Authenticate: Basic realm="x"\r\n'),
        ProviderAnswer(401, b""),
    ),
    "wrong server": (plain_answer(b"", status="421 Misdirected Request"), ProviderAnswer(421, b"")),
}


@pytest.mark.parametrize(("answer", "expected"), ANSWERS.values(), ids=ANSWERS)
async def test_a_whole_answer_is_an_answer_whatever_it_says(answer: bytes, expected: ProviderAnswer) -> None:
    assert await observe(answering(answer)) == in_one(expected)


@pytest.mark.parametrize(("answer", "expected"), ANSWERS.values(), ids=ANSWERS)
async def test_how_an_answer_is_cut_into_pieces_says_nothing(answer: bytes, expected: ProviderAnswer) -> None:
    pieces = [answer[start : start + 7] for start in range(0, len(answer), 7)][:500]
    rest = answer[len(b"".join(pieces)) :]
    assert await observe(answering(*pieces, rest)) == in_one(expected)
