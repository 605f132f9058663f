"""What each cause assumes, what to try against it, and what would show that it worked.

Knobs are hypotheses for the user to test. Only flags and functions that exist are named (XLA's
DebugOptions, jax's API); lines that set XLA_FLAGS keep what the user has set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_FLAGS = 'XLA_FLAGS="$XLA_FLAGS {}" python …'
_GRAPHS = "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,CONDITIONAL"


@dataclass(frozen=True, slots=True)
class CauseText:
    """Fixed words for one cause.

    Attributes:
        assumption: What has to be true for the estimate to hold.
        knob: What to try, with the exact line.
        proof: What a new capture would show if it worked.
        overlaps: Causes whose time this one may share.
    """

    assumption: str
    knob: str
    proof: str
    overlaps: tuple[str, ...] = ()


def _flags(flags: str) -> str:
    return _FLAGS.format(flags)


CAUSE_TEXTS: Final = {
    "host_late": CauseText(
        "the host can enqueue ahead of the GPU; kernels then never wait for their calls",
        "keep the host ahead: don't read results back in the step (no float(loss), print or "
        "np.asarray of device values; log every n steps, or read the result of the step before), "
        "and prepare the next batch in another thread",
        "host-late idle shrinks and the host runs steps ahead of the GPU",
        ("launch_call_long", "tiny_kernels", "straggler", "recompile"),
    ),
    "readback": CauseText(
        "the host need not wait for the step's results; it then runs ahead, and its own work per "
        "step hides behind the GPU's, or sets the pace where it is longer",
        "don't wait for each step: print or log the result of the step before, or every n steps; "
        "no float(loss), np.asarray or block_until_ready in the loop; keep conditions that "
        "depend on results on the GPU (jax.lax.cond, jax.lax.while_loop)",
        "the wait of the host moves off the step's end; several executions are in flight",
        ("host_late", "launch_call_long", "tiny_kernels", "straggler", "recompile"),
    ),
    "launch_call_long": CauseText(
        "all calls of an execution after the first could be one graph launch",
        "launch as graphs (command buffers): "
        + _flags(f"--xla_gpu_enable_command_buffer={_GRAPHS} --xla_gpu_graph_min_graph_size=5"),
        "fewer launch calls per step, shorter time from call to kernel",
        ("host_late", "tiny_kernels"),
    ),
    "straggler": CauseText(
        "the late GPU could be as early as the others; their own work stays as it is",
        "look at what the late GPU does meanwhile (evidence): uneven input, extra work on one "
        "rank, clocks or temperature of that GPU; compare its kernels with the others'",
        "waiting in collectives shrinks while their transfer time stays",
        ("host_late", "exposed_collective", "low_rate", "layout", "remat", "tiny_kernels"),
    ),
    "exposed_collective": CauseText(
        "enough independent compute exists to hide all transfers behind; the least value is for "
        "fully hidden transfers",
        "let the scheduler overlap: "
        + _flags("--xla_gpu_enable_latency_hiding_scheduler=true")
        + " ; and combine small ones: "
        + _flags(
            "--xla_gpu_all_reduce_combine_threshold_bytes=134217728 "
            "--xla_gpu_all_gather_combine_threshold_bytes=134217728 "
            "--xla_gpu_reduce_scatter_combine_threshold_bytes=134217728"
        ),
        "exposed time of the collectives shrinks; their transfer time may stay",
        ("straggler",),
    ),
    "copy": CauseText(
        "the copies and fills on the path are not needed, or could run beside compute",
        "find who asks for them. Outside the program (inputs, results): prefetch with "
        "jax.device_put before the step, read results less often. In the program (ops with kind "
        "memcpy): donate buffers that are updated in place (donate_argnums), avoid slices of "
        "large stacked arrays in scanned loops",
        "memcpy and memset time on the critical path shrinks",
        ("donation", "layout", "low_rate", "remat"),
    ),
    "tiny_kernels": CauseText(
        "kernels below five microseconds could run at once behind the kernel before, as if fused",
        "merge small element-wise work: fewer separate jitted calls, jax.jit around the whole "
        "step, jax.lax.scan instead of Python loops over layers or parameters, optimisers on "
        "flattened parameters (optax.flatten)",
        "fewer kernels per step, less launch latency on the path",
        ("host_late", "launch_call_long", "layout", "remat", "copy"),
    ),
    "low_rate": CauseText(
        "every modelled op ran at the roof that the GPU's spec sheet sets; an upper bound",
        "start with the ops that have most time above the roof (roofline table): larger or "
        "better aligned shapes, bfloat16 inputs "
        "(jax.config.update('jax_default_matmul_precision', 'bfloat16')), library or tuned GEMMs: "
        + _flags("--xla_gpu_autotune_level=4"),
        "time above the roof shrinks for these ops",
        ("layout", "remat", "tiny_kernels", "donation"),
    ),
    "layout": CauseText(
        "operations that only move or convert data could be fused away or not asked for",
        "keep activations and weights in the type and layout that the GEMMs want: cast weights "
        "once outside the loop, avoid swapaxes and reshapes around dots and FFI calls",
        "time of transposes, copies and converts shrinks",
        ("copy", "low_rate", "donation", "remat"),
    ),
    "donation": CauseText(
        "the copied parameters could be updated in place",
        "donate what the step replaces: jax.jit(train_step, donate_argnums=(0, 1)) for parameters "
        "and optimiser state",
        "copies of parameters vanish from the step",
        ("copy", "layout"),
    ),
    "remat": CauseText(
        "what is computed again could be kept instead; needs memory for it",
        "save more: jax.checkpoint(f, policy=jax.checkpoint_policies.dots_saveable), or "
        "checkpoint fewer layers",
        "ops with rematted_computation in their op_name shrink",
        ("low_rate", "layout"),
    ),
    "recompile": CauseText(
        "the same functions could be compiled once; the estimate is the steps without compilation",
        "find what changes: JAX_EXPLAIN_CACHE_MISSES=1 python … ; pad inputs to few shapes, keep "
        "static arguments constant, and reuse compilations: "
        "jax.config.update('jax_compilation_cache_dir', DIR)",
        "no compilation between steps",
    ),
}
"""Texts by cause; every cause that `advice` can rank has one."""
