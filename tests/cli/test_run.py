"""`outplace run` on programs with torch: where the diagnosis appears, and where nothing does."""

from __future__ import annotations

import json

from side_by_side import PYTHON, both, both_forked, finish, outplace, outplace_forked, plain, same, start, write

STEP = """
    import torch
    def step():
        w = torch.ones(3, requires_grad=True)
        h = (w * 2).exp()
        h += 1
        h.sum().backward()
"""


def found(path):
    return [
        (
            entry["kind"],
            entry["raised_at"]["line"],
            [mutation["site"]["line"] for mutation in entry["mutations"]],
            entry["saved_by"] and entry["saved_by"]["site"]["line"],
        )
        for entry in json.loads(path.read_text())["diagnoses"]
    ]


def test_the_diagnosis_comes_below_the_traceback_that_python_prints(tmp_path):
    """Also where the program only looks for torch at first, imports it late, and goes to another folder."""
    (tmp_path / "elsewhere").mkdir()
    write(
        tmp_path,
        "prog.py",
        """
        import importlib.util, os
        print(importlib.util.find_spec("torch").name)
        os.chdir("elsewhere")
        def train():
            import torch
            print(torch.__loader__.__class__, torch.__spec__.loader is torch.__loader__)
            w = torch.ones(3, requires_grad=True)
            h = (w * 2).exp()
            h += 1
            h.sum().backward()
        train()
        """,
    )
    expected = start([PYTHON, "prog.py"], tmp_path)
    actual = outplace(tmp_path, "run", "--json", "o.json", "prog.py")
    expected = finish(expected)
    assert actual.code == expected.code == 1
    assert actual.stdout == expected.stdout
    assert actual.stderr.startswith(expected.stderr)
    diagnosis = actual.stderr.removeprefix(expected.stderr)
    assert diagnosis.startswith(
        "\nOUT201 saved: h (float32[3]) was overwritten after exp kept it for backward\n\n  prog.py:8 "
    )
    assert diagnosis.count("OUT201 saved") == 1
    assert found(tmp_path / "o.json") == [("saved", 10, [9], 8)]
    assert json.loads((tmp_path / "o.json").read_text())["diagnoses"][0]["raised_at"]["file"] == "prog.py"


def test_a_program_that_catches_the_error_itself(tmp_path):
    source = (
        STEP
        + """
    import logging, os, signal, sys, contextlib
    for i in range(30):
        try:
            step()
        except RuntimeError as e:
            if i == 0:
                print(len(e.outplace_diagnoses), len(e.__notes__), e.outplace_diagnoses[0].tensor.name)
                logging.exception('it failed')
    with contextlib.suppress(RuntimeError):
        step()
    try:
        torch.ones(2, requires_grad=True).add_(1)
    except Exception as e:
        print(e.outplace_diagnoses[0].kind)
    class Odd(RuntimeError):
        def __str__(self): raise ValueError('do not ask me')
    try: raise Odd('a leaf Variable that requires grad')
    except RuntimeError: pass
    if sys.argv[1] == 'killed': os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == 'torch-gone': del sys.modules['torch']
    """
    )
    write(tmp_path, "prog.py", source)
    whole, killed = [
        outplace_forked(tmp_path, "run", "--json", f"{way}.json", "prog.py", way) for way in ("torch-gone", "killed")
    ]
    for name in ("torch-gone", "killed"):
        assert found(tmp_path / f"{name}.json") == [("saved", 6, [5], 4), ("leaf", 19, [19], None)]
    assert (whole.code, killed.code) == (0, -9)
    assert whole.stdout == b"1 1 h\nleaf\n"
    logged, at_end = whole.stderr.split("\noutplace: the program went on after these 2 in-place errors:\n")
    assert logged.startswith("ERROR:root:it failed\nTraceback")
    assert logged.count("OUT201 saved: h") == 1
    assert at_end.count("OUT201 saved: h") == at_end.count("OUT101 leaf: ") == 1
    assert "outplace/runtime" not in whole.stderr


