"""What a driver relies on where it asks less: who was asked has no more to say, and who serves stays the same."""

from __future__ import annotations

import pytest

from harness.draw import script_from_seed
from harness.worlds.cores.world import run
from zab.core.node import Node
from zab.core.outbox import EMPTY_READY
from zab.core.ready import Ready


@pytest.mark.parametrize("seed", [1, 7, 20])
def test_a_stretch_of_serving_and_a_node_that_was_asked(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Node.ready
    stretches: dict[Node, tuple[object, tuple[object, ...]]] = {}

    def ready(node: Node) -> Ready:
        said = asked(node)
        assert not node.has_ready
        assert asked(node) is EMPTY_READY
        assert (node.serving_role is not None) is node.serving
        if node.serving_role is not None:
            standing = node.status()[1:]
            known, stood = stretches.get(node, (None, standing))
            if known is node.serving_role:
                assert standing == stood
            stretches[node] = node.serving_role, standing
        return said

    monkeypatch.setattr(Node, "ready", ready)
    assert run(script_from_seed(seed)).valid
    assert stretches
