"""The formats that the exports write, as protobuf itself reads them.

Message types are made from the field numbers that their owners publish, so that what was written
by hand is read by another hand: profile.proto of google/pprof, perfetto_trace.proto of
google/perfetto.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TYPES = {
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "uint64": descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
    "uint32": descriptor_pb2.FieldDescriptorProto.TYPE_UINT32,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "fixed64": descriptor_pb2.FieldDescriptorProto.TYPE_FIXED64,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
}

_PPROF = {
    "Profile": (
        "1 sample_type* ValueType; 2 sample* Sample; 3 mapping* Mapping; 4 location* Location; "
        "5 function* Function; 6 string_table* string; 9 time_nanos int64; "
        "10 duration_nanos int64; 11 period_type ValueType; 12 period int64; 13 comment* int64; "
        "14 default_sample_type int64"
    ),
    "ValueType": "1 type int64; 2 unit int64",
    "Sample": "1 location_id* uint64; 2 value* int64; 3 label* Label",
    "Label": "1 key int64; 2 str int64; 3 num int64; 4 num_unit int64",
    "Mapping": (
        "1 id uint64; 2 memory_start uint64; 3 memory_limit uint64; 5 filename int64; "
        "6 build_id int64; 7 has_functions bool; 8 has_filenames bool; 9 has_line_numbers bool; "
        "10 has_inline_frames bool"
    ),
    "Location": "1 id uint64; 2 mapping_id uint64; 3 address uint64; 4 line* Line",
    "Line": "1 function_id uint64; 2 line int64",
    "Function": "1 id uint64; 2 name int64; 3 system_name int64; 4 filename int64",
}

_PERFETTO = {
    "Trace": "1 packet* TracePacket",
    "TracePacket": (
        "8 timestamp uint64; 10 trusted_packet_sequence_id uint32; 11 track_event TrackEvent; "
        "12 interned_data InternedData; 13 sequence_flags uint32; "
        "60 track_descriptor TrackDescriptor"
    ),
    "TrackEvent": (
        "3 category_iids* uint64; 4 debug_annotations* DebugAnnotation; 9 type int32; "
        "10 name_iid uint64; 11 track_uuid uint64; 47 flow_ids* fixed64"
    ),
    "DebugAnnotation": "1 name_iid uint64; 4 int_value int64; 17 string_value_iid uint64",
    "InternedData": (
        "1 event_categories* Named; 2 event_names* Named; 3 debug_annotation_names* Named; "
        "29 debug_annotation_string_values* Named"
    ),
    "Named": "1 iid uint64; 2 name string",
    "TrackDescriptor": (
        "1 uuid uint64; 2 name string; 5 parent_uuid uint64; 11 child_ordering int32; "
        "12 sibling_order_rank int32; 15 sibling_merge_behavior int32; 16 sibling_merge_key string"
    ),
}


def profile(content: bytes) -> Any:
    """A pprof Profile; a field that the schema does not know is an error."""
    return _read("pprof", _PPROF, "Profile", content)


def trace(content: bytes) -> Any:
    """A Perfetto Trace; a field that the schema does not know is an error."""
    return _read("perfetto", _PERFETTO, "Trace", content)


def _read(package: str, schema: dict[str, str], name: str, content: bytes) -> Any:
    message = message_factory.GetMessageClass(
        _pool(package, schema).FindMessageTypeByName(f"{package}.{name}")
    )()
    message.ParseFromString(content)
    known = message.ByteSize()
    message.DiscardUnknownFields()
    assert message.ByteSize() == known, "unknown fields"
    return message


def _pool(package: str, schema: dict[str, str]) -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto2"
    )
    for name, fields in schema.items():
        message = file.message_type.add(name=name)
        for field in fields.split("; "):
            number, label, kind = field.split(" ")
            made = message.field.add(name=label.rstrip("*"), number=int(number))
            repeated = label.endswith("*")
            made.label = made.LABEL_REPEATED if repeated else made.LABEL_OPTIONAL
            if kind in _TYPES:
                made.type = _TYPES[kind]
            else:
                made.type, made.type_name = made.TYPE_MESSAGE, f".{package}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool
