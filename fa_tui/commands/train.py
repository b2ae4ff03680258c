"""`fa-tui train`: method × seed (× λ, d, L) into run folders."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import platformdirs
from typer import Option

from fa_core.audit.devices import resolve_devices
from fa_core.errors import FaError, UsageError
from fa_core.files.decode import Json, reason_of
from fa_core.formats.run_folder import starting
from fa_core.report.names import canonical_method
from fa_core.report.numbers import listed
from fa_core.training.plan import Order, Recipe, check_names, plan_runs, stopping_letters
from fa_tui import options
from fa_tui.commands.output import complain
from fa_tui.commands.progress import TrainingProgress, stoppable
from fa_tui.options import ThresholdOptions
from fa_tui.views.words import runs_words

if TYPE_CHECKING:
    from fa_core.zoo.data.dataset import DataSet


MOST_THREADS = 1024
"""Maximum of CPU threads: more may end the process."""


def train_command(  # noqa: PLR0913 (options of a command)
    method: Annotated[
        list[str],
        Option(
            help="Credit rules, e.g. bp,dfa; frozen, one for each of them, gives (d) its baseline."
        ),
    ],
    out: Annotated[
        Path,
        Option(metavar="PATH", help="Folder for the run folders.", parser=options.typed_path),
    ],
    arch: Annotated[
        str,
        Option(
            help="resmlp, resmlp_wide, studentnet, vit_mini, smallcnn, small_resnet, resnet20 or "
            "resnet56.",
        ),
    ] = "resmlp",
    data: Annotated[
        str,
        Option(
            metavar="SPEC",
            help="synthetic[:input=16,ambient=1024], cifar10:DIR, cifar100:DIR, imagefolder:DIR, "
            "digits, npz:FILE or module:callable.",
        ),
    ] = "synthetic",
    seeds: Annotated[list[str], Option(help="One run each.")] = ["42"],  # noqa: B006
    epochs: Annotated[
        int,
        Option(
            min=1,
            help="Passes over the training samples; --method random_init is the untrained network.",
        ),
    ] = 30,
    lam: Annotated[list[str], Option(help="λ of the penalty λ‖f‖²; several make a sweep.")] = ["0"],  # noqa: B006
    d: Annotated[list[str] | None, Option(help="Width; several make a sweep.")] = None,
    L: Annotated[list[str] | None, Option("--L", help="Depth; several make a sweep.")] = None,
    terminal_ln: Annotated[
        bool | None,
        Option("--terminal-ln/--no-terminal-ln", help="LayerNorm before the head."),
    ] = None,
    method_arg: Annotated[
        list[str] | None,
        Option(metavar="KEY=VALUE", help="An option of the method, e.g. variant=stable."),
    ] = None,
    arch_arg: Annotated[
        list[str] | None,
        Option(metavar="KEY=VALUE", help="An argument of the network, e.g. hidden=256."),
    ] = None,
    lr: Annotated[float, Option(help="Learning rate.")] = 1e-3,
    weight_decay: Annotated[float, Option(help="Weight decay.")] = 0.01,
    schedule: Annotated[str, Option(help="cosine or constant.")] = "cosine",
    optimizer: Annotated[str, Option(help="adamw, adam or sgd.")] = "adamw",
    batch_size: Annotated[int, Option(help="Samples per step.")] = 128,
    stop_on: Annotated[
        str,
        Option(
            metavar="LETTERS",
            help="End a run when one of these fires, e.g. ab; (d) is judged at the end.",
        ),
    ] = "",
    resume: Annotated[
        bool, Option("--resume", help="Go on with unfinished runs, skip finished ones.")
    ] = False,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Train again over what is there.")
    ] = False,
    device: Annotated[
        str,
        Option(
            help="auto, cpu, cuda:all, cuda:1, or several with commas: a run at a time on each."
        ),
    ] = "auto",
    jobs: Annotated[
        int | None, Option(metavar="N", help="Runs at a time.", show_default="one per device")
    ] = None,
    threads: Annotated[
        int | None,
        Option(
            min=1,
            max=MOST_THREADS,
            help="CPU threads (default: 1 for small networks, else PyTorch's).",
        ),
    ] = None,
    *,
    limits: ThresholdOptions,
) -> None:
    """Train runs, measured every epoch, each into a run folder.

    Methods: bp, fa, dfa, state_bridge, credit_bridge, ep, sparse_dfa, drtp, dtp, pc, local_loss;
    forward-only, so without Γ, pepita, ff;
    controls: frozen, shallow, random_init, random_targets.
    A run's (d) is measured against the frozen run of the same seed in the same folder.

    Examples:

    \b
        fa-tui train --method bp,dfa,frozen --data synthetic --seeds 42,123,456 \\
            --out runs

        fa-tui train --method dfa --lr 1e-2 --stop-on b --out runs

    \b
        fa-tui train --method dfa --lam 0,1e-4,1e-3,1e-2 --data cifar10:~/cifar \\
            --epochs 30 --out runs
    """
    for name in options.split_list(method):
        check_names(name, arch, data)
    arch_args = _arguments("--arch-arg", arch_arg)
    axes = {}
    if terminal_ln is not None:
        arch_args["terminal_ln"] = terminal_ln
    if terminal_ln is False and arch.startswith("resmlp"):
        axes["terminal_ln"] = False
    plans = plan_runs(
        list(map(canonical_method, options.split_list(method))),
        options.numbers("--seeds", seeds, int),
        arch=arch,
        data=data,
        recipe=Recipe(
            epochs=epochs,
            lr=lr,
            weight_decay=weight_decay,
            schedule=schedule,
            batch_size=batch_size,
            optimizer=optimizer,
        ),
        lams=options.numbers("--lam", lam, float),
        widths=options.numbers("--d", d, int),
        depths=options.numbers("--L", L, int),
        arch_args=arch_args,
        method_args=_arguments("--method-arg", method_arg),
        axes=axes,
    )
    if not plans:
        raise UsageError(
            "nothing to train", hint="name a method and a seed: --method dfa --seeds 42"
        )
    thresholds = limits.thresholds()
    stopping_letters(stop_on)
    orders = [
        Order(plan=plan, resume=resume, overwrite=overwrite, stop_on=stop_on, thresholds=thresholds)
        for plan in plans
    ]
    _train(orders, out, resolve_devices(device, jobs), threads)


def _train(orders: Sequence[Order], out: Path, devices: Sequence[str], threads: int | None) -> None:
    """Train the runs: one by one, or as many at a time as there are devices.

    Args:
        orders: the runs.
        out: folder of the run folders.
        devices: where to train.
        threads: CPU threads, if not PyTorch's own number.
    """
    plans = [order.plan for order in orders]
    names = listed([plan.name for plan in plans], 6)
    complain(f"starting {runs_words(len(plans))} in {out}: {names}")
    # read by cuBLAS when CUDA starts; required for deterministic kernels
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # read by OpenMP when torch is imported: spinning threads take several times the processor time
    # where other programs run
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # an optimizer makes this folder: torch's own one, in the folder of all users, may be another's
    with contextlib.suppress(OSError):
        cache = platformdirs.user_cache_path("fa-tui", ensure_exists=True)
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache / "torch"))
    try:
        with stoppable():
            # a second terminal may open them at once: torch takes seconds
            with starting({out / plan.name: plan.recipe.epochs for plan in plans[: len(devices)]}):
                import torch

                from fa_core.training.runs import check_orders, train_runs
                from fa_core.training.train import threads_for

                samples = _loaded(plans[0].data)
                check_orders(orders, samples, out)
                if threads is None:
                    threads = threads_for(plans, samples)
                if threads is not None:
                    torch.set_num_threads(threads)
            with TrainingProgress(len(plans)) as progress:
                train_runs(orders, out, samples, devices[: len(plans)], threads, progress)
    except KeyboardInterrupt as stop:
        goes_on = f"--resume goes on after the last complete epoch of every run in {out}"
        stop.args = (f"{str(stop) or 'interrupted'}; {goes_on}",)
        raise


def _loaded(spec: str) -> DataSet:
    """The data of a SPEC; errors of the user's code become one line."""
    from fa_core.zoo.data import load_data  # imports torch

    try:
        return load_data(spec, allow_code=True)
    except FaError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"--data {spec} raised {reason_of(error)}", hint="--debug shows where"
        ) from error


def _arguments(option: str, values: list[str] | None) -> Json:
    """``["hidden=256", "variant=stable"]`` → names and values; numbers and true/false are
    parsed."""
    found: Json = {}
    for item in options.split_list(values):
        name, equals, text = item.partition("=")
        if not equals or not name:
            raise UsageError(f"{option} {item!r} is not KEY=VALUE")
        try:
            found[name] = json.loads(text.lower())
        except ValueError:
            found[name] = text
    return found
