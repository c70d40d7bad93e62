"""Functions that are loaded get marks while they are watched: each case is a function of this program.

A comment at the end of a line is the name of the node that the line makes. The lines that outplace knows are compared
with the lines of these comments.
"""

import builtins
import contextlib
import dataclasses
import functools
import gc
import importlib.util
import inspect
import pickle
import re
import sys
import tempfile
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

import outplace
from outplace.runtime.locate import writers
from outplace.runtime.locate.node_expressions import made_at
from outplace.runtime.patches import anomaly_tags, loaded_code
from outplace.runtime.program import lifecycle

SOURCE = Path(__file__).read_text().splitlines()
X = torch.ones(3, requires_grad=True)


def line_of(name):
    (line,) = [number for number, text in enumerate(SOURCE, 1) if re.search(rf"# {name}$", text)]
    return line


def made(tensor):
    """The line that made this tensor, as outplace knows it."""
    site = made_at(writers.place_of(tensor.grad_fn), tensor.grad_fn.name())
    return None if site is None else site.line


def check(**tensors):
    lines = {name: made(tensor) for name, tensor in tensors.items()}
    assert lines == {name: line_of(name) for name in tensors}, lines


def with_marks():
    """Is there no tag on what is made here?"""
    assert loaded_code.unmarked is not None, loaded_code.why_tags
    assert not torch.is_anomaly_enabled() or sys.version_info < (3, 11)  # there, each frame might catch an error


def only_tags():
    assert loaded_code.unmarked is None
    assert torch.is_anomaly_enabled()


def double(x):
    with_marks()
    return x * 2  # in_function


class Net(torch.nn.Module):
    def forward(self, x):
        with_marks()
        y = double(x)
        return y, y.exp()  # in_method


def case_functions_and_methods():
    net = Net()
    with outplace.watch():
        assert torch.is_anomaly_enabled()  # this frame has no marks
        before = X.sin()  # before
        first, second = net(X)
        assert torch.is_anomaly_enabled()
        after = X.cos()  # after
        check(before=before, in_function=first, in_method=second, after=after)


def make_counter(start):
    count = start

    def counter(x):
        nonlocal count
        count += 1
        return x * count  # in_closure

    return counter


COUNTER = make_counter(1)


def case_closures():
    with outplace.watch():
        y = COUNTER(X)
        check(in_closure=y)
        assert y.tolist() == [2, 2, 2]
    assert COUNTER(X).tolist() == [3, 3, 3]


def case_functions_that_a_running_frame_makes():
    with outplace.watch():
        power = 3

        def inner(x):
            with_marks()
            return x**power  # in_inner

        outer = lambda x: (with_marks(), inner(x), x.tanh())[1:]  # noqa: E731  # in_lambda
        first, second = outer(X)
        listed = [x.exp() for x in (X,)]  # in_list
        check(in_inner=first, in_lambda=second, in_list=listed[0])
    assert [
        item.co_name for item in case_functions_that_a_running_frame_makes.__code__.co_consts if inspect.iscode(item)
    ]


def batches():
    yield X.sin()  # first_batch
    yield X.cos()  # second_batch


def take(batch):
    assert loaded_code.unmarked is not None, loaded_code.why_tags
    return batch * 3  # taken


def case_a_generator_in_a_loop():
    watch = None
    for batch in batches():
        if watch is not None:
            check(second_batch=batch)
            break
        watch = outplace.watch()
        watch.__enter__()
        check(taken=take(X))
    watch.__exit__(None, None, None)


def pull(generator):
    only_tags()
    return next(generator)


def case_a_generator_with_a_name():
    generator = batches()
    next(generator)
    with outplace.watch():
        check(second_batch=pull(generator))


@contextlib.contextmanager
def managed():
    yield
    assert made(X.log()) is not None


def case_a_generator_behind_a_with():
    with managed(), outplace.watch():
        check(in_function=double(X))


def recurse(depth, x):
    if depth == 0:
        return x.tanh()  # innermost
    if depth == 2:
        with outplace.watch():
            innermost = recurse(0, x)
            check(innermost=innermost)
            around = recurse(1, x)
            check(around=around)
            return around
    below = recurse(depth - 1, x)
    return below * 5  # around


def case_recursion():
    recurse(3, X)


def decorated(function):
    @functools.wraps(function)
    def wrapper(x):
        return function(x) + 1  # in_wrapper

    return wrapper


@decorated
def wrapped(x):
    return x.sigmoid()  # in_wrapped


def case_decorators():
    with outplace.watch():
        y = wrapped(X)
        (inner, _), *_ = y.grad_fn.next_functions
        check(in_wrapper=y)
        assert made_at(writers.place_of(inner), inner.name()).line == line_of("in_wrapped")


LAMBDA = lambda x: x.relu()  # noqa: E731  # in_global_lambda
PARTIAL = functools.partial(torch.sub, other=1)