def test_failures_in_threads_and_child_processes(tmp_path):
    write(
        tmp_path,
        "prog.py",
        """
        import concurrent.futures, multiprocessing, threading, torch, torch.multiprocessing
        from torch.utils.data import DataLoader, Dataset
        def step():
            w = torch.ones(3, requires_grad=True)
            h = (w * 2).exp()
            h += 1
            h.sum().backward()
        def in_thread():
            step()
        def leaf_in_thread():
            torch.ones(2, requires_grad=True).add_(1)
        def forked():
            w = torch.ones(3, requires_grad=True)
            w.mul_(2)
        def spawned():
            w = torch.ones(3, requires_grad=True)
            w.div_(2)
        def rank(i):
            w = torch.ones(3, requires_grad=True)
            w.sub_(2)
        class Data(Dataset):
            def __len__(self): return 2
            def __getitem__(self, i):
                if i == 1:
                    torch.zeros(2, requires_grad=True).exp_()
                return i
        if __name__ == "__main__":
            for target in (in_thread, leaf_in_thread):
                thread = threading.Thread(target=target); thread.start(); thread.join()
            for way, target in (("fork", forked), ("spawn", spawned)):
                process = multiprocessing.get_context(way).Process(target=target, name=way)
                process.start(); process.join(); print(process.exitcode, flush=True)
            try:
                for batch in DataLoader(Data(), num_workers=1): print(batch, flush=True)
            except RuntimeError as e:
                print(str(e).splitlines()[0])
            context = multiprocessing.get_context("fork")
            with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
                try: pool.submit(forked).result()
                except RuntimeError as e: print(e.outplace_diagnoses[0].code)
            torch.multiprocessing.spawn(rank, nprocs=1)
        """,
    )
    ending = outplace_forked(tmp_path, "run", "--json", "o.json", "prog.py", OMP_NUM_THREADS="1")
    assert ending.stdout.decode().splitlines() == [
        *["1", "1", "tensor([0])"],
        "Caught RuntimeError in DataLoader worker process 0.",
        "OUT101",
    ]
    assert ending.code == 1
    assert sorted(found(tmp_path / "o.json"), key=str) == [
        *[("leaf", line, [line], None) for line in (11, 14, 17, 20, 25)],
        ("saved", 7, [6], 5),
    ]
    before_end, _, at_end = ending.stderr.partition("outplace: the program went on after")
    for name in ("Exception in thread Thread-1", "Exception in thread Thread-2", "Process fork:", "Process spawn:"):
        assert name in before_end
        own = before_end.partition(name)[2]
        assert "OUT" in own[: own.find("More: outplace explain")]
    assert "-- Process 0 terminated with the following error:" in before_end
    assert "in rank\n" in before_end.partition("-- Process 0")[2].partition("OUT101 leaf: w")[2]
    assert at_end.count("OUT101 leaf") <= 1  # the pool's, which the program caught
    assert "outplace/runtime" not in ending.stderr


def test_what_torch_warns_of_names_the_line_of_the_program(tmp_path):
    write(
        tmp_path,
        "prog.py",
        """
        import torch
        x = torch.zeros(3)
        x[torch.tensor([1, 0, 1], dtype=torch.uint8)] = torch.ones(2)
        x.expand(2, 3)[torch.tensor([0, 1])] = 1.0
        class Told(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                print(func.__name__, func is torch.Tensor.__setitem__)
                return super().__torch_function__(func, types, args, kwargs or {})
        x.as_subclass(Told)[0] = 1
        x.__setitem__(0, 5.0)
        try:
            x.__setitem__(0)
        except TypeError as error:
            print(error)
        """,
    )
    expected, actual = both_forked(tmp_path, "prog.py")
    assert expected.stderr.count("UserWarning") == 2
    same(expected, actual)


def test_programs_that_do_nothing_wrong_stay_quiet(tmp_path):
    write(
        tmp_path,
        "prog.py",
        """
        import sys, threading, torch, warnings
        from torch.utils.data import DataLoader
        warnings.simplefilter('error')
        class Rows(list):
            pass
        def collate(rows): return torch.stack(rows)
        if __name__ == "__main__":
            torch.manual_seed(0)
            net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(inplace=True), torch.nn.Linear(8, 1))
            optimizer = torch.optim.Adam(net.parameters())
            rows = Rows(torch.randn(4) for _ in range(16))
            for way in ("fork", "spawn"):
                loader = DataLoader(rows, 4, num_workers=2, collate_fn=collate, multiprocessing_context=way)
                for batch in loader:
                    optimizer.zero_grad()
                    loss = net(batch).square().mean()
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                    optimizer.step()
                    print(float(loss).hex(), flush=True)
            def worker():
                w = torch.ones(3, requires_grad=True)
                (w * 2).exp().sum().backward()
                print(w.grad, flush=True)
            thread = threading.Thread(target=worker); thread.start(); thread.join()
            print([parameter.sum().item().hex() for parameter in net.parameters()])
            print(torch.Tensor.add_ is torch._C.TensorBase.add_, loss)
            sys.exit(3)
        """,
    )
    same(*both(tmp_path, "prog.py", OMP_NUM_THREADS="1"))


def test_outplace_in_the_environment_attaches_to_plain_python(tmp_path):
    write(tmp_path, "prog.py", STEP + "    step()\n")
    ending = plain(tmp_path, "prog.py", OUTPLACE="1")
    assert ending.code == 1
    head, _, note = ending.stderr.partition("\n\nOUT201 saved: h (float32[3]) was overwritten")
    assert head.splitlines()[-1].startswith("RuntimeError: one of the variables needed")
    assert "prog.py:4 in step" in note and "overwritten here: +=" in note
    assert "Error detected in" not in ending.stderr
    assert "outplace/runtime" not in ending.stderr


def test_a_runner_of_other_peoples_code(tmp_path):
    """pytest loads tests in its own way; the lines are right all the same."""
    write(
        tmp_path,
        "test_it.py",
        STEP + "    def test_step():\n        for _ in range(2): x = torch.ones(1) * 2\n        step()\n",
    )
    ending = outplace_forked(
        tmp_path, "run", "--json", "o.json", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"
    )
    assert ending.code == 1
    assert found(tmp_path / "o.json") == [("saved", 6, [5], 4)]
    assert "OUT201 saved: h" in ending.stdout.decode()
