"""One of a few values: what it looks like with and without the focus."""

from __future__ import annotations

from textual.app import App, ComposeResult

from fa_tui.widgets.line import Pick


class Two(App[None]):
    def compose(self) -> ComposeResult:
        yield Pick(["", "yes", "no"], "")
        yield Pick(["none", "full"], "full")


def look_of(pick: Pick) -> tuple[str, bool]:
    """What is painted, and whether the picked value is highlighted."""
    strip = pick.render_line(0)
    focused = pick.style_of("cursor")
    return strip.text.rstrip(), any(segment.style == focused for segment in strip)


async def test_only_the_one_with_the_focus_is_highlighted_and_the_others_mark_their_value() -> None:
    app = Two()
    async with app.run_test(size=(40, 4)) as pilot:
        first, second = app.query(Pick)
        for focused, other in ((first, second), (second, first), (first, second)):
            focused.focus()
            await pilot.pause()
            assert look_of(focused)[1] and "*" not in look_of(focused)[0]
            assert not look_of(other)[1] and "*" in look_of(other)[0]
        assert look_of(second) == (" none *full", False)
