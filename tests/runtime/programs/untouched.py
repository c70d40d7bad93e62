"""Looks at torch from many sides and prints what it sees: the same with outplace as without."""
# ruff: noqa

import copy, ctypes, io, pickle, sys, warnings
import torch, torch.nn as nn, torch.nn.functional as F
import torch._dynamo as dynamo
from torch._dynamo.testing import CompileCounter

torch.manual_seed(0)


def report(name, f):
    try:
        print(name, f())
    except Exception as e:
        print(name, "raised", type(e).__name__, str(e).splitlines()[:1])


# -- torch.compile
def counted(f, *args):
    dynamo.reset()
    counter = CompileCounter()
    g = torch.compile(f, backend=counter)
    out = [g(*args) for _ in range(2)]
    out = out[-1]
    return counter.frame_count, counter.op_count, out.sum().item() if isinstance(out, torch.Tensor) else out


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        h = self.relu(self.a(x)) * 2
        h = h.add_(1)
        for i in range(3):
            h = h * 2
        return self.helper(h)

    def helper(self, h):
        if h.shape[0] > 100:
            return h
        return h.sum()


def inplace(x):
    y = x + 1
    y.add_(2)
    y[0] = 3
    y += 1
    F.relu(y, inplace=True)
    torch.relu_(y)
    y.mul_(2).sub_(1)
    return y


def breaks(x):
    y = x * 2
    print("break", end=" ")
    y = y + 1
    torch._dynamo.graph_break()
    z = [y * i for i in range(3)]
    return sum(z)


def closure(x):
    k = 3

    def inner(a):
        nonlocal k
        k += 1
        return a * k

    f = lambda v: inner(v) + 1
    return f(x) + f(x)


def gen(x):
    def produce():
        for i in range(3):
            yield x * i

    return sum(p for p in produce())


