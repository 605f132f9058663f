"""The facts that frame one process's results, and its parsed programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from explane.analysis.investigation import HostFacts
from explane.analysis.overview import gpu_text
from explane.analysis.verdict.verdict import Expected
from explane.capture.classify import GROUP_COLLECTIVES
from explane.capture.hlo import read_program
from explane.capture.model import Capture, HostCapture, StoredProgram
from explane.capture.program import Program
from explane.errors import CaptureError

_SIMULATED_MARK: Final = "simulated"


def host_facts(record: HostCapture, gpu: str = "") -> HostFacts:
    """What frames the results of a process.

    Args:
        record: The capture and the JSON beside it.
        gpu: Name of the GPU as identified; empty takes what the file tells.
    """
    capture = record.main
    versions = {k: str(v) for k, v in capture.session.items() if "version" in k.casefold()}
    names = (capture.host, str(capture.session.get("hostname", "")))
    return HostFacts(
        host=capture.host,
        source=capture.source,
        gpu=gpu or gpu_text(capture),
        devices=tuple(d.ordinal for d in capture.devices),
        active_devices=tuple(int(d) for d in np.unique(capture.kernels.device)),
        versions=versions,
        partial=capture.partial,
        simulated=any(_SIMULATED_MARK in name.casefold() for name in names),
    )


def expected_of(capture: Capture, programs: Mapping[int, Program]) -> Expected:
    """What the programs that ran say that the capture should hold.

    Args:
        capture: The capture; a program counts when kernels carry its id.
        programs: Parsed programs by id.
    """
    ran = [programs[i] for i in np.unique(capture.kernels.program_id).tolist() if i in programs]
    counts = [program.num_replicas * program.num_partitions for program in ran]
    between_devices = any(
        n_devices > 1
        and any(o.removesuffix("-start") in GROUP_COLLECTIVES for o in p.instructions.opcodes)
        for p, n_devices in zip(ran, counts, strict=True)
    )
    return Expected(max(counts, default=0), between_devices)


def read_programs(
    stored: Mapping[int, StoredProgram],
) -> tuple[dict[int, Program], dict[int, str]]:
    """Parsed programs by id, and the reason for each that can't be parsed.

    Args:
        stored: Modules by id. One that is there under several ids is parsed once.
    """
    programs: dict[int, Program] = {}
    broken: dict[int, str] = {}
    read: dict[bytes, Program] = {}
    for program_id, module in stored.items():
        known = read.get(module.hlo_proto)
        if known is not None:
            programs[program_id] = replace(known, program_id=program_id)
            continue
        try:
            programs[program_id] = read[module.hlo_proto] = read_program(module)
        except CaptureError as error:
            broken[program_id] = error.reason
    return programs, broken
