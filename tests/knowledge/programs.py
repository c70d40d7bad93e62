"""Small programs that raise the catalogue's errors, each with the entry that must recognise it.

A program is run after `PRELUDE`, whose imports and small helpers keep it short.
"""

from __future__ import annotations

from dataclasses import dataclass

PRELUDE = """
import weakref
import torch
import torch.autograd.forward_ad as fwAD
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

def leaf(*shape): return torch.zeros(*shape or (3,), requires_grad=True)
def grown(*shape): return leaf(*shape) * 1
def dual(): return fwAD.make_dual(torch.ones(3), torch.ones(3))
def inferred():
    with torch.inference_mode(): return torch.zeros(3)
def function(forward, backward=lambda ctx, *g: g[0], **more):
    names = dict(forward=forward, backward=backward, **more)
    return type("Fn", (torch.autograd.Function,), {k: staticmethod(v) for k, v in names.items()})
"""


@dataclass(frozen=True)
class Program:
    """`torch` is the range of releases (first, last) in which the program raises this text, where it is not all."""

    entry: str
    source: str
    warning: bool = False
    torch: tuple[tuple[int, int], tuple[int, int]] | None = None
    reason: str = ""


ALWAYS_SAME: tuple[tuple[str, str], ...] = (
    # leaves and views
    ("leaf", "w = leaf()\nw.add_(1)"),
    ("leaf", "w = leaf()\nw += 1"),
    ("leaf", "w = leaf()\nw[w < 1] = 5."),
    ("leaf", "w = leaf()\nw[torch.tensor([0, 1])] = 5."),
    ("leaf", "w = leaf()\nF.dropout(w, inplace=True)"),
    ("leaf", "w = leaf()\ntorch._foreach_add_([w], 1)"),
    ("leaf", "def f(x):\n  x.add_(1)\n  return (x ** 2).sum()\ntorch.func.grad(f)(torch.ones(3))"),
    (
        "leaf",
        "def f(x):\n  x.add_(1)\n  return x.exp()\ncheckpoint(f, grown(), use_reentrant=True).sum().backward()",
    ),
    ("leaf-view", "w = leaf()\nw[0] = 5."),
    ("leaf-view", "w = leaf()\nw.view(-1).add_(1)"),
    ("multi-view", "a, b = grown(4, 2).chunk(2)\na.mul_(2)"),
    ("multi-view", "for row in grown(3, 2): row += 1"),
    ("multi-view", "a = grown(3, 2).unbind(0)[0]\na[0] = 1."),
    ("multi-view", "a, b, c = torch.zeros(3, 2).unbind(0)\na.mul_(leaf(2))"),
    ("multi-view-later", "y = grown(3, 2)\na, b, c = y.unbind(0)\ny.add_(1)\na * 2"),
    ("nograd-view", "y = grown(3, 2)\nwith torch.no_grad(): v = y.view(-1)\nv.add_(1)"),
    ("nograd-view", "y = grown(3, 2)\nwith torch.no_grad(): v = y.view(-1)\nv[:2].add_(1)"),
    ("nograd-view", "y = grown(3, 2)\nwith torch.inference_mode(): v = y.view(-1)\nv.add_(1)"),
    ("nograd-view-later", "y = grown(3, 2)\nwith torch.no_grad(): v = y.view(-1)\ny.add_(1)\nv * 2"),
    ("nograd-view-later", "y = grown(3, 2)\nwith torch.inference_mode(): v = y.view(-1)\ny.add_(1)\nv.grad_fn"),
    ("custom-view", "v = function(lambda ctx, x: x.view(-1)).apply(grown(3, 2))\nv.add_(1)"),
    ("custom-view", "v = function(lambda ctx, x: x).apply(grown())\nv.add_(1)"),
    ("custom-view-later", "y = grown()\nv = function(lambda ctx, x: x.view_as(x)).apply(y)\ny.add_(1)\nv * 2"),
    (
        "pack-hook",
        "with torch.autograd.graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t): grown().exp()",
    ),
    # saved tensors
    ("saved", "y = leaf().exp()\nz = y.sum()\ny.add_(1)\nz.backward()"),
    ("saved", "y = leaf() * 2\nz = (y * y).sum()\ny.add_(1)\nz.backward()"),
    ("saved", "mask = torch.ones(3)\nz = (leaf() * mask).sum()\nmask.zero_()\nz.backward()"),
    ("saved", "y = leaf() + 1\ny /= y.norm()\ny.sum().backward()"),
    (
        "saved",
        "w = nn.Linear(3, 3)\nh = torch.zeros(4, 3)\nfor t in range(1, 4): h[t] = w(h[t - 1])\nh.sum().backward()",
    ),
    (
        "saved",
        "net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))\nopt = torch.optim.SGD(net.parameters(), .1)\n"
        "y = net(torch.ones(4, 2)).mean()\ny.backward(retain_graph=True)\nopt.step()\ny.backward()",
    ),
    (
        "saved",
        "with torch.autograd.detect_anomaly(check_nan=False):\n"
        "  y = leaf().exp()\n  z = y.sum()\n  y.add_(1)\n  z.backward()",
    ),
    (
        "saved",
        "x, p = leaf(), leaf()\nx.sum().backward()\nz = (x.grad * p).sum()\n(x * 3).sum().backward()\nz.backward()",
    ),
    (
        "saved",
        "def forward(ctx, x):\n  ctx.save_for_backward(x)\n  return x * x\n"
        "square = function(forward, lambda ctx, g: 2 * ctx.saved_tensors[0] * g)\n"
        "y = grown()\nz = square.apply(y).sum()\ny.add_(1)\nz.backward()",
    ),
    ("saved", "s = torch.eye(3).to_sparse()\nz = torch.sparse.mm(s, leaf(3, 3)).sum()\ns.mul_(2)\nz.backward()"),
    ("saved", "d = torch.ones(3)\nz = (leaf() * d).sum()\nd.resize_(4)\nz.backward()"),
    ("saved", "y = grown()\nz = checkpoint(torch.exp, y, use_reentrant=False).sum()\ny.add_(5)\nz.backward()"),
    (
        "saved",
        "x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], requires_grad=True) * 1\n"
        "z = x * x\nx.mul_(2)\ntorch.nested.to_padded_tensor(z, 0.).sum().backward()",
    ),
    ("saved-detached", "y = leaf() * 2\nz = (y * y).sum()\ny.detach_()\nz.backward()"),
    ("leaf-moved", "a = leaf()\nz = (a * 2).sum()\na.requires_grad_(False)\na.mul_(leaf())\nz.backward()"),
    ("not-in-graph", "y = leaf() * 2\nz = y.sum()\ny.add_(1)\ntorch.autograd.grad(z, y)"),
    ("no-grad-fn", "y = leaf() * 2\ny.detach_()\ny.sum().backward()"),
    (
        "second-backward",
        "rnn, h = nn.LSTM(2, 2), None\nfor _ in range(2):\n  y, h = rnn(torch.ones(3, 1, 2), h)\n  y.sum().backward()",
    ),
    ("negative-slope", "F.leaky_relu(grown(), -0.1, inplace=True).sum().backward()"),
    ("negative-slope", "F.elu(grown(), -1., inplace=True).sum().backward()"),
    ("no-derivative", "x = grown()\nx.heaviside_(torch.ones(3))\nx.sum().backward()"),
    ("no-derivative", "x = grown()\nx.floor_divide_(torch.ones(3))\nx.sum().backward()"),
    ("no-derivative", "x = grown()\nx.set_(torch.ones(3))\nx.sum().backward()"),
    ("no-derivative-argument", "x = grown()\nx.igamma_(torch.ones(3))\nx.sum().backward()"),
    ("sizes", "x = leaf()\nz = (x * x).sum()\nx.data = torch.ones(4)\nz.backward()"),
    ("sizes", "torch.ones(3).copy_(torch.ones(4))"),
    ("invalid-gradient", "w = torch.ones(2, 3)\nz = (w @ leaf()).sum()\nw.data = torch.ones(2, 4)\nz.backward()"),
    # autograd state, size, storage
    ("detach-view", "grown(3, 2)[0].detach_()"),
    ("requires-grad-nonleaf", "grown().requires_grad_(False)"),
    ("requires-grad-nonleaf", "grown().requires_grad = True"),
    ("requires-grad-integer", "torch.zeros(3, dtype=torch.long).requires_grad_()"),
    ("requires-grad-integer", "torch.zeros(3, dtype=torch.long, requires_grad=True)"),
    ("resize-grad", "leaf().resize_(4)"),
    ("resize-storage", "import numpy\ntorch.from_numpy(numpy.zeros(3)).resize_(4)"),
    ("set-data-type", "leaf().data = torch.eye(3).to_sparse()"),
    ("set-data-dtype", "leaf().data = torch.ones(3, dtype=torch.long)"),
    ("grad-size", "leaf().grad = torch.ones(4)"),
    ("grad-dtype", "leaf().grad = torch.ones(3, dtype=torch.double)"),
    ("grad-self", "x = leaf()\nx.grad = x"),
    ("grad-type", "leaf().grad = 3"),
    ("grad-device", "leaf().grad = torch.ones(3, device='meta')"),
    ("swap-weakref", "a, b = torch.ones(3), torch.ones(3)\nr = weakref.ref(a)\ntorch.utils.swap_tensors(a, b)"),
    ("numpy-of-grad", "leaf().numpy()[0] = 1"),
    ("uninitialised-parameter", "nn.LazyLinear(3).weight.zero_()"),
    ("rebound-parameter", "m = nn.Linear(3, 3)\nm.weight = m.weight + 1"),
    (
        "detach-view",
        "import torch.distributed as dist\n"
        "dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)\n"
        "try:\n"
        "  m = nn.parallel.DistributedDataParallel(nn.Linear(3, 3), gradient_as_bucket_view=True)\n"
        "  m(torch.ones(2, 3)).sum().backward()\n"
        "  for p in m.parameters(): p.grad.detach_()\n"
        "finally:\n"
        "  dist.destroy_process_group()",
    ),
    # out=
    ("out-grad", "torch.add(leaf(), 1, out=torch.empty(3))"),
    ("out-dtype", "torch.mm(torch.ones(2, 2), torch.ones(2, 2), out=torch.empty(2, 2, dtype=torch.float64))"),
    ("out-cat-dtype", "torch.cat([torch.ones(2)] * 2, out=torch.empty(4, dtype=torch.long))"),
    ("overlap", "x = torch.arange(4.)\ntorch.add(x[:-1], 1, out=x[1:])"),
    # the write itself
    ("expanded", "torch.zeros(1).expand(3).add_(1)"),
    ("expanded", "y = grown()\ny.register_hook(lambda g: g.mul_(2))\ny.sum().backward()"),
    ("overlap", "x = torch.arange(4.)\nx[1:] += x[:-1]"),
    ("broadcast", "x = torch.zeros(3)\nx += torch.zeros(2, 3)"),
    ("broadcast", "torch.func.vmap(lambda x: torch.zeros(3).add_(x))(torch.ones(2, 3))"),
    ("expanded-size", "x = torch.zeros(3, 4)\nx[0] = torch.zeros(3)"),
    ("index-shape", "x = torch.zeros(3, 4)\nx[torch.tensor([0, 1])] = torch.ones(3)"),
    ("result-type", "x = torch.ones(3, dtype=torch.long)\nx /= 2"),
    ("index-put-dtype", "x = torch.zeros(3)\nx[torch.tensor([0])] = torch.ones(1, dtype=torch.float64)"),
    ("scatter-dtype", "torch.zeros(3).scatter_(0, torch.tensor([0]), torch.ones(1).double())"),
    ("index-add-dtype", "torch.zeros(3).index_add_(0, torch.tensor([0]), torch.ones(1).double())"),
    ("index-copy-dtype", "torch.zeros(3).index_copy_(0, torch.tensor([0]), torch.ones(1).double())"),
    ("masked-scatter-dtype", "torch.zeros(3).masked_scatter_(torch.ones(3) > 0, torch.ones(3).double())"),
    ("matmul-dtype", "x = torch.zeros(3, 3)\nx.addmm_(torch.ones(3, 3), torch.ones(3, 3).double())"),
    ("abs-complex", "torch.ones(3, dtype=torch.complex64).abs_()"),
    ("zero-tensor", "torch._efficientzerotensor(3).add_(1)"),
    ("zero-tensor", "torch._efficientzerotensor(3)[0] = 1."),
    ("imag-of-real", "torch.zeros(3).imag = 1"),
    ("meta-copy", "torch.ones(3).copy_(torch.ones(3, device='meta'))"),
    ("sparse-transpose", "torch.eye(3).to_sparse_csr().transpose_(0, 1)"),
    ("sparse-uncoalesced", "torch.sparse_coo_tensor(torch.tensor([[0, 0]]), torch.ones(2), (3,)).asin_()"),
    ("sparse-dense-add", "torch.eye(3).to_sparse().add_(torch.ones(3, 3))"),
    ("sparse-assign", "torch.eye(3).to_sparse()[0] = 1"),
    # custom autograd.Function
    (
        "dirty-not-returned",
        "function(lambda ctx, x: (ctx.mark_dirty(x), x.add_(1).clone())[1]).apply(grown())",
    ),
    ("dirty-leaf", "function(lambda ctx, x: (ctx.mark_dirty(x), x.add_(1))[1]).apply(leaf())"),
    (
        "dirty-view",
        "def forward(ctx, x):\n  ctx.mark_dirty(x)\n  x.add_(1)\n  return x, x.clone()\n"
        "function(forward).apply(grown()[:2])",
    ),
    ("dirty-not-tensor", "function(lambda ctx, x: (ctx.mark_dirty(3), x)[1]).apply(grown())"),
    (
        "dirty-jvp",
        "fn = function(lambda ctx, x: (ctx.mark_dirty(x), x.mul_(2))[1], jvp=lambda ctx, t: t * 2)\n"
        "with fwAD.dual_level(): fn.apply(dual())",
    ),
    (
        "dirty-jvp-returned",
        "fn = function(lambda ctx, x: (ctx.mark_dirty(x), x.mul_(2))[1], jvp=lambda ctx, t: t.mul_(2).view_as(t))\n"
        "with fwAD.dual_level(): fn.apply(dual())",
    ),
    # checkpointing and the contexts around saved tensors
    (
        "recomputed-metadata",
        "buf = torch.ones(3)\nz = checkpoint(lambda x: x * buf, leaf(), use_reentrant=False).sum()\n"
        "buf.resize_(6)\nz.backward()",
    ),
    (
        "recomputed-number",
        "flag = torch.ones(())\n"
        "z = checkpoint(lambda x: x.sin().cos() if flag > 0 else x.sin(), leaf(), use_reentrant=False).sum()\n"
        "flag.zero_()\nz.backward()",
    ),
    (
        "saved-cached",
        "from torch.utils.checkpoint import create_selective_checkpoint_contexts\n"
        "contexts = lambda: create_selective_checkpoint_contexts([torch.ops.aten.mm.default])\n"
        "f = lambda x: (x @ x).add_(1).exp()\n"
        "checkpoint(f, leaf(3, 3), use_reentrant=False, context_fn=contexts).sum().backward()",
    ),
    (
        "mutation-context-left",
        "with torch.autograd.graph.allow_mutation_on_saved_tensors():\n  y = leaf().exp()\n  z = y.sum()\n  y.add_(1)\n"
        "z.backward()",
    ),
    (
        "mutation-context-nested",
        "allow = torch.autograd.graph.allow_mutation_on_saved_tensors\nwith allow(), allow(): pass",
    ),
    (
        "hooks-already-set",
        "y = leaf().exp()\nfor _ in range(2): y.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)",
    ),
    (
        "hooks-freed",
        "y = leaf().exp()\nsaved = y.grad_fn._raw_saved_result\ny.sum().backward()\n"
        "saved.register_hooks(lambda t: t, lambda t: t)",
    ),
    (
        "hooks-none",
        "F.layer_norm(leaf(), (3,)).grad_fn._raw_saved_weight.register_hooks(lambda t: t, lambda t: t)",
    ),
    # forward-mode AD and torch.func
    ("forward-out", "with fwAD.dual_level(): torch.add(dual(), 1, out=torch.empty(3))"),
    ("forward-no-derivative", "with fwAD.dual_level(): dual().igamma_(torch.ones(3))"),
    ("forward-resize", "with fwAD.dual_level(): dual().resize_(4)"),
    ("vmap-unbatched", "torch.func.vmap(lambda x: torch.zeros(3).mul_(x))(torch.ones(2, 3))"),
    ("vmap-unbatched", "torch.func.vmap(lambda x: torch.zeros(3).clamp_(max=x))(torch.ones(2, 3))"),
    (
        "vmap-unbatched",
        "def f(x):\n  r = torch.zeros(3)\n  r[torch.tensor([0])] = x[:1]\n  return r\n"
        "torch.func.vmap(f)(torch.ones(2, 3))",
    ),
    (
        "vmap-random-inplace",
        "torch.func.vmap(lambda x: x + torch.ones(3).normal_(), randomness='different')(torch.ones(2, 3))",
    ),
    ("vmap-random", "torch.func.vmap(lambda x: x + torch.ones(3).normal_())(torch.ones(2, 3))"),
    ("vmap-out", "torch.func.vmap(lambda x: torch.add(x, 1, out=torch.ones(3)))(torch.ones(2, 3))"),
    ("vmap-batch-norm", "torch.func.vmap(nn.BatchNorm1d(3))(torch.ones(2, 4, 3))"),
    ("captured", "c = torch.zeros(3)\ntorch.func.grad(lambda x: (c.add_(1), (x ** 2).sum())[1])(torch.ones(3))"),
    ("transform-data", "def f(x):\n  x.data = torch.zeros(3)\n  return x.sum()\ntorch.func.grad(f)(torch.ones(3))"),
    ("transform-requires-grad", "torch.func.grad(lambda x: x.requires_grad_().sum())(torch.ones(3))"),
    ("functionalize-captured", "c = torch.zeros(3)\ntorch.func.functionalize(lambda x: c.add_(x) * 2)(torch.ones(3))"),
    ("functionalize-overlap", "torch.func.functionalize(lambda x: x.unfold(0, 2, 1).add_(1))(torch.ones(3))"),
    # inference mode
    ("inference-write", "inferred().add_(1)"),
    ("inference-saved", "leaf() * inferred()"),
    ("inference-requires-grad", "inferred().requires_grad_()"),
    ("inference-version", "inferred()._version"),
    # custom operators
    (
        "custom-op-alias",
        "def same(x: torch.Tensor) -> torch.Tensor: return x\n"
        "torch.library.custom_op('outplace_tests::same', same, mutates_args=())(torch.ones(3))",
    ),
    (
        "custom-op-undeclared",
        "from torch._subclasses.schema_check_mode import SchemaCheckMode\n"
        "lib = torch.library.Library('outplace_tests', 'FRAGMENT')\n"
        "lib.define('undeclared(Tensor x) -> Tensor')\n"
        "lib.impl('undeclared', lambda x: x.add_(1).clone(), 'CPU')\n"
        "with SchemaCheckMode(): torch.ops.outplace_tests.undeclared(torch.ones(3))",
    ),
    (
        "custom-op-formula",
        "def twice(x: torch.Tensor) -> None: x.mul_(2)\n"
        "op = torch.library.custom_op('outplace_tests::twice', twice, mutates_args=('x',))\n"
        "op.register_autograd(lambda ctx, g: g)",
    ),
)

