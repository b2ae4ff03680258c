"""Networks that ``--model`` names: a library's, a hub folder's, a plugin's, the user's own.

timm:NAME(…)   torchvision:NAME(…)   hf:FOLDER   module:callable(…)   NAME(…), built in or a plugin

(…) are keyword arguments, literals only. Nothing is downloaded, and weights always come from the
checkpoint.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules import module as registering

from fa_core.decode import loads, reading
from fa_core.errors import FaError, UnreadableInput, UsageError, install_command, missing_package
from fa_core.files import TIMES, check_room, is_file, is_folder, read_file, typed_path
from fa_core.models import ARCHS, build
from fa_core.option_values import import_callable, network_spec, unknown_name
from fa_core.plugins import MODELS, load_plugin, plugins

CONFIG = "config.json"
"""Where a model-hub folder describes its network."""

LARGEST_CONFIG = 1 << 22
"""Bytes of it."""

LARGEST_SIZE = 1 << 24
"""What every integer of it is at most: some are turned into lists of that length before anything is
built."""


class Weights(NamedTuple):
    """How much a checkpoint holds, to which a network that a file describes is compared before it
    is built.

    Attributes:
        path: the checkpoint.
        tensors: how many.
        size: their bytes.
    """

    path: Path
    tensors: int
    size: int


def network_of(spec: str, weights: Weights | None = None) -> nn.Module:
    """The network that a SPEC names, with weights of its own making.

    Args:
        spec: as above; code may be named in it, so it must come from the user, not from a file.
        weights: what will be loaded into it; None = it is not known.

    Raises:
        UsageError: it cannot be imported or built like this, or is no `torch.nn.Module`.
        UnreadableInput: a folder without a configuration that transformers knows.
    """
    kind, name, args = network_spec(spec)
    if not kind and ":" not in name and name in ARCHS:
        return build(name, **args)
    try:
        network = _maker(kind, name, weights)(**args)
    except FaError:
        raise
    except Exception as error:
        if not kind and not isinstance(error, TypeError):
            raise  # of the user's own code, with its traceback
        if args:
            given = f"with {', '.join(args)}"
        else:
            given = "without arguments"
        what = f"--model {spec}: {name} cannot be called {given} ({_first_line(error)})"
        if kind == "hf":
            hint = ""
        else:
            hint = f"give what it takes as literals: {name}(depth=4)"
        raise UsageError(what, hint=hint) from error
    if not isinstance(network, nn.Module):
        raise UsageError(
            f"--model {spec} gave a {type(network).__name__}", hint="return a torch.nn.Module"
        )
    return network


def _maker(kind: str, name: str, weights: Weights | None) -> Callable[..., Any]:
    """What makes a network that is not built in."""
    if kind == "hf":
        return partial(_from_folder, name, weights)
    if kind:
        return partial(_LIBRARIES[kind], name)
    maker: Callable[..., Any]
    if ":" in name:
        maker = import_callable(name, "--model")
    else:
        maker = load_plugin(plugins(MODELS)[name])
    return maker


def hub_folder(checkpoint: Path) -> Path | None:
    """The model-hub folder that a checkpoint is, or lies in; None where no ``config.json`` is
    there."""
    if is_folder(checkpoint):
        folder = checkpoint
    else:
        folder = checkpoint.parent
    if is_file(folder / CONFIG):
        return folder
    return None


def _from_timm(name: str, **args: Any) -> Any:
    timm = _library("timm")
    if not timm.is_model(name):
        raise unknown_name("network of timm", name, timm.list_models(f"{name[:4]}*"))
    return timm.create_model(name, pretrained=False, checkpoint_path="", **args)


def _from_torchvision(name: str, **args: Any) -> Any:
    models = _library("torchvision").models
    known = models.list_models(module=models)
    if name not in known:
        raise unknown_name("network of torchvision", name, known)
    return models.get_model(name, weights=None, **args)


def _from_folder(name: str, weights: Weights | None = None) -> Any:
    folder = typed_path(name)
    if not is_file(folder / CONFIG):
        raise UnreadableInput(
            f"has no {CONFIG}", where=folder, hint="hf: takes a folder that save_pretrained wrote"
        )
    with reading(folder / CONFIG, "is no configuration"):
        described = read_file(folder / CONFIG, LARGEST_CONFIG)
        _check_sizes(loads(described))
    transformers = _library("transformers")
    # a folder is all that it takes: one of ours, which nobody else writes to
    with tempfile.TemporaryDirectory() as own:
        try:
            Path(own, CONFIG).write_bytes(described)
            config = transformers.AutoConfig.from_pretrained(
                own, local_files_only=True, trust_remote_code=False
            )
            known = [getattr(transformers, arch, None) for arch in config.architectures or ()]
        except Exception as error:
            if "torchvision" in _first_line(error):
                raise _unusable("transformers", error) from error
            what = f"transformers cannot read it ({_first_line(error).replace(own, str(folder))})"
            hint = (
                "code that a folder brings is not run: import it in a module of yours, "
                "--model module:callable"
            )
            raise UnreadableInput(what, where=folder / CONFIG, hint=hint) from error
    config.use_cache = False
    for network in known:
        if isinstance(network, type) and issubclass(network, transformers.PreTrainedModel):
            return _built(partial(network, config), weights)
    what = f"architectures is {config.architectures}, none that transformers has"
    raise UnreadableInput(
        what, where=folder / CONFIG, hint="name the network with --model module:callable"
    )


def _check_sizes(value: Any, name: str = "it") -> None:
    """Refuse a configuration with an integer that is no size of a network.

    Raises:
        ValueError: names it.
    """
    members: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = ((name, member) for member in value)
    for own, member in members:
        _check_sizes(member, own)
    if isinstance(value, int) and value > LARGEST_SIZE:
        raise ValueError(
            f"{name} is {value:,}, and no size of a network is beyond {LARGEST_SIZE:,}"
        )


def _built(build: Callable[[], Any], weights: Weights | None) -> Any:
    """The network, which is built without memory before, where that can be.

    Raises:
        UnreadableInput: as `_counted`.
    """
    if weights is None:
        return build()
    with _counted(weights), torch.device("meta"):
        try:
            build()
        except FaError:
            raise
        except Exception:  # it asks for values of tensors, which have none then
            pass
    with _counted(weights):
        return build()


@contextmanager
def _counted(weights: Weights) -> Iterator[None]:
    """Stop the building of a network that has far more tensors, or far larger ones, than its
    checkpoint.

    What a file lacks may be buffers, or tensors that share their memory; so a multiple of it is
    allowed.

    Raises:
        UnreadableInput: says how much it would be.
    """
    hint = f"the sizes in {CONFIG} are not those of the weights"
    parts, size = 0, 0

    def count(_: nn.Module, __: str, part: Tensor | nn.Module | None) -> None:
        nonlocal parts, size
        parts += 1
        size += part.nbytes if isinstance(part, Tensor) else 0
        if parts > TIMES * (weights.tensors + 1):
            what = f"has {weights.tensors:,} tensors, and the network more than {parts - 1:,} parts"
            raise UnreadableInput(what, where=weights.path, hint=hint)
        with reading(weights.path):
            check_room(size, weights.size, hint)

    with ExitStack() as hooks:
        for register in (
            registering.register_module_parameter_registration_hook,
            registering.register_module_buffer_registration_hook,
            registering.register_module_module_registration_hook,
        ):
            hooks.callback(register(count).remove)
        yield


def own_names(network: nn.Module, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """A checkpoint's tensors under the names that a network of transformers has: it stores some
    under others.

    They stay as they are where one is missing, too many or of another shape.
    """
    known = network.state_dict().keys()
    if not type(network).__module__.startswith("transformers.") or tensors.keys() <= known:
        return tensors
    read: Any = type(network)
    loaded, info = read.from_pretrained(
        None, config=network.config, state_dict=dict(tensors), output_loading_info=True
    )
    return tensors if any(info.values()) else loaded.state_dict()


_LIBRARIES: Mapping[str, Callable[..., Any]] = {
    "timm": _from_timm,
    "torchvision": _from_torchvision,
}


def _library(package: str) -> Any:
    """An optional package, imported.

    Raises:
        UsageError: it is not installed, or does not import: builds of torchvision for another torch
            raise anything.
    """
    try:
        return importlib.import_module(package)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == package:
            raise missing_package(package, f"a network of {package}") from None
        raise _unusable(package, error) from error


def _unusable(package: str, error: Exception) -> UsageError:
    """The error for a package that does not import, or not all of it."""
    why = _first_line(error)
    if "torchvision" in why:
        needed = "torchvision"
    else:
        needed = package
    hint = f"install a build of {needed} for torch {torch.__version__}: {install_command(needed)}"
    return UsageError(f"{package} does not import here ({why})", hint=hint)


def _first_line(error: BaseException) -> str:
    """Of the error that all others came from."""
    while cause := error.__cause__:
        error = cause
    return (str(error).strip() or type(error).__name__).splitlines()[0]
