"""A stored module as another process of the same job would have stored it."""

from __future__ import annotations

import json

from explane.capture._proto import hlo_pb2

_FAR = 1 << 40


def other_process(hlo_proto: bytes, place: str = "/other/venv") -> bytes:
    """The same program with other ids, frames and paths, channels, map orders and tuning."""
    proto = hlo_pb2.HloProto.FromString(hlo_proto)
    module = proto.hlo_module
    module.id += 5
    module.pjrt_id += 5
    module.frontend_attributes.map["fingerprint_before_lhs"] = place
    names = module.stack_frame_index.file_names
    names[:] = [place + str(name) for name in names]
    fused = {
        called
        for computation in module.computations
        for instruction in computation.instructions
        if instruction.opcode == "fusion"
        for called in instruction.called_computation_ids
    }
    for computation in module.computations:
        for instruction in computation.instructions:
            _other_instruction(instruction, place, computation.id not in fused)
        computation.id = _FAR - computation.id
        computation.root_id = _FAR - computation.root_id
    module.entry_computation_id = _FAR - module.entry_computation_id
    sequences = {key: list(one.instruction_ids) for key, one in module.schedule.sequences.items()}
    module.ClearField("schedule")
    for key, ids in reversed(sequences.items()):
        module.schedule.sequences[_FAR - key].instruction_ids.extend(_FAR - i for i in ids)
    return proto.SerializeToString()


def _other_instruction(
    instruction: hlo_pb2.HloInstructionProto, place: str, is_launched: bool
) -> None:
    instruction.id = _FAR - instruction.id
    for ids in (
        instruction.operand_ids,
        instruction.control_predecessor_ids,
        instruction.called_computation_ids,
    ):
        ids[:] = [_FAR - i for i in ids]
    if instruction.channel_id:
        instruction.channel_id += 100
    metadata = instruction.metadata
    if metadata.source_file:
        metadata.source_file = place + str(metadata.source_file)
    if is_launched and instruction.backend_config.startswith(b"{"):
        config = json.loads(instruction.backend_config)
        for part, name in (
            ("gemm_backend_config", "selected_algorithm"),
            ("fusion_backend_config", "block_level_fusion_config"),
        ):
            if part in config:
                config[part][name] = {"num_warps": "64"}
        turned = dict(reversed(config.items()))
        instruction.backend_config = json.dumps(turned).encode()
