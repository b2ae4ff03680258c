"""On the path of a node that is not to see a folder: as if that lay on another node's own disk."""

import os

_exists = os.path.exists


def _blind(path):  # type: ignore[no-untyped-def]
    return not str(path).startswith(os.environ["HIDDEN_FOLDER"]) and _exists(path)


if "HIDDEN_FOLDER" in os.environ:
    os.path.exists = _blind
