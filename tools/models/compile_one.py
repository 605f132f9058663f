"""Compile one model ahead of time for a GPU that need not be there, dumps in a folder.

    python compile_one.py PLATFORM TARGET.txtpb MODEL N_DEVICES

Run by `tools/compile_programs.py` in an environment with jax and the plugin of the platform; it
sets XLA_FLAGS, so that the dumps land where it wants them. No GPU and no driver are needed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import convnet
import decode
import jax
import jax.numpy as jnp
import minigpt
import mlp
import ring
import solver
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec


class Lowerable(NamedTuple):
    """A jitted function and the shapes of its arguments."""

    function: Any
    arguments: tuple[Any, ...]


def _shapes(tree: Any, shardings: Any) -> Any:
    def shaped(leaf: Any, sharding: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    return jax.tree.map(shaped, tree, shardings)


def _all(tree: Any, sharding: NamedSharding) -> Any:
    return jax.tree.map(lambda _: sharding, tree)


def _array(shape: tuple[int, ...], dtype: Any, sharding: NamedSharding) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def _gpt_params(config: minigpt.Config) -> Any:
    return jax.eval_shape(lambda: minigpt.init_params(jax.random.key(0), config))


def _tokens(mesh: Mesh, config: minigpt.Config) -> jax.ShapeDtypeStruct:
    shape = (config.batch_per_device * mesh.size, config.sequence)
    return _array(shape, jnp.int32, NamedSharding(mesh, PartitionSpec("data")))


def gpt(mesh: Mesh, config: minigpt.Config, *, split: bool) -> Lowerable:
    """MiniGPT's train step; parameters replicated, or split over the devices (FSDP)."""
    whole = NamedSharding(mesh, PartitionSpec())
    params = _gpt_params(config)
    if split:
        placed = jax.tree.map(lambda leaf: minigpt.fsdp_sharding(mesh, leaf), params)
    else:
        placed = _all(params, whole)
    pin = NamedSharding(mesh, PartitionSpec("data")) if split else None
    state = minigpt.Adam(jax.ShapeDtypeStruct((), jnp.int32), params, params)
    state_placed = minigpt.Adam(whole, placed, placed)
    step = jax.jit(
        minigpt.make_train_step(config, pin),
        donate_argnums=(0, 1),
        out_shardings=(placed, state_placed, whole),
    )
    shapes = (_shapes(params, placed), _shapes(state, state_placed), _tokens(mesh, config))
    return Lowerable(step, shapes)


def gpt_optax(mesh: Mesh, config: minigpt.Config) -> Lowerable:
    """MiniGPT trained with optax, parameters replicated."""
    import minigpt_optax

    whole = NamedSharding(mesh, PartitionSpec())
    function, optimizer = minigpt_optax.make_train_step(config)
    params = _gpt_params(config)
    state = jax.eval_shape(optimizer.init, params)
    placed = (_all(params, whole), _all(state, whole))
    step = jax.jit(function, donate_argnums=(0, 1), out_shardings=(*placed, whole))
    shapes = (_shapes(params, placed[0]), _shapes(state, placed[1]), _tokens(mesh, config))
    return Lowerable(step, shapes)


def gpt_eval(mesh: Mesh, config: minigpt.Config) -> Lowerable:
    """The loss alone, as between training steps."""
    whole = NamedSharding(mesh, PartitionSpec())
    params = _gpt_params(config)

    def eval_step(params: Any, tokens: Any) -> Any:
        return minigpt.loss_fn(params, tokens, config)

    shapes = (_shapes(params, _all(params, whole)), _tokens(mesh, config))
    return Lowerable(jax.jit(eval_step), shapes)


def gpt_decode(mesh: Mesh, config: minigpt.Config) -> Lowerable:
    """One new token for every sequence."""
    whole = NamedSharding(mesh, PartitionSpec())
    params = _gpt_params(config)
    head = config.d_model // config.n_heads
    cache_shape = (config.batch_per_device, config.sequence, config.n_heads, head)
    cache = _array(cache_shape, jnp.bfloat16, whole)
    shapes = (
        _shapes(params, _all(params, whole)),
        [(cache, cache)] * config.n_layers,
        _array((config.batch_per_device,), jnp.int32, whole),
        _array((), jnp.int32, whole),
    )
    return Lowerable(jax.jit(decode.make_decode_step(config), donate_argnums=(1,)), shapes)


