"""Small files that ask for all memory, for hours or for a program are refused within limits (`bombs.py`)."""

import json
import os
import subprocess
import sys

import pytest

from tests.fa_core.files.bombs import bombs


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs limits on memory that hold")
def test_every_bomb_is_read_or_refused_in_one_line_within_a_gigabyte(tmp_path):
    command = [sys.executable, "-m", "tests.fa_core.files.bombs", str(tmp_path)]
    # children that are forked have no threads of their own
    single = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=600, env=single
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(list(bombs(tmp_path)))
    ended = [case for case in found if not case["outcome"].startswith(("read", "refused: "))]
    assert not ended
    # a limit that the system sets is no limit of ours
    of_system = ("memory holds", " are free")
    assert not [case for case in found if any(words in case["outcome"] for words in of_system)]
    assert not [case for case in found if "\n" in case["outcome"]]
