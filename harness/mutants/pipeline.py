"""The store: how requests become transactions, transactions become state, and what belongs to a session."""

from __future__ import annotations

from typing import Final

from harness.mutants.edit import Mutant, mutant

PREPARER: Final = "zab.store.request_preparer:RequestPreparer"
OUTSTANDING: Final = "zab.store.outstanding_changes:OutstandingChanges"
APPLIER: Final = "zab.store.apply:Applier"
TREE: Final = "zab.store.tree:Tree"
SUBMISSIONS: Final = "zab.service.forwarding.pending_submissions:PendingSubmissions"
INTAKE: Final = "zab.service.forwarding.leader_intake:LeaderIntake"
BARRIERS: Final = "zab.service.forwarding.sync_barriers:SyncBarriers"
CONNECTION: Final = "zab.service.connection"
TRACKER: Final = "zab.service.session_tracker:SessionTracker"
NEWEST: Final = "return self._nodes.get(path) if record is None else record[1]"

MUTANTS: Final[tuple[Mutant, ...]] = (
    # -- several at once, and what is outstanding ------------------------------------------------------
    mutant(
        "M35",
        "ZOOKEEPER-1624: a failed multi restores the nodes that it names, but not their parents",
        (
            f"{PREPARER}._multi",
            """
            except RequestFailed as failure:
                self._roll_back(position, undo)
            """,
            """
            except RequestFailed as failure:
                named = {sub_fields[0] for _, sub_fields in operations}
                self._roll_back(position, [each for each in undo if each[0] in named])
            """,
        ),
        machine="store",
    ),
    mutant(
        "multi-not-taken-back",
        "a failed multi leaves the changes of its first operations",
        (
            f"{PREPARER}._multi",
            """
            except RequestFailed as failure:
                self._roll_back(position, undo)
            """,
            """
            except RequestFailed as failure:
                pass
            """,
        ),
        machine="store",
    ),
    mutant(
        "multi-half-applied",
        "the first operations of a multi are applied although a later one failed",
        (
            f"{PREPARER}._multi",
            """
            except RequestFailed as failure:
                self._roll_back(position, undo)
            """,
            """
            except RequestFailed as failure:
                self._roll_back(position, undo)
                if prepared:
                    return transactions.multi(current.session, current.cxid, current.now_ms, prepared)
            """,
        ),
        machine="store",
    ),
    mutant(
        "multi-sees-not-itself",
        "operations of a multi are checked without the effect of the earlier ones",
        (
            f"{PREPARER}._look_up",
            NEWEST,
            "return self._nodes.get(path) if record is None or record[0] == self.zxid else record[1]",
        ),
        machine="store",
    ),
    mutant(
        "multi-check-ignored",
        "a check in a multi always succeeds",
        (f"{PREPARER}._check", "if expected != node[VERSION] and expected != ANY_VERSION:", "if False:"),
        machine="store",
    ),
    mutant(
        "judged-by-the-past",
        "a request is prepared from the applied state, without the outstanding transactions",
        (f"{PREPARER}._look_up", NEWEST, "return self._nodes.get(path)"),
        (f"{PREPARER}._look_up_valid", "record = self._records.get(path)", "record = None"),
        machine="store",
    ),
    mutant(
        "outstanding-outlives-its-epoch",
        "a new leader prepares requests with outstanding changes of an epoch in which it led before",
        (f"{PREPARER}._begin", "self._outstanding.clear()", "pass"),
        machine="store",
    ),
    mutant(
        "outstanding-forgotten-early",
        "when the first of two outstanding changes of a node is applied, the leader forgets the second",
        (f"{OUTSTANDING}.applied", "if record is not None and record[0] <= zxid:", "if record is not None:"),
        machine="store",
    ),
    # -- nodes -----------------------------------------------------------------------------------------
    mutant(
        "version-not-compared",
        "a set succeeds whatever version it expects",
        (f"{PREPARER}._set_data", "if expected != version and expected != ANY_VERSION:", "if False:"),
        machine="store",
    ),
    mutant(
        "parents-deleted",
        "a node is deleted although it has children",
        (f"{PREPARER}._delete", "if node[CHILDREN]:", "if False:"),
        machine="store",
    ),
    mutant(
        "emptiness-by-the-past",
        "a delete checks for children in the applied state, without the outstanding transactions",
        (f"{PREPARER}._delete", "if node[CHILDREN]:", "if self._nodes.get(path, node)[11]:"),
        machine="store",
    ),
    mutant(
        "number-given-twice",
        "ZOOKEEPER-1046: a sequential node is numbered by the count of children, not of all former children",
        (f"{PREPARER}._create", 'path = f"{path}{cversion:010d}"', 'path = f"{path}{parent[11]:010d}"'),
        machine="store",
    ),
    mutant(
        "parent-not-touched",
        "the creation of a child does not change the parent's stat",
        (f"{TREE}.create", "cversion, pzxid = parent_cversion, zxid", "cversion = parent_cversion"),
        machine="store",
    ),
    # -- sessions --------------------------------------------------------------------------------------
    mutant(
        "M37a",
        "ZOOKEEPER-5010: a request behind the close of its session is executed, so its ephemeral node stays",
        (f"{PREPARER}._close_session", "self._owners.pop(session, None)", "pass"),
        machine="store",
    ),
    mutant(
        "M37b",
        "ZOOKEEPER-2985: ephemeral nodes that were outstanding at the close of their session stay",
        (f"{PREPARER}._close_session", "if node is not None and node[OWNER] == session:", "if False:"),
        (f"{APPLIER}._close_session", "self._tree.ephemerals.get(closed.session, ())", "()"),
        machine="store",
    ),
    mutant(
        "end-takes-anothers",
        "the close of a session deletes its former node, even if another session has created it again",
        (f"{PREPARER}._close_session", "paths.pop(path, None)", "pass"),
        machine="store",
    ),
    mutant(
        "M32a",
        "ZOOKEEPER-3145: a close finds ephemeral nodes by an index that a restored tree lacks",
        (f"{TREE}._insert", "if node[9]:", "if False:"),
        (
            f"{TREE}._disown",
            "owned = self.ephemerals[owner]",
            "owned = self.ephemerals.setdefault(owner, {path: None})",
        ),
        (f"{TREE}._disown", "del owned[path]", "owned.pop(path, None)"),
        machine="store",
    ),
    mutant(
        "M32b",
        "ZOOKEEPER-3144: a snapshot lacks some sessions",
        (
            "zab.store.store_snapshot:StoreSnapshot.__init__",
            "self._first = (VERSION, zxid, sessions.secret, table)",
            "self._first = (VERSION, zxid, sessions.secret, table[:-1])",
        ),
        machine="store",
    ),
    mutant(
        "ephemerals-stay",
        "the ephemeral nodes of a closed session stay",
        (f"{APPLIER}._close_session", "for path in closed.body[0]:", "for path in ():"),
        (f"{APPLIER}._close_session", "self._tree.ephemerals.get(closed.session, ())", "()"),
        machine="store",
    ),
    mutant(
        "session-stays-in-the-table",
        "a closed session stays in the table of sessions",
        (f"{APPLIER}._close_session", "self._sessions.table.pop(closed.session, None)", "pass"),
        machine="store",
    ),
    mutant(
        "session-served-where-it-was",
        "a server that a session has left may still write for the session",
        (f"{PREPARER}.prepare", "if self._owners.get(session) != server:", "if session not in self._owners:"),
        machine="store",
    ),
    mutant(
        "new-leader-knows-no-sessions",
        "silent sessions do not expire after a change of leader",
        (f"{TRACKER}.lead", "self.touch(self._server.sessions.table, now)", "pass"),
        machine="store",
    ),
    mutant(
        "sessions-never-end",
        "a silent session does not expire",
        ("zab.store.expiry_queue:ExpiryQueue.due", "return ended", "return []"),
        machine="store",
    ),
    mutant(
        "sessions-end-early",
        "a session expires although its client was active in time",
        (
            "zab.store.expiry_queue:ExpiryQueue.touch",
            "end = ((now_ms + timeout_ms) // self._tick_ms + 1) * self._tick_ms",
            "end = now_ms + timeout_ms // 20",
        ),
        machine="store",
    ),
    mutant(
        "moved-and-sent-back",
        "a leader ignores that a session moved to another server, and refuses its requests there",
        (f"{PREPARER}._attach_session", "self._owners[current.session] = current.server", "pass"),
        machine="store",
    ),
    mutant(
        "others-signs-of-life-lost",
        "a leader ignores the client activity that other servers report",
        (f"{TRACKER}.reported", "if len(sessions) % 8 == 0:", "if False:"),
        machine="store",
    ),
    mutant(
        "signs-of-life-kept",
        "a server does not report its clients' activity to the leader",
        (f"{TRACKER}.check", "elif server.ready:", "elif False:"),
        machine="store",
    ),
    mutant(
        "ended-session-welcome",
        "a client with an expired session receives the reply of a valid one",
        (
            f"{CONNECTION}.handshake:SessionHandshake._attached",
            "self._client.expired(self._asked)",
            "self._conclude(self._asked.session, self.timeout_ms)",
        ),
        (
            f"{CONNECTION}.client_connection:ClientConnection.established",
            "if not sessions.knows(session):",
            "if False:",
        ),
        machine="store",
    ),
    # -- the way of a request --------------------------------------------------------------------------
    mutant(
        "asked-again-at-once",
        "requests to a lost leader are submitted again before their outcome is known",
        (
            f"{SUBMISSIONS}.reached",
            "if self._catch_up is None or self._may_send or applied < self._catch_up:",
            "if self._catch_up is None or self._may_send:",
        ),
        machine="store",
    ),
    mutant(
        "never-asked-again",
        "requests to a lost leader are never submitted again",
        (
            f"{SUBMISSIONS}.reached",
            "self._unsent = deque(self._open)",
            "self._unsent = deque(each for each in self._unsent if each in self._open)",
        ),
        machine="store",
    ),
    mutant(
        "asked-again-after-a-snapshot",
        "requests that a snapshot may contain are submitted again",
        (f"{SUBMISSIONS}.jumped", "if counter <= self._sent:", "if False:"),
        machine="store",
    ),
    mutant(
        "asked-again-in-disorder",
        "requests are submitted again in another order",
        (
            f"{SUBMISSIONS}.reached",
            "self._unsent = deque(self._open)",
            "self._unsent = deque(reversed(self._open))",
        ),
        machine="store",
    ),
    # -- who may do what, and what goes by itself --------------------------------------------------------
    mutant(
        "deleted-by-its-own-list",
        "the ACL of the node, not of its parent, decides whether a client may delete it",
        (
            f"{PREPARER}._delete",
            """
            if parent[ACL] is not OPEN:
                self._authorize(parent[ACL], acls.DELETE)
            node = self._look_up(path)
            if node is None:
                raise RequestFailed(ErrorCode.NO_NODE)
            """,
            """
            node = self._look_up(path)
            if node is None:
                raise RequestFailed(ErrorCode.NO_NODE)
            if node[1] is not OPEN:
                self._authorize(node[1], acls.DELETE)
            """,
        ),
        machine="store",
    ),
    mutant(
        "list-of-yesterday",
        "an outstanding change of an ACL does not apply to the requests behind it",
        (
            f"{PREPARER}._set_acl",
            "self._put(path, (node[DATA], acl, *node[CZXID:AVERSION], aversion, *node[OWNER:]))",
            "self._put(path, (*node[:8], aversion, *node[9:]))",
        ),
        machine="store",
    ),
    mutant(
        "read-without-leave",
        "a client may list the children of a node whose ACL forbids reading",
        (
            "zab.store.read_handler:ReadHandler.get_children",
            "if node[1] is not OPEN and not self._allows(node[1], READ, client):",
            "if False:",
        ),
        machine="store",
    ),
    mutant(
        "container-goes-with-a-child",
        "a container is deleted by the applied state, though a child of it is outstanding",
        (f"{PREPARER}._delete_container", "node = self._look_up(path)", "node = self._nodes.get(path)"),
        machine="store",
    ),
    mutant(
        "check-without-leave",
        "a check in a multi reveals a node whose ACL forbids reading",
        (f"{PREPARER}._check", "self._authorize(node[ACL], acls.READ)", "pass"),
        machine="store",
    ),
    mutant(
        "carried-out-of-a-dead-link",
        "a request from a dead link is executed, although its server submitted it again on the next link",
        (f"{INTAKE}.on_link_down", "self.queue.drop(link)", "pass"),
        machine="store",
    ),
    mutant(
        "fence-in-front-of-the-promised",
        "a member that reconnects receives a catch-up point although its earlier requests have no zxid yet",
        (f"{INTAKE}.turn", "if self._catch_ups and not queue.promised:", "if self._catch_ups:"),
        machine="store",
    ),
    mutant(
        "syncs-end-with-their-leader",
        "a sync that is pending when the leader is lost is never answered",
        (
            f"{BARRIERS}.on_barrier",
            "self.waiting += waiting  # a later turn asks the next leader",
            "pass",
        ),
        machine="store",
    ),
)
