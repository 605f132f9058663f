"""Damaged variants of capture files, the same ones for the same seed.

Half of the variants of an xplane file are made along its structure: from the whole file down
through nested messages to one field, which is changed, dropped, doubled or swapped, while the
lengths around it are put right. So the damage reaches the code behind the length checks. The other
half is damage by position: cut, flipped, missing and foreign bytes.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from random import Random

Field = tuple[int, bytes]  # (tag, encoded value: a varint, 4 or 8 bytes, or length and content)

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_EXTREMES = (0, 1, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 10**15, 10**18)
_TEXTS = (b"", b"\xff\xfe", b"../../x", b"<script>alert(1)</script>", b"=1+1", b"\0", b"a" * 5000)
_GZIP = b"\x1f\x8b"


def mutant(original: bytes, seed: int) -> bytes:
    """A damaged variant of an xplane file or a trace JSON (plain or gzip)."""
    random = Random(seed)
    if original.startswith(_GZIP):
        try:
            text = gzip.decompress(original)
        except (EOFError, OSError, zlib.error):
            return damaged_bytes(original, random)
        if random.random() < 0.3:
            return damaged_bytes(original, random)
        return gzip.compress(_json_mutant(text, random), mtime=0)
    if original.lstrip()[:1] in (b"{", b"["):
        return _json_mutant(original, random)
    return _along_structure(original, random) if seed % 2 else damaged_bytes(original, random)


def is_cut(content: bytes) -> bool:
    """Whether the outermost framing alone shows that it is no whole xplane file or gzip."""
    if content.startswith(_GZIP):
        stream = zlib.decompressobj(wbits=31)
        try:
            stream.decompress(content)
        except zlib.error as error:
            return "incorrect" not in str(error)  # a checksum: the text is whole all the same
        return not stream.eof
    return content.lstrip()[:1] not in (b"{", b"[") and not split_fields(content)


def damaged_bytes(data: bytes, random: Random) -> bytes:
    """Damage that knows nothing of the format."""
    at = random.randrange(len(data) + 1)
    end = min(len(data), at + random.choice((1, 2, 8, 100, 5000)))
    kind = random.randrange(6)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + data[end:]
    if kind == 2:
        return data[:end] + data[at:end] + data[end:]
    if kind == 3:
        return data[:at] + random.randbytes(end - at) + data[end:]
    if kind == 4:
        return data[:at] + b"\xff" * (end - at) + data[end:]
    flipped = bytearray(data)
    for _ in range(random.choice((1, 3, 20))):
        flipped[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(flipped)


def _along_structure(data: bytes, random: Random) -> bytes:
    """Damage of one field somewhere in the tree of messages; the lengths around it are right."""
    fields = split_fields(data)
    if not fields:
        return damaged_bytes(data, random) if data else random.choice(_TEXTS)
    sizes = [len(value) for _, value in fields] if random.random() < 0.3 else None
    at = random.choices(range(len(fields)), sizes)[0]
    tag, value = fields[at]
    content = _content(value) if tag & 7 == _LENGTH else b""
    if content and random.random() < 0.85 and split_fields(content):
        fields[at] = (tag, _with_length(_along_structure(content, random)))
    else:
        random.choice(_FIELD_CHANGES)(fields, at, random)
    return join_fields(fields)


def _change_value(fields: list[Field], at: int, random: Random) -> None:
    tag, value = fields[at]
    if tag & 7 == _VARINT:
        fields[at] = (tag, varint(random.choice(_EXTREMES)))
    elif tag & 7 == _LENGTH:
        fields[at] = (tag, _with_length(random.choice(_TEXTS)))
    else:
        fields[at] = (tag, random.randbytes(len(value)))


def _wrong_length(fields: list[Field], at: int, random: Random) -> None:
    tag, value = fields[at]
    if tag & 7 == _LENGTH:
        content = _content(value)
        wrong = random.choice((len(content) + 1, max(len(content) - 1, 0), *_EXTREMES))
        fields[at] = (tag, varint(wrong) + content)
    else:
        _change_value(fields, at, random)


def _change_tag(fields: list[Field], at: int, random: Random) -> None:
    fields[at] = (
        random.choice((fields[at][0] ^ random.randrange(1, 8), 0, 8, 800)),
        fields[at][1],
    )


def _drop(fields: list[Field], at: int, _random: Random) -> None:
    del fields[at]


def _double(fields: list[Field], at: int, _random: Random) -> None:
    fields.insert(at, fields[at])


def _swap(fields: list[Field], at: int, random: Random) -> None:
    other = random.randrange(len(fields))
    fields[at], fields[other] = fields[other], fields[at]


_FIELD_CHANGES: tuple[Callable[[list[Field], int, Random], None], ...] = (
    _change_value,
    _change_value,
    _wrong_length,
    _change_tag,
    _drop,
    _double,
    _swap,
)


def _json_mutant(text: bytes, random: Random) -> bytes:
    """Damage of one value of a JSON text, or by position."""
    colons = [i for i in range(len(text)) if text[i : i + 1] == b":"] if len(text) < 10**6 else []
    if not colons or random.random() < 0.4:
        return damaged_bytes(text, random)
    at = random.choice(colons) + 1
    end = min((i for i in (text.find(b",", at), text.find(b"}", at)) if i > 0), default=at)
    values = (b"null", b"-1", b"1e400", b"NaN", b'"\\ud800"', b"[[[[]]]]", b"{}", b'"x', b"true")
    return text[:at] + random.choice(values) + text[end:]


def split_fields(data: bytes) -> list[Field]:
    """The fields of a message; empty when the bytes are none."""
    fields: list[Field] = []
    at = 0
    while at < len(data):
        tag, after = _read_varint(data, at)
        end = _value_end(data, tag & 7, after)
        if tag < 8 or end > len(data) or end <= after:
            return []
        fields.append((tag, data[after:end]))
        at = end
    return fields


def join_fields(fields: list[Field]) -> bytes:
    """The message of these fields."""
    return b"".join(varint(tag) + value for tag, value in fields)


def varint(number: int) -> bytes:
    """A varint of up to 64 bits."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _value_end(data: bytes, wire: int, at: int) -> int:
    """Where a value ends; -1 when it can't be one."""
    if wire == _VARINT:
        return _read_varint(data, at)[1]
    if wire == _LENGTH:
        size, start = _read_varint(data, at)
        return start + size if start > 0 else -1
    return at + {_FIXED64: 8, _FIXED32: 4}.get(wire, -at - 1)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint and where it ends; end -1 when there is none."""
    number = 0
    for i in range(10):
        if at + i >= len(data):
            break
        number |= (data[at + i] & 127) << 7 * i
        if data[at + i] < 128:
            return number, at + i + 1
    return 0, -1


def _content(value: bytes) -> bytes:
    return value[_read_varint(value, 0)[1] :]


def _with_length(content: bytes) -> bytes:
    return varint(len(content)) + content
