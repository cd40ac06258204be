"""ACLs in the store, as Kafka's own authorizer writes them."""

from __future__ import annotations

import pytest

from kraft_controller.wire.znodes import DamagedNode
from replica.core.security.acls import Entry, Operation, Pattern, PatternType, Permission, ResourceType
from replica.wire import acl_nodes

TOPIC = Pattern(ResourceType.TOPIC, "t")
PREFIX = Pattern(ResourceType.TRANSACTIONAL_ID, "tx-", PatternType.PREFIXED)
READ = Entry("User:ann", "*", Operation.READ, Permission.ALLOW)
WRITE = Entry("User:bob", "10.0.0.1", Operation.IDEMPOTENT_WRITE, Permission.DENY)
NODE = (
    b'{"version":1,"acls":[{"principal":"User:ann","permissionType":"Allow","operation":"Read","host":"*"},'
    b'{"principal":"User:bob","permissionType":"Deny","operation":"IdempotentWrite","host":"10.0.0.1"}]}'
)


def test_acl_nodes_have_kafkas_paths_and_contents() -> None:
    assert acl_nodes.path(TOPIC) == "/kafka-acl/Topic/t"
    assert acl_nodes.path(PREFIX) == "/kafka-acl-extended/prefixed/TransactionalId/tx-"
    assert acl_nodes.entries([WRITE, READ]) == NODE
    assert acl_nodes.read_entries("/x", NODE) == {READ, WRITE}
    assert acl_nodes.read_entries("/x", None) == frozenset()


def test_notes_of_changes() -> None:
    assert acl_nodes.change(TOPIC) == b"TOPIC:t"
    for pattern in (TOPIC, PREFIX, Pattern(ResourceType.GROUP, "a:b")):
        assert acl_nodes.read_change("/x", pattern.kind, acl_nodes.change(pattern)) == pattern
    assert acl_nodes.read_change("/x", PatternType.LITERAL, b"Topic:t") == TOPIC


@pytest.mark.parametrize("data", [b"", b"{", b"[]", NODE.replace(b"Read", b"Look"), NODE.replace(b'"host"', b'"h"')])
def test_unreadable_data_is_not_taken_as_empty(data: bytes) -> None:
    if data:
        with pytest.raises(DamagedNode, match="/x"):
            acl_nodes.read_entries("/x", data)
    with pytest.raises(DamagedNode, match="/x"):
        acl_nodes.read_change("/x", PatternType.PREFIXED, data)
    with pytest.raises(DamagedNode, match="/x"):
        acl_nodes.read_change("/x", PatternType.LITERAL, b"nothing")
