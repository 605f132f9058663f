"""Generated protobuf code for the part of HloProto that explane reads; see hlo.proto."""