PROGRAMS: tuple[Program, ...] = (
    *(Program(entry, source) for entry, source in ALWAYS_SAME),
    Program(
        "leaf-view",
        "w = leaf()\nfunction(lambda ctx, x: (ctx.mark_dirty(x), x.add_(1))[1]).apply(w[:2])",
        torch=((2, 8), (2, 15)),
        reason="a custom Function may write a view of a leaf up to 2.5 at least",
    ),
    Program(
        "vmap-mask",
        "def f(x):\n  x = x.clone()\n  x[x > 0] = 0\n  return x\ntorch.func.vmap(f)(torch.ones(2, 3))",
        torch=((2, 4), (2, 14)),
        reason="2.15 accepts it",
    ),
    Program(
        "trace-live-references",
        "import warnings\nwarnings.simplefilter('ignore', DeprecationWarning)\n"
        "def f(x):\n  y = x * 1\n  v = y[0]\n  y.add_(1)\n  return y + v\n"
        "torch.jit.trace(f, torch.ones(3), _force_outplace=True)",
        warning=True,
    ),
    Program("mkldnn-inplace", "torch.eye(3).to_mkldnn().transpose_(0, 1)"),
    Program("out-resized", "torch.add(torch.ones(3), 1, out=torch.empty(2))", warning=True),
    Program("expanded-index", "torch.zeros(3).expand(3, 3)[torch.tensor([0, 1])] = 1.", warning=True),
    Program("expanded-index", "torch.zeros(3).expand(3, 3).masked_fill_(torch.ones(3, 3) > 0, 1.)", warning=True),
    Program(
        "dirty-not-input",
        "def forward(ctx, x):\n  y = x.clone()\n  ctx.mark_dirty(y)\n  return y\nfunction(forward).apply(grown())",
        warning=True,
    ),
)

