"""Small hand-made tables in the form that an investigation has them."""

from __future__ import annotations

import numpy as np
import polars as pl

from explane.analysis.swimlane import LANE_COLUMNS


def swimlane(
    n_devices: int = 2,
    n_streams: int = 2,
    n_kernels: int = 40,
    step_ps: int = 1_000_000_000,
    host: str = "node",
) -> pl.DataFrame:
    """A step with a launching thread; kernels of several kinds, sizes and gaps, by seed."""
    random = np.random.default_rng(7)
    kinds = ["compute", "collective", "memcpy", "memset"]
    rows: list[tuple[object, ...]] = []
    for device in range(n_devices):
        for stream in range(n_streams):
            parts = np.sort(random.integers(0, step_ps, n_kernels))
            length = np.diff(parts, append=step_ps) * random.choice([1.0, 0.5, 0.9], n_kernels)
            for i in range(n_kernels):
                kind = "compute" if stream == 0 else kinds[int(random.integers(0, 4))]
                rows.append(
                    (
                        host, device, stream + 13, f"GPU {device} stream {stream + 13}", "gpu",
                        int(parts[i]), int(length[i]), kind, f"loop_add_fusion_{i}",
                        f"fusion.{i}", f"jit(f)/jit(main)/layer_{i % 4}/add", "/home/u/train.py",
                        10 + i % 5, "exact", int(stream == 0 and device == 0),
                    )
                )  # fmt: skip
    none = (None,) * 5
    for i in range(n_kernels):
        start = int(i * step_ps * 0.7 / n_kernels)
        call = ("thread", start, int(step_ps * 0.01), "launch", "hipModuleLaunchKernel")
        rows.append((host, None, None, "python/123", *call, *none[:4], None, 0))
    outer = ("thread", 0, int(step_ps * 0.8), "host", "PjitFunction(f)")
    rows.append((host, None, None, "python/123", *outer, *none[:4], None, 0))
    return pl.DataFrame(rows, schema=LANE_COLUMNS, orient="row")