class Kinds:
    @staticmethod
    def static(x):
        return x.neg()  # in_static

    @classmethod
    def of_class(cls, x):
        return x.abs()  # in_class

    @property
    def value(self):
        return X.sqrt()  # in_property

    part = functools.partialmethod(lambda self, n, x: x + n, 4)  # in_part


@dataclasses.dataclass
class Data:
    factor: float = 2.0

    def scale(self, x):
        return x * self.factor  # in_dataclass


def case_other_kinds():
    with outplace.watch():
        check(in_global_lambda=LAMBDA(X), in_static=Kinds.static(X), in_class=Kinds.of_class(X))
        check(in_property=Kinds().value, in_dataclass=Data().scale(X), in_part=Kinds().part(X))
        of_partial = PARTIAL(X)  # of_partial
        check(of_partial=of_partial)


def case_functions_made_by_exec():
    names = {}
    exec("def made_by_exec(x):\n    return x * 7\n", names)
    with outplace.watch():
        check(in_function=double(X))
        y = names["made_by_exec"](X)  # calls_exec
        check(calls_exec=y)


def module_from(folder, text):
    path = Path(folder, "changing.py")
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("changing", path)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    return module, path


def case_a_file_that_has_changed():
    text = "def change(x):\n    y = x + 1\n    return y * 2\n"
    with tempfile.TemporaryDirectory() as folder:
        module, path = module_from(folder, text)
        own = module.change.__code__
        path.write_text("# one line more\n" + text)
        with outplace.watch():
            only_tags()
            assert module.change.__code__ is own
            assert made(module.change(X)) == 3
        path.write_text(text)
        with outplace.watch():
            assert module.change.__code__ is not own
            assert made(module.change(X)) == 3
        assert module.change.__code__ is own


def case_nested_watches():
    own = double.__code__
    with outplace.watch():
        marked = double.__code__
        assert marked is not own
        with outplace.watch():
            assert double.__code__ is marked
            check(taken=take(X))
        assert double.__code__ is marked
        after = X.cosh()  # after_inner
        check(after_inner=after)
    assert double.__code__ is own


def case_watches_that_end_in_another_order():
    one, other = outplace.watch(), outplace.watch()
    with one:
        other.__enter__()
    y = X.sinh()  # after_first
    check(after_first=y)
    other.__exit__(None, None, None)


def fail(x):
    raise ValueError(f"no {x}")


def case_an_exception_leaves_the_watch():
    own = fail.__code__
    try:
        with outplace.watch():
            double(X)
            fail(X)
    except ValueError as error:
        frames = traceback.extract_tb(error.__traceback__)
        assert [frame.name for frame in frames] == ["case_an_exception_leaves_the_watch", "fail"]
        assert frames[-1].line == 'raise ValueError(f"no {x}")'
        assert sys.version_info < (3, 11) or (frames[-1].colno, frames[-1].end_colno) == (4, 31)
    else:
        raise AssertionError("it has not left")
    assert fail.__code__ is own and not torch.is_anomaly_enabled()


def case_an_exception_that_the_running_frame_catches():
    with outplace.watch():
        with contextlib.suppress(ValueError):
            fail(X)
        y = X.tan()  # after_suppressed
        try:
            fail(X)
        except ValueError:
            z = X.erf()  # in_handler
        check(after_suppressed=y, in_handler=z)


@contextlib.contextmanager
def swallowing():
    with contextlib.suppress(ValueError):
        yield


@contextlib.contextmanager
def cleaning():
    try:
        yield
    finally:
        torch.is_grad_enabled()


def case_blocks_that_suppress_nothing():
    with outplace.watch():
        with torch.enable_grad(), torch.autocast("cpu", enabled=False), cleaning():
            double(X)
        try:
            double(X)
        finally:
            y = X.asinh()  # at_last
        check(at_last=y)


def case_a_manager_that_suppresses():
    with outplace.watch():
        with swallowing():
            fail(X)
        y = X.log1p()  # after_swallowed
        manager = contextlib.suppress(ValueError)
        with manager:
            fail(X)
        z = X.rsqrt()  # after_named
        check(after_swallowed=y, after_named=z)


@outplace.watch
def step():
    with_marks()
    return made(X.atan()) == line_of("in_step")  # in_step


def case_the_decorator():
    for _ in range(3):
        assert step()
        assert not torch.is_anomaly_enabled()


def case_what_python_sees():
    plain = [list(double.__code__.co_lines()), inspect.getsource(double), pickle.dumps(double), double.__code__]
    with outplace.watch():
        marked = double.__code__
        assert marked.co_firstlineno == plain[3].co_firstlineno and marked.co_name == plain[3].co_name
        assert {line for *_, line in marked.co_lines()} == {line for *_, line in plain[3].co_lines()}
        assert inspect.getsource(double) == plain[1] and pickle.dumps(double) == plain[2]
        assert pickle.loads(plain[2]) is double
    assert double.__code__ is plain[3]


