"""Small compiled programs, written by hand, for the simulator's tests."""

from __future__ import annotations

from explane.synth.program import CompiledProgram, Thunk
from tests.builders import Hlo, HloComputation, HloModule

TRIPS = '{"known_trip_count":{"n":"3"}}'
GRID, BLOCK = (4, 1, 1), (128, 1, 1)


def kernel(number: int, instruction: str, name: str = "", distance: int = 0) -> Thunk:
    """A thunk with a kernel of its own."""
    made = name or instruction.replace(".", "_").replace("-", "_")
    return Thunk("kCustomKernel", number, instruction, made, GRID, BLOCK, distance=distance)


def graph(*members: Thunk) -> Thunk:
    """A command buffer."""
    return Thunk("kCommandBuffer", parts={"": members})


def loop(number: int, instruction: str, condition: Thunk, *body: Thunk) -> Thunk:
    """A while loop."""
    return Thunk("kWhile", number, instruction, parts={"condition": (condition,), "body": body})


def compiled(
    thunks: tuple[Thunk, ...],
    instructions: list[Hlo],
    *,
    platform: str = "CUDA",
    n_devices: int = 1,
    bodies: list[HloComputation] | None = None,
) -> CompiledProgram:
    """A program whose entry lists the given instructions behind a parameter `x`."""
    entry = HloComputation("main", [Hlo("x", "parameter", parameter_number=0), *instructions])
    module = HloModule("jit_f", [*(bodies or []), entry], num_partitions=n_devices)
    return CompiledProgram(
        title="hand",
        name="jit_f",
        platform=platform,
        device="",
        compiler="",
        n_devices=n_devices,
        hlo_proto=module.to_bytes(),
        thunks=thunks,
    )


def fusion(name: str, *operands: str, shape: str = "f32[1024,1024]") -> Hlo:
    """An instruction that launches one kernel."""
    return Hlo(name, "negate", shape, operands or ("x",), op_name=f"jit(f)/{name}")


def chain(platform: str = "CUDA") -> CompiledProgram:
    """Direct a; graph of b, c, d, where d needs only b; direct e."""
    thunks = (
        kernel(1, "a"),
        graph(kernel(2, "b"), kernel(3, "c.1", distance=1), kernel(4, "d")),
        kernel(5, "e"),
    )
    instructions = [
        fusion("a"),
        fusion("b", "a"),
        fusion("c.1", "b"),
        fusion("d", "b"),
        fusion("e", "d", "c.1"),
    ]
    return compiled(thunks, instructions, platform=platform)


def looped() -> CompiledProgram:
    """A loop of three trips around a graph, in it a condition that is never launched."""
    inner = HloComputation("body", [fusion("p"), fusion("q", "p")])
    test = HloComputation("condition", [Hlo("t", "compare", "pred[]", ())])
    # Operands of the bodies' instructions are the entry's parameter; only names matter here.
    while_loop = Hlo("while.1", "while", calls=["condition", "body"], operands=["x"])
    while_loop.backend_config = TRIPS
    thunks = (loop(1, "while.1", kernel(2, "t"), graph(kernel(3, "p"), kernel(4, "q"))),)
    return compiled(thunks, [while_loop], bodies=[test, inner])


def collective(n_devices: int = 4, *, asynchronous: bool = True) -> CompiledProgram:
    """a; an all-gather, asynchronous beside b or in order; c, which needs it."""
    gather = Hlo("all-gather-start.7", "all-gather-start", "f32[4096,1024]", ["a"])
    inner = Thunk("kAllGather", 3, "all-gather-start.7")
    if asynchronous:
        start = Thunk(
            "kAsyncStart",
            2,
            "all-gather-start.7",
            stream="communication_stream[0]",
            async_id=2,
            parts={"": (inner,)},
        )
        middle: tuple[Thunk, ...] = (start, kernel(4, "b"), Thunk("kAsyncDone", 5, async_id=2))
    else:
        middle = (inner, kernel(4, "b"))
    thunks = (kernel(1, "a"), *middle, kernel(6, "c"))
    instructions = [fusion("a"), gather, fusion("b", "a"), fusion("c", "b")]
    return compiled(thunks, instructions, n_devices=n_devices)


def matmul(platform: str = "CUDA") -> CompiledProgram:
    """A graph with a library product between two kernels."""
    call = Hlo("custom-call.3", "custom-call", "bf16[512,512]", ["a", "x"])
    call.target = "__cublas$lt$matmul"
    thunks = (
        graph(
            kernel(1, "a"),
            Thunk("kCublasLtMatmul", 2, "custom-call.3", distance=1),
            kernel(3, "b", distance=1),
        ),
    )
    instructions = [fusion("a"), call, fusion("b", "custom-call.3")]
    return compiled(thunks, instructions, platform=platform)
