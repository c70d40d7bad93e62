"""Known models: the places that are known to be safe are found, and each change by itself computes the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.reclaim.recorded import advised, changed, computed

MODELS = Path(__file__).parents[3] / "benchmarks" / "models" / "out_of_place"
SMALL = ["--batch", "2", "--steps", "3"]

LEAKY_RESNET = {"nn.LeakyReLU(0.1, inplace=True)", "out += identity"}
LEAKY_UNET = {"nn.LeakyReLU(0.01, inplace=True)"}
GPT = {
    "del logits",
    "self.words(tokens).add_(self.positions(where))",
    "(q @ k.transpose(-2, -1)).div_(math.sqrt(q.shape[-1]))",
    'scores.masked_fill_(self.future[:length, :length], float("-inf"))',
}
MLP = {
    "F.leaky_relu(self.fc1(x), inplace=True)",
    "F.leaky_relu(self.fc2(h), inplace=True)",
    "torch.sigmoid_(h)",
}


@pytest.mark.parametrize(
    ("name", "options", "known", "least"),
    [
        (
            "resnet.py",
            ["--width", "8", "--batch", "16", "--activation", "leaky_relu", "--side", "16"],
            LEAKY_RESNET,
            0.15,
        ),
        ("resnet.py", ["--width", "8", "--activation", "relu", "--side", "16"], {"nn.ReLU(inplace=True)"}, 0.0),
        ("unet.py", ["--width", "4", "--activation", "leaky_relu", "--side", "32"], LEAKY_UNET, 0.15),
        ("gpt.py", ["--words", "500", "--length", "16"], GPT, 0.05),
        ("mlp.py", ["--batch", "256"], MLP, 0.15),
    ],
)
def test_known_places_are_found_and_each_alone_computes_the_same(name, options, known, least):
    torch.set_num_threads(1)
    path, arguments = MODELS / name, [*SMALL, *options]
    advice, files = advised(path, arguments)
    found = [*advice.paying, *advice.others]
    assert known <= {one.after for one in found}
    live = advice.before.peak - advice.account.standing()
    assert (advice.before.peak - advice.expected().peak) / live >= least
    truth = computed(path, path.read_text(), arguments)
    for one in found:
        assert computed(path, changed(files, path, [one]), arguments) == truth, one.after
    assert computed(path, changed(files, path, found), arguments) == truth
