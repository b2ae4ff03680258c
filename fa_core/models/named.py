"""A network by what the user typed for ``--model``: a library's, a model-hub folder's, a plugin's, or their own code.

timm:NAME(…)   torchvision:NAME(…)   hf:FOLDER   module:callable(…)   NAME(…), built in or a plugin

(…) are keyword arguments, literals only. Nothing is downloaded, and weights always come from the checkpoint.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fa_core.errors import FaError, UnreadableInput, UsageError, install_command, missing_package
from fa_core.files import is_file, is_folder, typed_path
from fa_core.models import ARCHS, build
from fa_core.option_values import import_callable, network_spec, unknown_name
from fa_core.plugins import MODELS, load_plugin, plugins

CONFIG = "config.json"
"""Where a model-hub folder describes its network."""


def network_of(spec: str) -> nn.Module:
    """The network that a SPEC names, with weights of its own making.

    Args:
        spec: as above; code may be named in it, so it must come from the user, not from a file.

    Raises:
        UsageError: it cannot be imported or built like this, or is no `torch.nn.Module`.
        UnreadableInput: a folder without a configuration that transformers knows.
    """
    kind, name, args = network_spec(spec)
    if not kind and ":" not in name and name in ARCHS:
        return build(name, **args)
    make: Callable[..., Any]
    if kind:
        make = partial(_LIBRARIES[kind], name)
    else:
        make = import_callable(name, "--model") if ":" in name else load_plugin(plugins(MODELS)[name])
    try:
        network = make(**args)
    except FaError:
        raise
    except Exception as error:
        if not kind and not isinstance(error, TypeError):
            raise  # of the user's own code, with its traceback
        given = f"with {', '.join(args)}" if args else "without arguments"
        what = f"--model {spec}: {name} cannot be called {given} ({_first_line(error)})"
        hint = "" if kind == "hf" else f"give what it takes as literals: {name}(depth=4)"
        raise UsageError(what, hint=hint) from error
    if not isinstance(network, nn.Module):
        raise UsageError(f"--model {spec} gave a {type(network).__name__}", hint="return a torch.nn.Module")
    return network


def hub_folder(checkpoint: Path) -> Path | None:
    """The model-hub folder that a checkpoint is, or lies in; None where no ``config.json`` is there."""
    folder = checkpoint if is_folder(checkpoint) else checkpoint.parent
    return folder if is_file(folder / CONFIG) else None


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


def _from_folder(name: str) -> Any:
    folder = typed_path(name)
    if not is_file(folder / CONFIG):
        raise UnreadableInput(f"has no {CONFIG}", where=folder, hint="hf: takes a folder that save_pretrained wrote")
    transformers = _library("transformers")
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        known = [getattr(transformers, arch, None) for arch in config.architectures or ()]
    except Exception as error:
        if "torchvision" in _first_line(error):
            raise _unusable("transformers", error) from error
        what = f"transformers cannot read it ({_first_line(error)})"
        hint = "code that a folder brings is not run: import it in a module of yours, --model module:callable"
        raise UnreadableInput(what, where=folder / CONFIG, hint=hint) from error
    config.use_cache = False
    for network in known:
        if isinstance(network, type) and issubclass(network, transformers.PreTrainedModel):
            return network(config)
    what = f"architectures is {config.architectures}, none that transformers has"
    raise UnreadableInput(what, where=folder / CONFIG, hint="name the network with --model module:callable")


def own_names(network: nn.Module, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """A checkpoint's tensors under the names that a network of transformers has: it stores some under others.

    They stay as they are where one is missing, too many or of another shape.
    """
    known = network.state_dict().keys()
    if not type(network).__module__.startswith("transformers.") or tensors.keys() <= known:
        return tensors
    read: Any = type(network)
    loaded, info = read.from_pretrained(None, config=network.config, state_dict=dict(tensors), output_loading_info=True)
    return tensors if any(info.values()) else loaded.state_dict()


_LIBRARIES: Mapping[str, Callable[..., Any]] = {
    "timm": _from_timm,
    "torchvision": _from_torchvision,
    "hf": _from_folder,
}


def _library(package: str) -> Any:
    """An optional package, imported.

    Raises:
        UsageError: it is not installed, or does not import: builds of torchvision for another torch raise anything.
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
    needed = "torchvision" if "torchvision" in why else package
    hint = f"install a build of {needed} for torch {torch.__version__}: {install_command(needed)}"
    return UsageError(f"{package} does not import here ({why})", hint=hint)


def _first_line(error: BaseException) -> str:
    """Of the error that all others came from."""
    while cause := error.__cause__:
        error = cause
    return (str(error).strip() or type(error).__name__).splitlines()[0]
