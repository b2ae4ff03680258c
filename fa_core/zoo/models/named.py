"""Networks by ``--model``: of a library, a model-hub folder, a plugin or the user's own code.

timm:NAME(…)   torchvision:NAME(…)   hf:FOLDER   module:callable(…)   NAME(…), built in or a plugin

(…) are keyword arguments, literals only. Nothing is downloaded; weights come from the checkpoint.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules import module as registering

from fa_core.errors import (
    FaError,
    UnreadableInput,
    UsageError,
    first_line,
    install_command,
    missing_package,
)
from fa_core.files.children import OFFLINE, temporary_folder
from fa_core.files.decode import loads, reading
from fa_core.files.inert import LONGEST_NAME
from fa_core.files.limits import limited
from fa_core.files.opening import COPIES, TIMES, check_room, is_file, read_file, typed_path
from fa_core.files.tensor_mappings import StateDict
from fa_core.option_values import (
    MODELS,
    check_known,
    import_callable,
    load_plugin,
    network_spec,
    plugins,
    unknown_name,
)
from fa_core.zoo.models import ARCHS, build
from fa_core.zoo.models.hub_config import check_alone, known_keys

CONFIG = "config.json"
"""The network's configuration in a model-hub folder."""

LARGEST_CONFIG = 1 << 22
"""Its largest size, in bytes."""

LARGEST_SIZE, ANY_SIZE = 1 << 24, 1 << 14
"""Its largest integer, and what any checkpoint may have: transformers makes lists of layers and
labels before it builds anything."""

LAYERS, COUNTED = 1 << 10, ("layer", "layers", "depth", "depths", "entries")
"""Layers and entries of lists that any checkpoint may have, beyond which each needs a tensor, and
how their names end."""

LEARNT = 8
"""Times of its bytes, and of `ANY_SIZE`, that a network's weights may take."""

_OTHER_SIZES = f"the sizes in {CONFIG} are not those of the weights"

SIZELESS = ("position", "theta", "token", "window", "length", "seq")
"""Parts of keys whose integers are no number of layers, labels or weights."""


class Weights(NamedTuple):
    """The size of a checkpoint: the limit for a network that a file describes.

    Attributes:
        path: the checkpoint.
        tensors: their number.
        size: their bytes.
    """

    path: Path
    tensors: int
    size: int


def network_of(spec: str, weights: Weights) -> nn.Module:
    """The network of a model spec, with initial weights.

    Args:
        spec: see the module. It may name code, so it must come from the user, not from a file.
        weights: the checkpoint to load into it.

    Raises:
        UsageError: it cannot be imported or built, or is not a `torch.nn.Module`.
        UnreadableInput: a folder without a configuration that transformers knows.
    """
    kind, name, args = network_spec(spec)
    if not kind and ":" not in name and name in ARCHS:
        return build(name, **args)
    maker: Callable[..., object]
    if kind == "hf":
        maker = partial(_from_folder, name, weights)
    elif kind:
        maker = partial(_from_library, kind, name)
    elif ":" in name:
        maker = import_callable(name)
    else:
        maker = load_plugin(plugins(MODELS)[name])
    try:
        network = maker(**args)
    except FaError:
        raise
    except Exception as error:
        if not kind and not isinstance(error, TypeError):
            raise  # the traceback shows the user's own code
        if kind == "hf":
            raise UnreadableInput(
                f"transformers cannot build it ({_first_line(error)})",
                where=Path(name, CONFIG),
                hint="check its sizes",
            ) from error
        given = f"with {', '.join(args)}" if args else "without arguments"
        raise UsageError(
            f"{name} cannot be called {given} ({_first_line(error)})",
            hint=f"give what it takes as literals: {name}({_parameters(maker)})",
        ) from error
    if not isinstance(network, nn.Module):
        raise UsageError(
            f"{spec} gave no network but {type(network).__name__}", hint="return a torch.nn.Module"
        )
    return network