def case_anomaly_mode_of_the_program():
    def look(x):
        assert torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled()
        return x.expm1()  # looked

    with outplace.watch():
        with torch.autograd.detect_anomaly():
            check(looked=look(X))
        check(in_function=double(X))
    assert not torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled()


def wait(begun, end):
    begun.set()
    end.wait()


def build(results, ready=None, proceed=None):
    y = X * 3  # in_thread
    z = Cube.apply(y)  # function_in_thread
    results.append((y, z))
    if ready is not None:
        ready.set()
        proceed.wait()
    results.append(double(z))
    results.append(torch.is_anomaly_enabled())


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def check_built(results):
    (y, z), doubled, tagged = results
    check(in_thread=y, function_in_thread=z, in_function=doubled)
    assert anomaly_tags.tag_of(doubled.grad_fn) is None  # the first nodes may still have tags
    assert not tagged


def case_threads_that_build():
    for _ in range(3):
        with outplace.watch():
            before = X.sigmoid()  # before_thread
            results = []
            thread = threading.Thread(target=build, args=(results,))
            thread.start()
            thread.join()
            after = X.log2()  # after_thread
            check_built(results)
            check(before_thread=before, after_thread=after, in_function=double(X))


def case_a_thread_that_builds_beside():
    with outplace.watch():
        ready, proceed, results = threading.Event(), threading.Event(), []
        thread = threading.Thread(target=build, args=(results, ready, proceed))
        thread.start()
        ready.wait()
        beside = X.log10()  # beside_thread
        proceed.set()
        thread.join()
        check(in_thread=results[0][0], function_in_thread=results[0][1], in_function=results[1])
        assert made(beside) in (None, line_of("beside_thread"))
        check(in_function=double(X), taken=take(X))


def case_threads_in_a_pool():
    with outplace.watch(), ThreadPoolExecutor(2) as pool:
        made_in_pool = list(pool.map(take, [X] * 20))
        assert {made(y) for y in made_in_pool} == {line_of("taken")}


def case_another_thread_that_runs():
    begun, end = threading.Event(), threading.Event()
    thread = threading.Thread(target=wait, args=(begun, end), daemon=True)
    thread.start()
    begun.wait()
    with outplace.watch():
        only_tags()
    end.set()
    thread.join()


def case_a_everything_is_put_back():
    names = {name: value for name, value in globals().items() if inspect.isfunction(value)}
    methods = [value for kind in (Net, Kinds, Data) for value in vars(kind).values() if inspect.isfunction(value)]
    functions = [*names.values(), *methods, COUNTER, wrapped.__wrapped__, Kinds.value.fget]
    functions = [function for function in functions if function.__code__.co_filename == __file__]
    assert len(functions) > 40, len(functions)
    before = [id(function.__code__) for function in functions]
    constants = (
        [id(function.__code__.co_consts) for function in functions],
        [*map(hash, (f.__code__ for f in functions))],
    )
    with outplace.watch():
        during = [id(function.__code__) for function in functions]
        assert not [one for one, other in zip(before, during, strict=True) if one == other]
        double(X)
    assert [id(function.__code__) for function in functions] == before
    assert ([id(f.__code__.co_consts) for f in functions], [hash(f.__code__) for f in functions]) == constants
    left = [name for name in vars(builtins) if "outplace" in name]
    assert not left, left


def case_objects_hidden_from_the_collector():
    gc.freeze()
    try:
        with outplace.watch():
            only_tags()
    finally:
        gc.unfreeze()
    with outplace.watch():
        double(X)
        assert loaded_code.unmarked is not None, loaded_code.why_tags


def compiled(x):
    return double_again(x).sin()


def double_again(x):
    return x * 2


def counted():
    return {key: dict(value) for key, value in torch._dynamo.utils.counters.items()}


def case_zz_dynamo():
    """The last one: from here on the program compiles."""
    import torch._dynamo

    own = compiled.__code__
    with outplace.watch():
        assert compiled.__code__ is not own
        fast = torch.compile(compiled, backend="eager")
        assert compiled.__code__ is own  # Dynamo sees the functions as they are
        only = fast(X)
        assert torch.equal(only, (X * 2).sin())
    first = counted()
    fast(X)
    with outplace.watch():
        assert compiled.__code__ is own and double_again.__code__ is not None
        fast(X)
        check(in_last=last(X))
    fast(X)
    assert counted() == first and first["stats"]["unique_graphs"] == 1 and not first.get("graph_break"), counted()


def last(x):
    return x.exp2()  # in_last


def main():
    for name, case in sorted(globals().items()):
        if name.startswith("case_"):
            loaded_code.look_at_all()
            try:
                case()
            except Exception:
                print(f"{name}\n{traceback.format_exc()}", file=sys.stderr)
                lifecycle.detach()
                print(name, "failed")
            else:
                print(name, "passed")


if __name__ == "__main__":
    main()
