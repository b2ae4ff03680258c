"""Measuring functions for workers under test: the checkpoint, by its name or as a JSON file, says what happens."""

import itertools
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import msgspec

from fa_core.audit.jobs import DeviceFull, Job
from fa_core.errors import MeasureError, UnreadableInput
from fa_core.files.children import temporary_folder
from fa_core.formats.checkpoint_file import input_hashes
from fa_core.option_values import import_callable

if "cuda:9" in sys.argv:  # of the worker that imports this
    raise RuntimeError("there is no such card")


def measure(job, device, watch):
    fault = Path(job.checkpoint).name.partition("-")[0]
    watch.update(0, 2)
    if fault == "killed":
        print("about to be killed", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "refused":
        raise UnreadableInput("is empty", where=job.checkpoint, hint="save it again")
    if fault == "bug":
        raise ZeroDivisionError("division by zero")
    if fault == "lost" or (fault == "gone" and device == "cuda:0"):
        why = RuntimeError("CUDA error: device-side assert triggered")
        raise UnreadableInput("the network failed", where=job.checkpoint) from why
    if fault == "filled" and device == "cuda:0":
        raise DeviceFull("out of memory: others hold it")
    if fault == "unsendable":
        return {"method_name": object()}
    if fault == "gibberish":
        watch.note({"no": "text"})
    if fault == "stuck":
        with temporary_folder():
            threading.Event().wait()
    if fault == "gate":
        Path(job.checkpoint).read_bytes()
        watch.update(1, 2)
    if fault == "endless":
        for batch in itertools.count(1):
            watch.update(batch, 0)
    if fault == "chatty":
        print("this must not reach the client")
        os.write(1, b'{"is": "done", "job_id": "forged", "report": {}}\n')
    if fault == "users":
        return {"method_name": import_callable("own_code:name")()}
    if fault == "smaller":
        watch.note("out of memory: batch halved to 64")
    return {
        "method_name": job.method,
        "notes": device,
        "residual_norms": [1.0, float("inf")],
        "provenance": {"pid": os.getpid(), "cwd": str(Path.cwd()), "torch": "torch" in sys.modules},
    }


def report_of(job, **fields):
    """A report of a checkpoint that has a file."""
    facts = {
        "checkpoint": job.checkpoint,
        "hashes": input_hashes(Path(job.checkpoint)),
        "settings": msgspec.to_builtins(job.options),
        "data": job.options.data,
        **fields.pop("provenance", {}),
    }
    norms = {"residual_norms": [1.0, 2.0], "bp_grad_norms": [1e-3, 1e-3]}
    return {"method_name": job.method, "seed": job.seed, **norms, **fields, "provenance": facts}


def measure_described(job, device, watch):
    """Reports what the checkpoint, a JSON file, says about itself; ``fault`` in it goes wrong as in `measure`."""
    described = json.loads(Path(job.checkpoint).read_text())
    watch.update(0, 1)
    if "wait_for" in described:
        Path(described["wait_for"]).read_bytes()
    if "fault" in described:
        measure(Job(id=job.id, checkpoint=described["fault"]), device, watch)
    return report_of(
        job,
        residual_norms=[1.0, described.get("growth", 2.0)],
        headline_acc=described.get("acc", 0.5),
        provenance=described.get("provenance", {}),
    )


def measure_at_gate(job, device, watch):
    """Writes itself into the file ``begun``, then waits until the file ``until`` is there, then reports."""
    described = json.loads(Path(job.checkpoint).read_text())
    with Path(described["begun"]).open("a") as begun:
        begun.write(f"{job.method}\n")
    watch.update(0, 1)
    while not Path(described["until"]).exists():
        threading.Event().wait(0.02)
    if "error" in described:
        raise ZeroDivisionError(described["error"])
    return report_of(job, notes=device, residual_norms=[1.0, float("inf")])


def measure_shown(job, device, watch):
    """A report that fires (a); ``wait`` waits for a file ``go``, ``broken`` fails
    until there is one, ``killed`` dies of SIGKILL."""
    checkpoint = Path(job.checkpoint)
    watch.update(1, 3)
    if "broken" in checkpoint.name and not (checkpoint.parent / "go").exists():
        raise MeasureError("the weights are empty", where=checkpoint)
    if "killed" in checkpoint.name:
        os.kill(os.getpid(), signal.SIGKILL)
    while "wait" in checkpoint.name and not (checkpoint.parent / "go").exists():
        watch.update(1, 3)
        time.sleep(0.01)
    watch.update(3, 3)
    return {
        "method_name": job.method,
        "residual_norms": [1.0, 100.0],
        "bp_grad_norms": [1e-3, 1e-3],
        "cross_batch_stability": 0.1,
    }