COMPILED: tuple[Program, ...] = (
    Program(
        "leaf",
        "def f(w):\n  w.add_(1)\n  return w * 2\ntorch.compile(f, backend='aot_eager')(leaf())",
    ),
    Program("out-grad", "torch.compile(lambda x: torch.add(x, 1, out=torch.empty(3)), backend='aot_eager')(leaf())"),
    Program(
        "saved",
        "def f(w):\n  y = w.exp()\n  z = y.sum()\n  y.add_(1)\n  return z\n"
        "torch.compile(f, backend='aot_eager')(leaf())",
    ),
    Program(
        "compile-inplace-view",
        "def f(x):\n  x.t_()\n  return x * 2\ntorch.compile(f, backend='aot_eager', fullgraph=True)(torch.ones(3, 2))",
        torch=((2, 8), (2, 15)),
        reason="the message does not name the reason up to 2.5 at least",
    ),
    Program(
        "compile-requires-grad",
        "def f(x):\n  y = x * 2\n  y.requires_grad_()\n  return y.sum()\n"
        "torch.compile(f, backend='aot_eager', fullgraph=True)(torch.zeros(3))",
        torch=((2, 8), (2, 15)),
        reason="the message does not name the reason up to 2.5 at least",
    ),
    Program(
        "higher-order-mutation",
        "torch.cond(torch.ones(3).sum() > 0, lambda x: x.add_(1), lambda x: x - 1, (torch.ones(3),))",
        torch=((2, 12), (2, 15)),
        reason="raises nothing in eager up to 2.5, and the message of 2.8 does not name the reason",
    ),
    Program(
        "higher-order-alias",
        "torch.cond(torch.ones(3).sum() > 0, lambda x: x, lambda x: x - 1, (torch.ones(3),))",
        torch=((2, 12), (2, 15)),
        reason="raises nothing in eager up to 2.5, and the message of 2.8 does not name the reason",
    ),
    Program(
        "compile-as-strided",
        "def f(x):\n  w = x.view(-1).as_strided((2,), (1,)).view(1, 2)\n  w.add_(1)\n  return x * 2\n"
        "torch.compile(f, backend='aot_eager', fullgraph=True)(torch.ones(3, 2))",
    ),
)

COMPILED_THEN_WRITTEN: tuple[Program, ...] = (
    Program("saved", "y = torch.compile(torch.exp, backend='aot_eager')(leaf())\nz = y.sum()\ny.add_(1)\nz.backward()"),
    Program(
        "multi-view",
        "a, b, c = torch.compile(lambda y: y.unbind(0), backend='aot_eager')(grown(3, 2))\na.add_(1)",
    ),
    Program(
        "leaf",
        "class Net(nn.Module):\n"
        "  def __init__(self):\n    super().__init__()\n    self.w = nn.Parameter(torch.ones(3))\n"
        "  def forward(self, x):\n    self.w.add_(1)\n    return x * self.w\n"
        "torch.export.export(Net(), (torch.ones(3),))",
    ),
)

UNTRIGGERED: dict[str, str] = {
    "created-from-data": "in the binary of 2.13, but every size change tried on .data and .detach() is accepted",
    "dirty-single-output": "an internal check that comes after the one of `dirty-view`",
    "forward-reset": "an internal check of forward-mode AD that no Python program was found to fail",
    "meta-argument": "the CPU accepts a meta operand",
    "cudagraph-overwritten": "needs a GPU",
}
"""The entries that no program here raises, each with the reason."""