def _parameters(maker: Callable[..., object]) -> str:
    """What a callable takes: ``width=…, depth=…``; an example if that is not known."""
    try:
        taken = inspect.signature(maker).parameters
    except (TypeError, ValueError):
        return "depth=4"
    return ", ".join(map("{}=…".format, taken))


_LOADING = ("pretrained", "weights", "checkpoint", "cache_dir")
"""How arguments of libraries begin that load weights, from a file or the network."""


def _from_library(package: str, name: str, **args: object) -> object:
    """A network of timm or torchvision.

    Raises:
        UsageError: an unknown name, or an argument that loads weights.
    """
    for argument in args:
        if argument.startswith(_LOADING):
            raise UsageError(
                f"--model: {argument} would load other weights",
                hint="they come from the checkpoint that is measured",
            )
    library = _library(package)
    if package == "timm":
        if not library.is_model(name):
            raise unknown_name("network of timm", name, library.list_models(f"{name[:4]}*"))
        return library.create_model(name, pretrained=False, checkpoint_path="", **args)
    models = library.models
    check_known("network of torchvision", name, models.list_models(module=models))
    return models.get_model(name, weights=None, **args)


def _from_folder(name: str, weights: Weights) -> object:
    folder = typed_path(name)
    if not is_file(folder / CONFIG):
        raise UnreadableInput(
            f"has no {CONFIG}", where=folder, hint="hf: takes a folder that save_pretrained wrote"
        )
    with reading(folder / CONFIG, "is no configuration"):
        described = loads(read_file(folder / CONFIG, LARGEST_CONFIG))
        _check_sizes(described, weights)
        handed_on = json.dumps(known_keys(described))
    transformers = _library("transformers")
    # it reads a folder, so it gets a private copy: no other process can change that meanwhile
    with temporary_folder() as own:
        try:
            Path(own, CONFIG).write_text(handed_on)
            with _limits(weights):
                config = transformers.AutoConfig.from_pretrained(
                    own, local_files_only=True, trust_remote_code=False
                )
                check_alone(config.to_dict())
            networks = [getattr(transformers, arch, None) for arch in config.architectures or ()]
        except FaError:
            raise
        except Exception as error:
            if "torchvision" in _first_line(error):
                raise _unusable("transformers", error) from error
            raise UnreadableInput(
                f"transformers cannot read it ({_first_line(error).replace(own, str(folder))})",
                where=folder / CONFIG,
                hint=(
                    "code that a folder brings is not run: import it in a module of yours, "
                    "--model module:callable"
                ),
            ) from error
    config.use_cache = False
    for network in networks:
        if isinstance(network, type) and issubclass(network, transformers.PreTrainedModel):
            return _built(partial(network, config), weights)
    raise UnreadableInput(
        f"architectures is {config.architectures}, none that transformers has",
        where=folder / CONFIG,
        hint="name the network with --model module:callable",
    )


