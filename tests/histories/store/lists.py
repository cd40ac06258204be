"""ClientSession may do what, and what goes by itself."""

from __future__ import annotations

from harness.checkers.store import image, log, watches, writes
from harness.history import Change, Reply, Request
from tests.histories.history_builder import HistoryBuilder
from tests.histories.store.example import legal_case, violates

MINE = "auth:rwcda, world:r"


@legal_case
def what_is_ones_own_is_not_for_others(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create_for(ann, "/x", acl=MINE, user="u1")
    t.refuse(bob, Request("set", "/x", b"1", user="u2"), "NO_AUTH")
    t.refuse(bob, Request("create", "/x/y", b"", user="u2"), "NO_AUTH")
    t.refuse(bob, Request("setacl", "/x", acl="world:rwcda", user="u2"), "NO_AUTH")
    t.get(bob, "/x", b"")


@legal_case
def a_deletion_is_a_matter_of_the_parent(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create_for(ann, "/x", acl="auth:rwcda, world:rc", user="u1")
    t.create_for(ann, "/y", acl="auth:rwcda", user="u1")
    t.create_for(bob, "/x/z", acl="auth:rwcda", user="u2")
    t.refuse(bob, Request("delete", "/x/z", user="u2"), "NO_AUTH")
    t.delete(bob, "/y")


@violates(writes.REFUSED)
def a_deletion_by_the_nodes_own_list(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create_for(ann, "/y", acl="auth:rwcda", user="u1")
    t.refuse(bob, Request("delete", "/y", user="u2"), "NO_AUTH")


@violates(writes.REFUSED)
def it_was_written_by_whom_the_list_forbids_it(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create_for(ann, "/x", acl=MINE, user="u1")
    t.set(bob, "/x", b"1", 1)


@violates(writes.REFUSED)
def nobody_hands_in_a_list_of_its_own(t: HistoryBuilder) -> None:
    t.create_for(t.client(1), "/x", acl="auth:r")


@violates(writes.SHOWN)
def another_list_than_was_handed_in(t: HistoryBuilder) -> None:
    ann = t.client(1)
    call = t.invoke(ann, Request("create", "/x", b"", acl="auth:r", user="u1"))
    t.respond(call, Reply(zxid=t.commit(ann, Change(0, 0, "create", "/x", b"", acl="u2:r")), path="/x"))


@legal_case
def a_list_is_in_force_for_what_comes_behind_it(t: HistoryBuilder) -> None:
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
def it_was_read_by_whom_the_list_forbids_it(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    t.children(bob, "/x")


@violates(image.INVARIANT)
def it_was_not_shown_to_whom_the_list_allows_it(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    t.respond(t.invoke(ann, Request("get", "/x", user="u1")), Reply("NO_AUTH", t.zxid))


@violates(image.INVARIANT)
def another_list_is_shown_than_stands_there(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    t.respond(t.invoke(ann, Request("getacl", "/x", user="u1")), Reply(zxid=t.zxid, acl=""))


@legal_case
def of_an_unknown_list_nothing_is_said(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create_for(ann, "/x", acl="?")
    t.set(bob, "/x", b"1", 1)


@legal_case
def who_is_refused_by_an_unknown_list_may_well_be(t: HistoryBuilder) -> None:
    ann, bob = t.client(1), t.client(2)
    t.create_for(ann, "/x", acl="?")
    t.refuse(bob, Request("set", "/x", b"1"), "NO_AUTH")
    t.refuse(bob, Request("create", "/x/y", b""), "NO_AUTH")
    t.refuse(bob, Request("create", "/y", b"", acl="?"), "INVALID_ACL")


# -- who watches what it may not read ------------------------------------------------------------------


def _opened(t: HistoryBuilder) -> None:
    """By nobody in particular: /x is for all from here on."""
    t.commit(None, Change(0, 0, "setacl", "/x", version=1))


@legal_case
def who_may_not_read_it_hears_nothing(t: HistoryBuilder) -> None:
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
def a_watch_is_used_up_in_silence(t: HistoryBuilder) -> None:
    ann, bob = t.client(1, user="u1"), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    _opened(t)
    t.set(ann, "/x", b"1", 1)
    t.sync(bob)


@legal_case
def whose_list_it_is_hears_of_it(t: HistoryBuilder) -> None:
    ann, also = t.client(1, user="u1"), t.client(2, user="u1")
    t.exists(also, "/x", there=False, watch="once")
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    t.fire(also, "created", "/x")
    t.sync(also)


@legal_case
def who_is_back_is_told_of_what_it_may_read(t: HistoryBuilder) -> None:
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
def a_deletion_is_told_by_the_list_that_the_node_had(t: HistoryBuilder) -> None:
    ann, bob = t.client(1, user="u1"), t.client(2)
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    t.create(ann, "/y")
    t.watch(bob, "/", "recursive")
    t.delete(ann, "/x")
    t.delete(ann, "/y")
    t.fire(bob, "deleted", "/y")
    t.sync(bob)


@violates(watches.UNEXPECTED)
def it_was_told_of_what_it_may_not_read(t: HistoryBuilder) -> None:
    ann, bob = t.client(1, user="u1"), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    t.fire(bob, "created", "/x")


@violates(watches.MISSED)
def it_was_not_told_of_what_it_may_read(t: HistoryBuilder) -> None:
    ann, bob = t.client(1, user="u1"), t.client(2)
    t.exists(bob, "/x", there=False, watch="once")
    t.create_for(ann, "/x", acl="auth:rwcda, world:r", user="u1")
    t.sync(bob)


@violates(watches.MISSED)
def whose_list_it_is_heard_nothing_of_it(t: HistoryBuilder) -> None:
    ann, also = t.client(1, user="u1"), t.client(2, user="u1")
    t.exists(also, "/x", there=False, watch="once")
    t.create_for(ann, "/x", acl="auth:rwcda", user="u1")
    t.sync(also)


# -- what goes by itself -------------------------------------------------------------------------------


@violates(log.FOLLOWS)
def a_container_goes_under_its_child(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/c", mode="container")
    t.create(ann, "/c/x")
    t.commit(None, Change(0, 0, "delete", "/c"))


@violates(log.FOLLOWS)
def servers_take_what_stays(t: HistoryBuilder) -> None:
    t.create(t.client(1), "/x")
    t.commit(None, Change(0, 0, "delete", "/x"))


@legal_case
def a_node_for_a_time_goes_unused(t: HistoryBuilder) -> None:
    ann = t.client(1)
    t.create(ann, "/x", mode="ttl")
    t.commit(None, Change(0, 0, "delete", "/x"))
    t.exists(ann, "/x", there=False)
