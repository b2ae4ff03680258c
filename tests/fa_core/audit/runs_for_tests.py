"""Small untrained run folders, as training would leave them."""

import msgspec
from safetensors.torch import save_file

from fa_core.report.manifest import CREDIT, MANIFEST, WEIGHTS, Manifest
from fa_core.zoo.methods import make_method
from fa_core.zoo.models import build
from tests.json_files import put_json

DATA = "synthetic:input=8,train=256,test=1280"
ARGS = {"input_dim": 8, "d": 16, "L": 3, "num_classes": 10}


def small_net(seed=42):
    return build("resmlp", **ARGS, seed=seed)


def make_run(folder, method, seed=42, *, credit=True, **fields):
    """A run folder of an untrained network, its feedback with it."""
    folder.mkdir(parents=True)
    net = small_net(seed)
    args = net.arch_args
    manifest = Manifest(
        method=method, arch="resmlp", arch_args=args, data=DATA, seed=seed, **fields
    )
    put_json(folder / MANIFEST, msgspec.to_builtins(manifest))
    save_file(net.state_dict(), folder / WEIGHTS)
    feedback = make_method(method, net, seed).state_dict()
    if credit and feedback:
        save_file(dict(feedback), folder / CREDIT)
    return folder
