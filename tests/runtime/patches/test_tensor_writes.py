"""Which writes are the program's own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import outplace
from outplace.runtime.record import log
from outplace.runtime.record.storages import storage_of


def test_buffers_that_inductor_fills_are_no_writes_of_the_program():
    """A detector must not copy the static inputs of a CUDA graph: the copy would lie in the graph's memory pool."""
    graphs = pytest.importorskip("torch._inductor.cudagraph_trees")
    node = SimpleNamespace(non_static_input_idx=[0], input_copy_idxs=[0], expanded_dims=[[]])
    own, buffer, given = torch.zeros(3), torch.zeros(3), torch.ones(3)
    with outplace.watch():
        earlier = list(log.current().writes)
        torch._foreach_copy_([own], [given])
        graphs.CUDAGraphNode._copy_inputs_and_remove_from_src(node, [buffer], [given])
        written = {write.storage for write in log.current().writes if write not in earlier}
    assert own.tolist() == buffer.tolist() == [1, 1, 1]
    assert storage_of(own) in written
    assert storage_of(buffer) not in written


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
def test_training_with_cuda_graphs_computes_the_same():
    def train():
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4)).cuda()
        model = torch.compile(net, mode="reduce-overhead")
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        losses = []
        for _ in range(4):
            loss = model(torch.randn(8, 16, device="cuda")).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    plain = train()
    torch._dynamo.reset()
    with outplace.watch():
        assert train() == plain