def conv(mesh: Mesh) -> Lowerable:
    """The convolution network's train step, data-parallel."""
    whole = NamedSharding(mesh, PartitionSpec())
    split = NamedSharding(mesh, PartitionSpec("data"))
    params = jax.eval_shape(lambda: convnet.init_params(jax.random.key(0)))
    placed = _all(params, whole)
    step = jax.jit(
        convnet.train_step, donate_argnums=(0, 1), out_shardings=(placed, placed, whole)
    )
    images = _array((32 * mesh.size, 128, 128, 3), jnp.bfloat16, split)
    labels = _array((32 * mesh.size,), jnp.int32, split)
    return Lowerable(step, (_shapes(params, placed), _shapes(params, placed), images, labels))


def perceptron(mesh: Mesh) -> Lowerable:
    """The MLP's train step, data-parallel."""
    whole = NamedSharding(mesh, PartitionSpec())
    split = NamedSharding(mesh, PartitionSpec("data"))
    params = jax.eval_shape(lambda: mlp.init_params(jax.random.key(0)))
    placed = _all(params, whole)
    step = jax.jit(mlp.train_step, donate_argnums=(0,), out_shardings=(placed, whole))
    rows = 512 * mesh.size
    x = _array((rows, mlp.SIZES[0]), jnp.float32, split)
    y = _array((rows, mlp.SIZES[-1]), jnp.float32, split)
    return Lowerable(step, (_shapes(params, placed), x, y))


def solve(mesh: Mesh) -> Lowerable:
    """Control flow, sorting, Fourier transform, random numbers."""
    whole = NamedSharding(mesh, PartitionSpec())
    key = jax.eval_shape(lambda: jax.random.key(0))
    shapes = (
        _array((768, 768), jnp.float32, whole),
        _array((), jnp.float32, whole),
        jax.ShapeDtypeStruct(key.shape, key.dtype, sharding=whole),
    )
    return Lowerable(jax.jit(solver.solve), shapes)


def ring_product(mesh: Mesh) -> Lowerable:
    """Hand-written collectives."""
    split = NamedSharding(mesh, PartitionSpec("data"))
    x = _array((2048 * mesh.size, 1024), jnp.bfloat16, split)
    w = _array((1024 * mesh.size, 1024), jnp.bfloat16, split)
    return Lowerable(jax.jit(ring.make_ring_product(mesh)), (x, w))


SMALL = minigpt.Config()
UNROLLED = minigpt.Config(n_layers=6, d_model=384, n_heads=6, d_ff=1536, scan=False)
NO_REMAT = minigpt.Config(n_layers=5, d_model=640, n_heads=10, d_ff=2560, remat=False)
MODELS: dict[str, Callable[[Mesh], Lowerable]] = {
    "minigpt": lambda mesh: gpt(mesh, SMALL, split=False),
    "minigpt_fsdp": lambda mesh: gpt(mesh, SMALL, split=True),
    "minigpt_optax": lambda mesh: gpt_optax(mesh, NO_REMAT),
    "minigpt_unrolled": lambda mesh: gpt(mesh, UNROLLED, split=False),
    "minigpt_eval": lambda mesh: gpt_eval(mesh, SMALL),
    "minigpt_decode": lambda mesh: gpt_decode(mesh, SMALL),
    "convnet": conv,
    "mlp": perceptron,
    "solver": solve,
    "ring": ring_product,
}


def main(platform: str, target: str, model: str, n_devices: int) -> None:
    """Compile one model; XLA writes the dumps."""
    jax.config.update("jax_platforms", "cpu")
    if platform == "rocm":
        # The plugin's registration asks the kernel driver how many GPUs there are.
        from jax._src import hardware_utils

        hardware_utils.num_available_amd_gpus = lambda **_: 1
    topology = topologies.get_topology_desc(
        platform=platform,
        target_config=Path(target).read_text(encoding="utf-8"),
        topology=f"1x1x{n_devices}",
    )
    mesh = topologies.make_mesh(topology, (n_devices,), ("data",))
    function, arguments = MODELS[model](mesh)
    function.lower(*arguments).compile()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
