"""Names as people type them: in another case, or as the screen spells them."""

from __future__ import annotations

from collections.abc import Collection

_ON_SCREEN = {"λ": "lam", "Γ": "gamma", "accuracy": "acc", "‖g_L‖": "g_L", "‖h_L‖": "h_L"}


def meant(typed: str, known: Collection[str]) -> str | None:
    """The name that was meant, or None.

    >>> meant("λ", ["lam", "d"]), meant("GROWTH", ["growth"]), meant("growht", ["growth"])
    ('lam', 'growth', None)
    """
    if typed in known:
        return typed
    sought = _ON_SCREEN.get(typed, typed).lower()
    folded = [name for name in known if name.lower() == sought]
    return folded[0] if len(folded) == 1 else None