def _check_sizes(value: object, weights: Weights, name: str = "it") -> None:
    """Check that no integer of a configuration, and no list, exceeds what its weights can have: a
    tensor of them stands for a layer or entry, 32 bytes for one of whatever else is counted.

    Raises:
        ValueError: names the integer.
    """
    if isinstance(value, dict):
        for key, member in value.items():
            _check_sizes(member, weights, key)
    elif isinstance(value, list):
        _check_sizes(len(value), weights, f"the number of {name} entries")
        for member in value:
            _check_sizes(member, weights, name)
    elif isinstance(value, (int, float)):
        most = LARGEST_SIZE
        if not any(part in name for part in SIZELESS):
            room = max(ANY_SIZE, weights.size // 32)
            if name.endswith(COUNTED):
                room = max(LAYERS, weights.tensors)
            most = min(most, room)
        if value > most:
            raise ValueError(
                f"{name} is {value:,.0f}, and no size of such a network is beyond {most:,}"
            )


def _built(build: Callable[[], object], weights: Weights) -> object:
    """The network, built within the size limit; first on the meta device, which takes no memory.

    Raises:
        UnreadableInput: as `_size_limit`.
    """
    with _limits(weights):
        with _size_limit(weights), torch.device("meta"):
            try:
                build()
            except (FaError, MemoryError):
                raise  # of the limits
            except Exception:  # it reads tensor values, which the meta device does not have
                pass
        with _size_limit(weights):
            return build()


def _limits(weights: Weights) -> AbstractContextManager[None]:
    """Limits of time and memory for building a network (`limited`)."""
    return limited(weights.path, weights.size, "to build its network", _OTHER_SIZES)


@contextmanager
def _size_limit(weights: Weights) -> Iterator[None]:
    """Stop the construction of a network far larger than its checkpoint.

    A multiple of the checkpoint is allowed, since a file may lack buffers and tensors with shared
    memory.

    Raises:
        UnreadableInput: says the sizes.
    """
    parts = size = learnt = 0

    def count(_: nn.Module, __: str, part: Tensor | nn.Module | None) -> None:
        nonlocal parts, size, learnt
        parts += 1
        if isinstance(part, Tensor):
            is_learnt = isinstance(part, nn.Parameter)
            # a buffer is computed, in steps as large as itself
            size += part.nbytes * (1 if is_learnt else COPIES)
            learnt += part.nbytes * is_learnt
        if parts > TIMES * (weights.tensors + 1):
            raise UnreadableInput(
                f"has {weights.tensors:,} tensors, and the network more than {parts - 1:,} parts",
                where=weights.path,
                hint=_OTHER_SIZES,
            )
        check_room(size, weights.size, _OTHER_SIZES, weights.path)
        # a library may fill what the file lacks number by number
        if learnt > LEARNT * (weights.size + ANY_SIZE):
            raise UnreadableInput(
                f"has {weights.size >> 10:,} KiB, and the network's weights {learnt >> 10:,}",
                where=weights.path,
                hint=_OTHER_SIZES,
            )

    with ExitStack() as hooks:
        for register in (
            registering.register_module_parameter_registration_hook,
            registering.register_module_buffer_registration_hook,
            registering.register_module_module_registration_hook,
        ):
            hooks.callback(register(count).remove)
        yield


def own_names(network: nn.Module, tensors: StateDict) -> StateDict:
    """A checkpoint's tensors under the names of a transformers network, which stores some renamed.

    Unchanged if a tensor is missing, superfluous or of another shape, or a name is too long for the
    patterns that transformers looks for.
    """
    known = network.state_dict().keys()
    is_of_another = not type(network).__module__.startswith("transformers.")
    if is_of_another or tensors.keys() <= known or max(map(len, tensors)) > LONGEST_NAME:
        return tensors
    pretrained: Any = type(network)
    loaded, info = pretrained.from_pretrained(
        None,
        config=network.config,
        state_dict=dict(tensors),
        output_loading_info=True,
        ignore_mismatched_sizes=True,
    )
    if any(info.values()):
        return tensors
    renamed: StateDict = loaded.state_dict()
    return renamed


def _library(package: str) -> ModuleType:
    """An optional package, imported.

    Raises:
        UsageError: it is not installed, or fails to import. A torchvision for another torch may
            raise any exception.
    """
    for name, value in OFFLINE.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module(package)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == package:
            raise missing_package(package, f"a network of {package}") from None
        raise _unusable(package, error) from error


def _unusable(package: str, error: Exception) -> UsageError:
    """The error for a package that fails to import, at least in part."""
    why = _first_line(error)
    needed = "torchvision" if "torchvision" in why else package
    return UsageError(
        f"{package} does not import here ({why})",
        hint=f"install a build of {needed} for torch {torch.__version__}: "
        f"{install_command(needed)}",
    )


def _first_line(error: BaseException) -> str:
    """First line of the error at the root of a chain of causes."""
    while cause := error.__cause__:
        error = cause
    return first_line(error)
