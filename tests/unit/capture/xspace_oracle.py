"""XSpace through the protobuf library: a reader that shares nothing with explane's own.

The message types are declared here from the proto definition
(tsl/profiler/protobuf/xplane.proto), so no generated code is needed.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_KINDS = {
    "int64": _FIELD.TYPE_INT64,
    "uint64": _FIELD.TYPE_UINT64,
    "double": _FIELD.TYPE_DOUBLE,
    "string": _FIELD.TYPE_BYTES,
    "bytes": _FIELD.TYPE_BYTES,
}
# Strings are declared as bytes, so that bad UTF-8 can be compared too. Maps are declared as the
# repeated entries that they are on the wire. A trailing "*" means repeated.
_MESSAGES = {
    "XSpace": "XPlane* planes 1, string* errors 2, string* warnings 3, string* hostnames 4",
    "XPlane": (
        "int64 id 1, string name 2, XLine* lines 3, EventEntry* event_metadata 4, "
        "StatEntry* stat_metadata 5, XStat* stats 6"
    ),
    "EventEntry": "int64 key 1, XEventMetadata value 2",
    "StatEntry": "int64 key 1, XStatMetadata value 2",
    "XLine": (
        "int64 id 1, string name 2, int64 timestamp_ns 3, XEvent* events 4, int64 duration_ps 9, "
        "int64 display_id 10, string display_name 11"
    ),
    "XEvent": (
        "int64 metadata_id 1, int64 offset_ps 2, int64 duration_ps 3, XStat* stats 4, "
        "int64 num_occurrences 5"
    ),
    "XStat": (
        "int64 metadata_id 1, double double_value 2, uint64 uint64_value 3, int64 int64_value 4, "
        "string str_value 5, bytes bytes_value 6, uint64 ref_value 7"
    ),
    "XEventMetadata": (
        "int64 id 1, string name 2, bytes metadata 3, string display_name 4, XStat* stats 5"
    ),
    "XStatMetadata": "int64 id 1, string name 2, string description 3",
}


def _xspace_type() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="xplane_for_tests.proto", package="oracle")
    for name, text in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for part in text.split(", "):
            kind, field_name, number = part.split()
            repeated, kind = kind.endswith("*"), kind.removesuffix("*")
            label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=int(number), label=label)
            if kind in _KINDS:
                field.type = _KINDS[kind]
            else:
                field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".oracle.{kind}"
            # proto2 semantics tell an offset of 0 from none, as the oneof does.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("oracle.XSpace"))


XSpace = _xspace_type()


def parse(raw: bytes) -> Any:
    """The file as protobuf messages."""
    space = XSpace()
    space.ParseFromString(raw)
    return space


class Names:
    """Names of a plane's metadata."""

    def __init__(self, plane: Any) -> None:
        self.events = {e.key: text(e.value.name) for e in plane.event_metadata}
        self.stats = {e.key: text(e.value.name) for e in plane.stat_metadata}

    def values(self, stats: Any) -> dict[str, int | float | str | bytes]:
        """Stats by name; references resolved."""
        found: dict[str, int | float | str | bytes] = {}
        for stat in stats:
            name = self.stats.get(stat.metadata_id, "")
            for field, value in stat.ListFields():
                if field.name == "ref_value":
                    found[name] = self.stats[value]
                elif field.name == "str_value":
                    found[name] = text(value)
                elif field.name != "metadata_id":
                    found[name] = value
        return found


def text(raw: bytes) -> str:
    """Bytes as text, bad UTF-8 replaced."""
    return raw.decode("utf-8", "replace")
