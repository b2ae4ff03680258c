"""What of a model hub's config.json is handed to transformers: no name that leads elsewhere.

A name in it may be that of another network (``backbone``), of code of a hub (``auto_map``,
``attn_implementation``) or of a library (``quant_method``), and transformers connects, loads or
imports. A name needs text, so text passes under known keys alone; numbers pass under any other.
"""

from __future__ import annotations

from pathlib import Path

from fa_core.errors import UnreadableInput
from fa_core.files.decode import Json

TEXT = frozenset(Path(__file__).with_name("hub_keys.txt").read_text().split())
"""Keys whose text names one of a network's own choices."""

LABELS = ("id2label", "label2id")
"""Keys with the names of classes, which are counted only."""

DROPPED = {
    "attn_impl",
    "attn_implementation",
    "auto_map",
    "commit_hash",
    "custom_pipelines",
    "diffusers_version",
    "finetuning_task",
    "language",
    "license",
    "name",
    "name_or_path",
    "prefix",
    "tags",
    "task",
    "task_specific_params",
    "tokenizer_class",
    "transformers_version",
    "trust_remote_code",
}
"""Keys that do not say which function a network computes, with or without ``_`` before them."""

ELSEWHERE = {
    "backbone",
    "backbone_config",
    "backbone_kwargs",
    "use_pretrained_backbone",
    "use_timm_backbone",
}
"""Keys that lead to weights or code of others, whatever their value."""


DEQUANTISE = (
    "dequantise the weights and save them as float32 "
    "(transformers: model.dequantize().save_pretrained(FOLDER)), or take the original ones"
)


def known_keys(described: object) -> Json:
    """A configuration without the keys that are not handed on.

    Raises:
        ValueError: it leads to weights or code outside its folder, or is no object.
        UnreadableInput: of quantised weights.
    """
    if not isinstance(described, dict):
        raise ValueError("it holds no object")
    kept: Json = {}
    for key, value in described.items():
        if key in LABELS:
            kept[key] = value
        elif key.lstrip("_") not in DROPPED:
            if value and key == "quantization_config":
                kind = value
                if isinstance(value, dict):
                    kind = value.get("quant_method")
                raise UnreadableInput(f"its weights are quantised ({kind})", hint=DEQUANTISE)
            if value and key in ELSEWHERE:
                raise ValueError(f"{key} leads to weights or code outside this folder")
            kept[key] = _known(key, value)
    return kept


def _known(key: str, value: object) -> object:
    if isinstance(value, str) and key not in TEXT:
        raise ValueError(f"{key} is a name, {value!r}, which may lead outside this folder")
    if isinstance(value, list):
        return [_known(key, member) for member in value]
    if isinstance(value, dict):
        return known_keys(value)
    return value


def check_alone(described: Json) -> None:
    """Check that a configuration's own defaults name no other network either.

    Raises:
        ValueError: they do.
    """
    if described.get("backbone") or described.get("backbone_config"):
        raise ValueError("its backbone is a network with weights of its own")
    for value in described.values():
        if isinstance(value, dict):
            check_alone(value)
