"""What each PyTorch operation keeps for its backward, what it writes and what its output shares. No torch needed."""

from __future__ import annotations

from outplace.knowledge.nodes import Node, by_node, describe_saved, saved_phrase

__all__ = ["Node", "by_node", "describe_saved", "saved_phrase"]
