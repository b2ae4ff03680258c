"""Files that take longer than a moment: each is written by a process of its own, whole or not at
all.

The process writes into a hidden folder beside the file. Only when it has finished are its files
moved into place, and never over a file that is there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from fa_core.errors import FaError, UsageError
from fa_core.files.children import start_python
from fa_core.files.opening import real_path
from fa_tui.jobs.listing import Listed, Pace

WRITING = "writing"
"""What the ids of these jobs begin with, and what they do."""

Order = Callable[[Path], bytes]
"""The path to write to → the order to the process, on its stdin."""


class Writing(threading.Thread):
    """One file, or several that belong together, written by a process.

    The process gets the order on stdin. It answers with lines on stdout: ``3 12`` after 3 of 12
    steps, or ``! TEXT`` for what went wrong.

    Args:
        number: of the job.
        module: of the process.
        path: the file.
        order: makes the order, in this thread.
        note: what is said behind the file's name when it is saved.
        moved: called in this thread when the job changed.
        saved: called in this thread with the saved files and the note.

    Attributes:
        id: unique in its explorer.
        state: ``running``, ``done``, ``failed`` or ``cancelled``.
        error: why it failed.
    """

    def __init__(
        self,
        number: int,
        module: str,
        path: Path,
        order: Order,
        *,
        note: str,
        moved: Callable[[object], None],
        saved: Callable[[Sequence[Path], str], None],
    ) -> None:
        super().__init__(name=f"{WRITING} {path.name}", daemon=True)
        self.id = f"{WRITING} {number}"
        self.state, self.error = "running", ""
        self._path, self._note = path, note
        self._module, self._order = module, order
        self._moved, self._saved = moved, saved
        self._stage = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
        self._process: subprocess.Popen[bytes] | None = None
        self._pace = Pace()
        self._pace.turn(running=True)
        self._done = self._total = 0

    def cancel(self) -> bool:
        """Stop it; False if it is over."""
        if self.state != "running":
            return False
        self.state = "cancelled"
        self._kill()
        return True

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def listed(self) -> Listed:
        """The job as the jobs screen shows it."""
        running = self.state == "running"
        words = self.error or self.state
        if self.state == "done":
            words = f"saved in {self._path.parent}"
        pid = 0
        if self._process is not None and running:
            pid = self._process.pid
        listed = Listed(
            id=self.id,
            name=self._path.name,
            state=self.state,
            doing=WRITING,
            done=self._done,
            total=self._total,
            pid=pid,
            words="" if running else words,
            error=self.error,
        )
        return self._pace.timed(listed)

    def run(self) -> None:
        try:
            self._stage.mkdir()
            self._write(self._order(self._stage / self._path.name))
            if self.state == "running":
                files = self._move_into_place()
                self.state = "done"
                self._saved(files, self._note)
        except (FaError, OSError) as error:
            if self.state == "running":
                self.state, self.error = "failed", str(error)
        finally:
            shutil.rmtree(self._stage, ignore_errors=True)
        self._pace.turn(running=False)
        self._moved(self)

    def _write(self, order: bytes) -> None:
        """Run the process; its answer is read line by line.

        Raises:
            FaError: what went wrong, as it says.
        """
        self._process = process = start_python(
            self._module,
            folder=self._stage,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            own_session=True,
        )
        if self.state != "running":
            # cancelled while it started
            self._kill()
        assert process.stdin is not None and process.stdout is not None
        self._moved(self)
        with suppress(OSError):
            process.stdin.write(order)
            process.stdin.close()
        wrong = ""
        for line in process.stdout:
            text = line.decode(errors="replace").strip()
            if text.startswith("! "):
                wrong = text[2:]
            else:
                self._done, self._total = map(int, text.split())
                self._pace.note(self._done)
                self._moved(self)
        code = process.wait()
        if wrong or code:
            raise FaError(wrong or f"the process that writes it ended with code {code}")

    def _move_into_place(self) -> list[Path]:
        """Move what was written to where it belongs, the file itself last; all of it or nothing.

        Raises:
            UsageError: some file is there already.
        """
        written = sorted(self._stage.iterdir(), key=lambda file: file.name == self._path.name)
        moved: list[Path] = []
        try:
            for file in written:
                place = self._path.with_name(file.name)
                _put(file, place)
                moved.append(place)
        except OSError as error:
            for done in moved:
                done.unlink()
            if isinstance(error, FileExistsError):
                raise UsageError(f"{place} is there already: choose another name") from error
            raise
        return moved[::-1]


def _put(file: Path, place: Path) -> None:
    """Move a file to where none is.

    Raises:
        FileExistsError: there is one.
    """
    try:
        os.link(file, place)
    except FileExistsError:
        raise
    except OSError:
        # a file system without links
        if os.path.lexists(place):
            raise FileExistsError(place) from None
        file.rename(place)


def saved_text(files: Sequence[Path], note: str, host: str = "") -> str:
    """What is said of saved files, the first by its name.

    Args:
        files: them.
        note: what else is to be said.
        host: the machine they are on, if that is another one than the user's.
    """
    text = f"saved {host}{real_path(files[0])}"
    if len(files) > 1:
        text += f" and {len(files) - 1} more"
    if note:
        text += f": {note}"
    return text


class Writings:
    """All files that one explorer writes in this way.

    Args:
        moved: called from another thread when a job changed.
        saved: called from another thread with what is said of a saved file.
        host: see `saved_text`.
    """

    def __init__(
        self, moved: Callable[[object], None], saved: Callable[[str], None], host: str = ""
    ) -> None:
        self._moved, self._saved, self._host = moved, saved, host
        self._all: list[Writing] = []

    def start(self, module: str, path: Path, order: Order, note: str = "") -> None:
        """Begin to write a file (`Writing`)."""
        one = Writing(
            len(self._all) + 1,
            module,
            path,
            order,
            note=note,
            moved=self._moved,
            saved=self._tell,
        )
        self._all.append(one)
        one.start()

    def _tell(self, files: Sequence[Path], note: str) -> None:
        self._saved(saved_text(files, note, self._host))

    def listed(self) -> list[Listed]:
        """All of them as jobs."""
        return [one.listed() for one in self._all]

    def cancel(self, job_id: str) -> bool:
        """Cancel one; False if it is over."""
        return any(one.cancel() for one in self._all if one.id == job_id)

    def close(self) -> None:
        """Cancel all that run, and wait until nothing is left of them."""
        for one in self._all:
            one.cancel()
        for one in self._all:
            one.join(timeout=2)
