"""Each collective of torch.distributed writes memory that a backward needs."""

import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def saved(count=1):
    """Memory that a backward needs, in pieces, and the loss that goes back through it."""
    x = torch.linspace(-1, 1, 4 * count, requires_grad=True)
    y = x.exp()
    return list(y.detach().chunk(count)), (y * 3).sum()


def work(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    ones = torch.ones(4)
    both = [torch.ones(4), torch.ones(4)]

    def all_reduce(memory):
        dist.all_reduce(memory[0])

    def broadcast(memory):
        dist.broadcast(memory[0] if rank else ones, 0)

    def reduce(memory):
        dist.reduce(memory[0], 0)

    def scatter(memory):
        dist.scatter(memory[0], both if rank == 0 else None, 0)

    def gather(memory):
        dist.gather(ones, memory if rank == 0 else None, 0)

    def all_gather(memory):
        dist.all_gather(memory, ones)

    def all_gather_into_tensor(memory):
        dist.all_gather_into_tensor(memory[0], ones[:2].clone())

    def reduce_scatter(memory):
        dist.reduce_scatter(memory[0], both)

    def reduce_scatter_tensor(memory):
        dist.reduce_scatter_tensor(memory[0], torch.ones(8))

    def all_to_all(memory):
        dist.all_to_all(memory, both)

    def all_to_all_single(memory):
        dist.all_to_all_single(memory[0], ones)

    def recv(memory):
        if rank:
            dist.recv(memory[0], 0)
        else:
            dist.send(ones, 1)

    def irecv(memory):
        if rank:
            dist.irecv(memory[0], 0).wait()
        else:
            dist.isend(ones, 1).wait()

    one = (
        all_reduce,
        broadcast,
        reduce,
        scatter,
        reduce_scatter,
        reduce_scatter_tensor,
        all_to_all_single,
        recv,
        irecv,
    )
    for collective in (*one, all_gather_into_tensor, gather, all_gather, all_to_all):
        memory, loss = saved(2 if collective in (gather, all_gather, all_to_all) else 1)
        try:
            collective(memory)
            loss.backward()
            sys.stdout.write(f"{rank} {collective.__name__} silent\n")
        except RuntimeError as error:
            raised = "raised" if "modified by an inplace operation" in str(error) else "absent"
            sys.stdout.write(f"{rank} {collective.__name__} {raised}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.start_processes(work, (sys.argv[1],), nprocs=2, start_method="fork")
