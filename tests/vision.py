"""torchvision next to a torch that it was not built for: its operators are declared before it is imported."""

import importlib.util
import re
from pathlib import Path


class DeclaredOperators:
    """Makes ``import torchvision`` work where its compiled operators do not load, as with a CPU build of torch.

    Its Python part registers shapes of operators that its library would have declared: they are declared here,
    without an implementation. Networks that classify use none of them. torch is imported only with torchvision.
    """

    def __init__(self):
        self._kept = []
        self._looking = False

    def find_spec(self, name, path=None, target=None):
        """Declare the operators when torchvision is about to be imported; it is found by others."""
        if name != "torchvision" or self._looking:
            return
        self._looking = True
        spec = importlib.util.find_spec("torchvision")
        if spec is None or spec.origin is None:
            return
        import torch

        folder = Path(spec.origin).parent
        try:
            for compiled in folder.glob("_C*"):
                torch.ops.load_library(str(compiled))
                return  # it fits this torch, and declares them itself
        except OSError:
            pass
        text = (folder / "_meta_registrations.py").read_text()
        library = torch.library.Library("torchvision", "DEF")
        self._kept.append(library)
        for operator in dict.fromkeys(
            re.findall(r'register_(?:meta|fake)\("(?:torchvision::)?(\w+)"', text)
        ):
            library.define(f"{operator}(Tensor x) -> Tensor")
