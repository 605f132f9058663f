"""Maps of metadata: few and many entries, large ones, equal and odd keys."""

from __future__ import annotations

import pytest

from explane.capture.planes import scan_plane
from explane.capture.wire import Span, WireError
from tests.builders import bytes_field, entry, int_field


def _scan(body: bytes) -> tuple[dict[int, bytes], dict[int, bytes]]:
    plane = scan_plane(body, Span(0, len(body)), "plane")
    return dict(plane.event_metadata.names(body)), dict(plane.stat_metadata.names(body))


@pytest.mark.parametrize("count", [1, 40, 20_000])
def test_names_by_key(count: int) -> None:
    keys = [(-1) ** i * i * 2**20 for i in range(count)]
    events = {key: b"kernel %d" % key for key in keys}
    stats = {key + 1: b"stat %d" % key for key in keys}
    body = b"".join(bytes_field(4, entry(k, bytes_field(2, v))) for k, v in events.items())
    body += int_field(1, 3)
    body += b"".join(bytes_field(5, entry(k, bytes_field(2, v))) for k, v in stats.items())
    assert _scan(bytes_field(2, "plane") + body) == (events, stats)


def test_maps_that_alternate_and_entries_of_any_size() -> None:
    body, events = b"", {}
    for key in range(30):
        events[key] = b"x" * (key % 3 * 50_000) + b"%d" % key
        body += bytes_field(4, entry(key, int_field(1, 99) + bytes_field(2, events[key])))
        body += bytes_field(5, entry(key, bytes_field(2, b"s")))
    assert _scan(body) == (events, dict.fromkeys(range(30), b"s"))


def test_the_last_of_equal_keys_counts_and_empty_parts_are_empty() -> None:
    body = bytes_field(4, entry(7, bytes_field(2, b"old")))
    body += bytes_field(4, entry(7, bytes_field(2, b"new")))
    body += bytes_field(4, b"") + bytes_field(4, int_field(1, 8))
    assert _scan(body)[0] == {0: b"", 7: b"new", 8: b""}


@pytest.mark.parametrize("size", [3, 100_000])
def test_stats_of_entries(size: int) -> None:
    stats = [bytes_field(6, b"p" * size), int_field(1, 2)]
    body = bytes_field(4, entry(1, bytes_field(2, b"plain")))
    body += bytes_field(4, entry(5, b"".join(bytes_field(5, s) for s in stats)))
    plane = scan_plane(body, Span(0, len(body)), "plane")
    assert list(plane.event_metadata.stats) == [5]
    assert [body[a:b] for a, b in plane.event_metadata.stats[5]] == stats


@pytest.mark.parametrize("n_good", [0, 500])
def test_a_damaged_entry_is_found(n_good: int) -> None:
    good = bytes_field(4, entry(1, bytes_field(2, b"name")))
    bad = bytes_field(4, int_field(1, 2) + b"\x12\x7fab")
    body = good * n_good + bad
    with pytest.raises(WireError) as damage:
        scan_plane(body, Span(0, len(body)), "plane")
    assert damage.value.offset == body.index(b"\x12\x7fab")
