"""What a program prints is shown while it runs."""

from __future__ import annotations

import subprocess
import sys
import time

TEE = """
import subprocess, sys
from pathlib import Path
from outplace.repair.drive.processes import Streaming

process = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
streaming = Streaming(process.stdout, Path("kept"))
process.wait()
streaming.finish()
print("END", Path("kept").read_bytes())
"""


def test_it_comes_line_by_line_and_is_kept(tmp_path):
    program = (
        "import time; from outplace.repair.drive.processes import show_lines_at_once; show_lines_at_once()\n"
        "print('one'); time.sleep(2); print('two')"
    )
    process = subprocess.Popen([sys.executable, "-c", TEE, program], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "one\n"
    start = time.monotonic()
    assert process.stdout.readline() == "two\n"
    assert time.monotonic() - start > 1
    assert process.stdout.readline() == "END b'one\\ntwo\\n'\n"
    assert process.wait(60) == 0


def test_a_child_that_lives_on_is_not_waited_for(tmp_path):
    program = "import os, time\nprint('one', flush=True)\nif os.fork() == 0: time.sleep(20)\n"
    start = time.monotonic()
    with open(tmp_path / "out", "w") as out:  # the child would keep a pipe open
        subprocess.run([sys.executable, "-c", TEE, program], cwd=tmp_path, stdout=out, check=True, timeout=60)
    assert (tmp_path / "out").read_text().splitlines() == ["one", "END b'one\\n'"]
    assert time.monotonic() - start < 15


def test_a_reader_that_has_seen_enough_does_not_stop_the_program(tmp_path):
    program = "for n in range(100_000): print(n)\nopen('done', 'w').close()"
    command = f"{sys.executable} -c '{TEE}' \"$0\" 2>/dev/null | head -1"
    done = subprocess.run(["bash", "-c", command.replace('print("END', '#"'), program], cwd=tmp_path, timeout=60)
    assert done.returncode == 0
    assert (tmp_path / "done").exists()
