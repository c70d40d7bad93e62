"""What training frameworks do with the code that they are given: one entry a framework.

The analysis cannot read an installed framework, so these entries say what it has to know: which classes are modules,
which method computes the loss, and which calls run it, run a backward, or give back what they were given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_NOTHING = frozenset[str]()


@dataclass(frozen=True)
class Framework:
    """One framework. Classes, methods and functions go by the last part of their names."""

    name: str
    packages: frozenset[str]
    """What `import` calls it."""
    modules: re.Pattern[str] = field(default=re.compile(r"(?!)"))
    """Its classes that are torch modules."""
    steps: frozenset[str] = _NOTHING
    """Methods of a derived class that compute the loss of one batch."""
    entry_points: frozenset[str] = _NOTHING
    """Other methods of a derived class that it calls in the forward of a training step."""
    makes_optimizers: str = ""
    """The method of a derived class that makes the optimizers."""
    optimizers: frozenset[str] = _NOTHING
    """Methods that give back these optimizers."""
    objects: frozenset[str] = _NOTHING
    """Classes that a program makes objects of, to call their methods."""
    trains: frozenset[str] = _NOTHING
    """Methods that run the training: of a derived class, or of an object that is given the derived class's object."""
    backward: frozenset[str] = _NOTHING
    """Methods that run the backward of their first argument."""
    gives_back: frozenset[str] = _NOTHING
    """Methods that wrap their arguments: what comes back works as before."""
    gathers: frozenset[str] = _NOTHING
    """Methods that gather rows of their keyword arguments for each edge, and hand them to an entry point."""
    integrates: frozenset[str] = _NOTHING
    """Functions that integrate: they are given `f` and `y`, and call `f(t, y)`."""


FRAMEWORKS = (
    Framework(
        "Lightning",
        frozenset({"pytorch_lightning", "lightning", "lightning_fabric"}),
        modules=re.compile(r"LightningModule$"),
        steps=frozenset({"training_step"}),
        makes_optimizers="configure_optimizers",
        optimizers=frozenset({"optimizers"}),
        objects=frozenset({"Trainer", "Fabric"}),
        trains=frozenset({"fit"}),
        backward=frozenset({"manual_backward", "backward"}),
        gives_back=frozenset({"setup", "setup_module", "setup_optimizers", "setup_dataloaders"}),
    ),
    Framework(
        "Transformers",
        frozenset({"transformers", "trl", "sentence_transformers"}),
        modules=re.compile(r"Model$|For[A-Z]\w+$|(?:Layer|Block|Attention|MLP|Embeddings|Encoder|Decoder|Norm)$"),
        steps=frozenset({"compute_loss"}),
        trains=frozenset({"train"}),
    ),
    Framework(
        "Accelerate",
        frozenset({"accelerate"}),
        objects=frozenset({"Accelerator"}),
        backward=frozenset({"backward"}),
        gives_back=frozenset({"prepare", "prepare_model", "prepare_optimizer", "prepare_data_loader", "unwrap_model"}),
    ),
    Framework(
        "PyTorch Geometric",
        frozenset({"torch_geometric"}),
        modules=re.compile(r"MessagePassing$|(?:Conv|Layer|Aggregation|Norm|Encoder)$"),
        entry_points=frozenset({"message", "aggregate", "update", "edge_update", "message_and_aggregate"}),
        gathers=frozenset({"propagate"}),
    ),
    Framework(
        "GPyTorch",
        frozenset({"gpytorch", "botorch"}),
        modules=re.compile(r"(?:Module|Kernel|Mean|Likelihood|GP|Strategy|Distribution)$"),
    ),
    Framework("Pyro", frozenset({"pyro"}), modules=re.compile(r"PyroModule$|GuideList$|Transform(?:Module)?$")),
    Framework(
        "torchdiffeq",
        frozenset({"torchdiffeq", "torchcde"}),
        integrates=frozenset({"odeint", "odeint_adjoint"}),
    ),
)
_BY_PACKAGE = {package: framework for framework in FRAMEWORKS for package in framework.packages}


def framework_of(name: str) -> Framework | None:
    """The framework that something with this full name belongs to."""
    return _BY_PACKAGE.get(name.partition(".")[0])


def is_module_class(name: str) -> bool:
    """Is this a framework's class that is derived from `torch.nn.Module`?"""
    framework = framework_of(name)
    return framework is not None and framework.modules.search(name.rpartition(".")[2]) is not None
