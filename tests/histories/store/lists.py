"""ACLs, and deletions by the servers themselves."""

from __future__ import annotations

from harness.checkers.store import image, log, watches, writes
from harness.history import Change, Reply, Request
from tests.histories.history_builder import HistoryBuilder
from tests.histories.store.example import legal_case, violates

MINE = "auth:rwcda, world:r"


@legal_case
def private_node_is_refused_to_other_users(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create_for(ann, "/x", acl=MINE, user="u1")
    t.refuse(bob, Request("set", "/x", b"1", user="u2"), "NO_AUTH")
    t.refuse(bob, Request("create", "/x/y", b"", user="u2"), "NO_AUTH")
    t.refuse(bob, Request("setacl", "/x", acl="world:rwcda", user="u2"), "NO_AUTH")
    t.get(bob, "/x", b"")


@legal_case
def deletion_is_decided_by_the_parents_acl(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create_for(ann, "/x", acl="auth:rwcda, world:rc", user="u1")
    t.create_for(ann, "/y", acl="auth:rwcda", user="u1")
    t.create_for(bob, "/x/z", acl="auth:rwcda", user="u2")
    t.refuse(bob, Request("delete", "/x/z", user="u2"), "NO_AUTH")
    t.delete(bob, "/y")


@violates(writes.REFUSED)
def deletion_is_decided_by_the_nodes_own_acl(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create_for(ann, "/y", acl="auth:rwcda", user="u1")
    t.refuse(bob, Request("delete", "/y", user="u2"), "NO_AUTH")


@violates(writes.REFUSED)
def forbidden_write_is_carried_out(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create_for(ann, "/x", acl=MINE, user="u1")
    t.set(bob, "/x", b"1", 1)


@violates(writes.REFUSED)
def acl_auth_without_a_user_is_invalid(t: HistoryBuilder) -> None:
    t.create_for(t.client(1), "/x", acl="auth:r")


@violates(writes.SHOWN)
def acl_differs_from_the_request(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", b"", acl="auth:r", user="u1"))
    t.respond(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"", acl="u2:r")), path="/x"))


@legal_case
def acl_applies_to_later_parts_of_a_multi(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create(ann, "/x")
    call = t.invoke(ann, Request("setacl", "/x", version=0, acl="auth:a", user="u1"))
    t.respond(call, Reply(zxid=t.commit(ann, Change(0, 0, "setacl", "/x", version=1, acl="u1:a"))))
    t.refuse(bob, Request("set", "/x", b"1"), "NO_AUTH")
    t.refuse(ann, Request("setacl", "/x", version=0, acl="world:r", user="u1"), "BAD_VERSION")
    t.respond(t.invoke(bob, Request("get", "/x")), Reply("NO_AUTH", t.zxid))
    t.respond(t.invoke(ann, Request("getacl", "/x", user="u1")), Reply(zxid=t.zxid, acl="u1:a"))
    t.respond(t.invoke(bob, Request("getacl", "/x")), Reply("NO_AUTH", t.zxid))


@violates(image.INVARIANT)
def forbidden_read_is_answered(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    t.children(bob, "/x")


@violates(image.INVARIANT)
def allowed_read_is_refused(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    t.respond(t.invoke(ann, Request("get", "/x", user="u1")), Reply("NO_AUTH", t.zxid))


@violates(image.INVARIANT)
def getacl_shows_another_acl(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    t.respond(t.invoke(ann, Request("getacl", "/x", user="u1")), Reply(zxid=t.zxid, acl=""))


@legal_case
def unknown_acl_allows_any_reply(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create_for(ann, "/x", acl="?")
    t.set(bob, "/x", b"1", 1)


@legal_case
def unknown_acl_may_refuse(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create_for(ann, "/x", acl="?")
    t.refuse(bob, Request("set", "/x", b"1"), "NO_AUTH")
    t.refuse(bob, Request("create", "/x/y", b""), "NO_AUTH")
    t.refuse(bob, Request("create", "/y", b"", acl="?"), "INVALID_ACL")


# -- watches without permission ------------------------------------------------------------------------


def _opened(t: HistoryBuilder) -> None:
    """The ACL names no user: /x is open to all from now on."""
    t.commit(None, Change(0, 0, "setacl", "/x", version=1))


@legal_case
def client_without_read_permission_gets_no_event(t: HistoryBuilder) -> None:
    ann, bob = t.client(1, user="u1"), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.watch(bob, "/x", "recursive")
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    t.sync(bob)
    _opened(t)
    t.set(ann, "/x", b"1", 1)
    t.fire(bob, "data", "/x")
    t.sync(bob)


@legal_case
def watch_is_used_up_without_an_event(t: HistoryBuilder) -> None:
    ann, bob = t.client(1, user="u1"), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    _opened(t)
    t.set(ann, "/x", b"1", 1)
    t.sync(bob)


@legal_case
def permitted_user_gets_the_event(t: HistoryBuilder) -> None:
    ann, also = t.client(1, user="u1"), t.client(2, user="u1")
    t.exists(also, "/x", there=False, watch="once")
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    t.fire(also, "created", "/x")
    t.sync(also)


@legal_case
def reconnected_client_gets_events_of_readable_nodes(t: HistoryBuilder) -> None:
    ann, bob = t.client(1, user="u1"), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.exists(bob, "/y", there=False, watch="once")
    t.session_event(bob, "disconnected")
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    t.create(ann, "/y")
    t.commit(bob, Change(0, 0, "attach"))
    t.session_event(bob, "connected")
    t.fire(bob, "created", "/y", -1)
    t.sync(bob)


@legal_case
def deletion_event_follows_the_deleted_nodes_acl(t: HistoryBuilder) -> None:
    ann, bob = t.client(1, user="u1"), t.client(2)
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    t.create(ann, "/y")
    t.watch(bob, "/", "recursive")
    t.delete(ann, "/x")
    t.delete(ann, "/y")
    t.fire(bob, "deleted", "/y")
    t.sync(bob)


@violates(watches.UNEXPECTED)
def client_gets_an_event_without_permission(t: HistoryBuilder) -> None:
    ann, bob = t.client(1, user="u1"), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    t.fire(bob, "created", "/x")


@violates(watches.MISSED)
def permitted_event_is_missing(t: HistoryBuilder) -> None:
    ann, bob = t.client(1, user="u1"), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create_for(ann, "/x", acl="auth:rwcda, world:r", user="u1")
    t.sync(bob)


@violates(watches.MISSED)
def event_to_the_owner_of_the_acl_is_missing(t: HistoryBuilder) -> None:
    ann, also = t.client(1, user="u1"), t.client(2, user="u1")
    t.exists(also, "/x", there=False, watch="once")
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    t.sync(also)


# -- deletions by servers ------------------------------------------------------------------------------


@violates(log.FOLLOWS)
def container_with_a_child_is_deleted(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/c", mode="container")
    t.create(ann, "/c/x")
    t.commit(None, Change(0, 0, "delete", "/c"))


@violates(log.FOLLOWS)
def servers_delete_a_persistent_node(t: HistoryBuilder) -> None:
    t.create(t.client(1), "/x")
    t.commit(None, Change(0, 0, "delete", "/x"))


@legal_case
def unused_ttl_node_is_deleted(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", mode="ttl")
    t.commit(None, Change(0, 0, "delete", "/x"))
    t.exists(ann, "/x", there=False)
