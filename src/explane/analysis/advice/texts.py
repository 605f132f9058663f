"""What each cause assumes, what to try against it, and what would show that it worked.

Knobs are hypotheses for the user to test. Only flags and functions that exist are named (XLA's
DebugOptions, jax's API); lines that set XLA_FLAGS keep what the user has set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_FLAGS = 'XLA_FLAGS="$XLA_FLAGS {}" python …'
_GRAPHS = "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,CONDITIONAL"
_LOOPS = "+CONDITIONAL,+WHILE"
_COMBINE = " ".join(
    f"--xla_gpu_{kind}_combine_threshold_bytes=134217728"
    for kind in ("all_reduce", "all_gather", "reduce_scatter")
)
_PIPELINE = " ".join(
    f"--xla_gpu_enable_pipelined_{kind}=true"
    for kind in ("all_reduce", "all_gather", "reduce_scatter")
)


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
    "python_tracer": CauseText(
        "the Python tracer alone made the host late: the least value is without any lateness; "
        "how much of it the tracer caused, this capture can't say",
        "measure again before changing the host's code: options = jax.profiler.ProfileOptions(); "
        "options.python_tracer_level = 0; jax.profiler.start_trace(DIR, profiler_options=options)",
        "the same step in the new capture is shorter, and less host-late idle is left",
        ("host_late", "readback", "launch_call_long", "tiny_kernels", "while_readback"),
    ),
    "while_readback": CauseText(
        "the condition could be decided without the host, which then launches on without waiting",
        "use a trip count that is known when compiling (jax.lax.fori_loop with constant bounds, "
        "jax.lax.scan), test the condition only every k iterations (k of them unrolled in the "
        "body), or record loops into graphs (NVIDIA): "
        + _flags(f"--xla_gpu_enable_command_buffer={_LOOPS}"),
        "no copies to the host and no pauses between the iterations of the loop",
        ("host_late", "launch_call_long", "copy", "tiny_kernels"),
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
        + " ; and, for collectives in scanned layers, across iterations: "
        + _flags(_PIPELINE),
        "exposed time of the collectives shrinks; their transfer time may stay",
        ("straggler", "small_collectives", "resharding"),
    ),
    "small_collectives": CauseText(
        "collectives of one kind whose results don't need each other could be one: it pays the "
        "latency once, and waits for the last of its operands",
        "let XLA combine more of them: "
        + _flags(_COMBINE)
        + " ; where shapes differ also: "
        + _flags(
            "--xla_gpu_enable_all_gather_combine_by_dim=false "
            "--xla_gpu_enable_reduce_scatter_combine_by_dim=false"
        )
        + " ; or hand over fewer, larger arrays (jax.flatten_util.ravel_pytree on gradients)",
        "fewer collectives per step, each with more bytes and a higher bus bandwidth",
        ("exposed_collective", "straggler", "tiny_kernels"),
    ),
    "resharding": CauseText(
        "the call could work on the part that each GPU holds (batch entries or heads that don't "
        "mix); XLA can't look into it and brings the operands together",
        "say how the call may be split: jax.shard_map(call, mesh=mesh, in_specs=P('data'), "
        "out_specs=P('data'), check_vma=False) around it, or give it a rule with "
        "jax.experimental.custom_partitioning",
        "the collectives before the call vanish, and the call's operands are a part each",
        ("exposed_collective", "straggler", "small_collectives", "layout"),
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
        "better aligned shapes (multiples of 64 or more), fewer small products, or GEMMs of the "
        "libraries instead of Triton's: " + _flags("--xla_gpu_enable_triton_gemm=false"),
        "time above the roof shrinks for these ops",
        ("layout", "remat", "tiny_kernels", "donation", "precision", "low_occupancy"),
    ),
    "precision": CauseText(
        "bfloat16 is exact enough for these products, and with half the bytes they stay as far "
        "from their roof as they are",
        "cast what is multiplied, and keep the sums in float32: jnp.einsum(spec, "
        "x.astype(jnp.bfloat16), w.astype(jnp.bfloat16), preferred_element_type=jnp.float32); to "
        "try it on all products at once: "
        "jax.config.update('jax_default_matmul_precision', 'BF16_BF16_F32')",
        "these ops get shorter, and the roofline table shows them with the rate bf16; compare the "
        "loss as well",
        ("low_rate", "remat", "tiny_kernels", "low_occupancy"),
    ),
    "low_occupancy": CauseText(
        "the work could be cut into enough blocks for every multiprocessor; an upper bound",
        "give these ops more independent work at once: a larger batch, jax.vmap(f)(xs) or "
        "jax.lax.map(f, xs, batch_size=16) instead of one item after the other, and sums over "
        "long axes in two stages (x.reshape(k, -1).sum(1).sum())",
        "these kernels have at least as many blocks as the GPU has multiprocessors, and get "
        "shorter",
        ("low_rate", "layout", "remat", "precision", "tiny_kernels"),
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