def data_dependent(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def handled(x):
    try:
        y = x + 1
    except RuntimeError:
        y = x
    while y.dim() < 3:
        y = y.unsqueeze(0)
    with torch.no_grad():
        z = y * 2
    return z


def loops(x, items=(1, 2, 3)):
    out = []
    for i, item in enumerate(items):
        if item == 2:
            continue
        out.append(x * item)
    d = {k: v for k, v in zip("ab", out)}
    return torch.stack(list(d.values())).sum()


def out_arg(x):
    b = torch.empty_like(x)
    torch.add(x, x, out=b)
    return b


def leafy(x):
    w = torch.ones(4, requires_grad=True)
    return (w * x).sum()


x = torch.randn(4, 4)
for f in (Net(), inplace, breaks, closure, gen, data_dependent, handled, loops, out_arg, leafy):
    report(getattr(f, "__name__", "Net"), lambda: counted(f, x))


def fullgraph():
    dynamo.reset()
    return torch.compile(inplace, backend="aot_eager", fullgraph=True)(x).sum().item()


report("aot", fullgraph)


def aot_train():
    dynamo.reset()
    net = Net()
    c = torch.compile(net, backend="aot_eager")
    c(x).backward()
    return net.a.weight.grad.norm().item()


report("aot_train", aot_train)


def explain():
    dynamo.reset()
    e = dynamo.explain(breaks)(x)
    return e.graph_count, e.graph_break_count, e.op_count


report("explain", explain)

# -- jit
report("script", lambda: torch.jit.script(inplace).code)
report("script-net", lambda: torch.jit.script(Net()).code)
report("trace", lambda: torch.jit.trace(inplace, x)(x).sum())


def typed(x: torch.Tensor, n: int) -> torch.Tensor:
    for i in range(n):
        x.add_(i)
        x[0] = i
        x += 1
        torch.nn.functional.relu_(x)
        torch.sqrt_(x)
        F.dropout(x, 0.0, True, inplace=True)
        torch.nn.init.zeros_(x) if n > 100 else x
    return x


report("typed", lambda: torch.jit.script(typed).graph)

# -- fx
report("fx", lambda: torch.fx.symbolic_trace(Net()).code)
report("fx2", lambda: torch.fx.symbolic_trace(closure).code)
from torch.fx.experimental.proxy_tensor import make_fx

report("make_fx", lambda: make_fx(inplace)(x).code)
report("export", lambda: torch.export.export(Net(), (x,)).graph)

# -- modes
from torch.overrides import TorchFunctionMode, BaseTorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Log(TorchFunctionMode):
    def __init__(self):
        self.seen = []
        super().__init__()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(torch.overrides.resolve_name(func) or getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class DLog(TorchDispatchMode):
    def __init__(self):
        self.seen = []
        super().__init__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def work():
    w = torch.ones(4, requires_grad=True)
    y = inplace(x)
    v = y[0]
    v.mul_(2)
    y.data.add_(1)
    out_arg(x)
    y.copy_(x)
    y.zero_()
    y.normal_()
    y[:, 1] += 1
    h = F.dropout(y, 0.5, True, inplace=True)
    nn.init.normal_(torch.empty(3))
    opt = torch.optim.SGD([w], 0.1, momentum=0.9)
    (w * 2).sum().backward()
    opt.step()
    opt = torch.optim.Adam([w], 0.1, foreach=True)
    opt.step()
    opt.zero_grad()
    torch._foreach_add_([w.detach()], 1)
    F.embedding(torch.tensor([1]), torch.ones(3, 4), max_norm=1.0)
    e = torch.exp(y)
    torch.add(e, 1, out=e)
    nn.utils.clip_grad_norm_([w], 1.0)
    return y


with Log() as log:
    work()
print("functions", len(log.seen), log.seen)
with DLog() as log:
    work()
print("dispatch", len(log.seen), log.seen)


# -- subclasses
class Sub(torch.Tensor):
    seen = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


s = torch.ones(3).as_subclass(Sub)
s.add_(1)
s[0] = 2
s += 1
torch.relu_(s)
F.relu(s, inplace=True)
s.data.mul_(2)
t = s * 2
torch.add(s, 1, out=t)
print("subclass", Sub.seen, type(s + 1))


class Duck:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "duck", torch.overrides.resolve_name(func)


print(torch.relu_(Duck()), torch.add(Duck(), 1), F.relu(Duck(), inplace=True))


class Own(torch.Tensor):
    def add_(self, other):
        return "own add_"

    def __setitem__(self, i, v):
        print("own setitem", i)


o = torch.ones(3).as_subclass(Own)
print(o.add_(1))
o[0] = 3
print(super(Own, o).add_(1))

# -- func
from torch.func import vmap, grad, jacrev, functional_call

report("vmap", lambda: vmap(lambda a: (a + 1).mul_(2).add_(a))(x))
report("grad", lambda: grad(lambda a: (a * 2).add_(1).sum())(x))
report("jac", lambda: jacrev(lambda a: inplace(a))(x).shape)
report("vmap-fail", lambda: vmap(lambda a: torch.zeros(4).add_(a))(x))
from torch._subclasses import FakeTensorMode


def fake():
    with FakeTensorMode() as m:
        y = inplace(torch.empty(4, 4))
        y[0].add_(1)
        y.zero_()
        return y


report("fake", fake)
report("meta", lambda: inplace(torch.empty(4, 4, device="meta")))
report("functionalize", lambda: torch.func.functionalize(inplace)(x).sum())

# -- copies
net = Net()
buf = io.BytesIO()
torch.save(net.state_dict(), buf)
buf.seek(0)
print(sorted(torch.load(buf)), pickle.loads(pickle.dumps(x)).equal(x), copy.deepcopy(net).a.weight.equal(net.a.weight))
print(pickle.loads(pickle.dumps(copy.deepcopy(x))).equal(x), copy.copy(x).equal(x))
import torch.nn.utils.parametrize as P


class Sym(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)


P.register_parametrization(net.a, "weight", Sym())
print(net.a.weight.equal(net.a.weight.T))
print(
    pickle.loads(pickle.dumps(torch.Tensor.add_)) is torch.Tensor.add_,
    pickle.loads(pickle.dumps(torch.relu_)) is torch.relu_,
)

# -- identity
print(torch.Tensor.add_ is torch._C.TensorBase.add_, torch.Tensor.__iadd__ is torch._C.TensorBase.__iadd__)
check = ctypes.pythonapi.PySequence_Check
check.argtypes = [ctypes.py_object]
check.restype = ctypes.c_int
mcheck = ctypes.pythonapi.PyMapping_Check
mcheck.argtypes = [ctypes.py_object]
mcheck.restype = ctypes.c_int
print(
    check(x),
    mcheck(x),
    check(nn.Parameter(x)),
    torch.tensor([torch.tensor(0)]),
    torch.tensor([torch.tensor(0), torch.tensor(1)]),
)
print(
    torch.Tensor.__setitem__.__name__,
    callable(torch.Tensor.__setitem__),
    torch.relu_.__name__,
    torch.relu_.__doc__ is not None,
)
print(
    len(torch.overrides.get_overridable_functions()[torch.Tensor]),
    len(torch.overrides.get_testing_overrides()),
    len(torch.overrides.get_ignored_functions()),
)
print(
    torch.overrides.is_tensor_method_or_property(torch.Tensor.add_),
    torch.overrides.resolve_name(torch.relu_),
    torch.overrides.resolve_name(torch.Tensor.__setitem__),
)
print(len(dir(torch.Tensor)), len(vars(torch)), sorted(vars(torch.Tensor)) == sorted(set(vars(torch.Tensor))))
import inspect

report("sig", lambda: inspect.signature(torch.Tensor.backward))
print(hasattr(x, "add_"), getattr(x, "add_").__name__, x.add_.__self__ is x, x.add_ == x.add_)
add = x.clone().add_
print(add(1).equal(x + 1), callable(add), add.__name__, add.__doc__ == torch.Tensor.add_.__doc__)
print(pickle.loads(pickle.dumps(x.add_)).__name__, list(map(torch.zeros(1).add_, [1, 2])))
print(x._version, hasattr(torch.Tensor, "mul_"), x._version)
from torch.utils.checkpoint import checkpoint

w = torch.ones(3, requires_grad=True)
checkpoint(lambda a: (a * 2).exp(), w, use_reentrant=False).sum().backward()
print(w.grad)
print(torch.is_anomaly_enabled(), torch.is_grad_enabled())
with torch.autograd.graph.saved_tensors_hooks(lambda t: (print("pack", tuple(t.shape)), t)[1], lambda t: t):
    (w * w).sum().backward()
