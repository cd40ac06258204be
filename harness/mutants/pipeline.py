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
        "ZOOKEEPER-1624: a multi that fails takes back what it did to the nodes it names, not to their parents",
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
        "a multi that fails leaves behind what its first operations would have done",
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
        "what a multi asks for first happens, although a later operation of it failed",
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
        "later operations of a multi are judged without the earlier ones",
        (
            f"{PREPARER}._look_up",
            NEWEST,
            "return self._nodes.get(path) if record is None or record[0] == self.zxid else record[1]",
        ),
        machine="store",
    ),
    mutant(
        "multi-check-ignored",
        "the check in a multi checks nothing",
        (f"{PREPARER}._check", "if expected != node[VERSION] and expected != ANY_VERSION:", "if False:"),
        machine="store",
    ),
    mutant(
        "judged-by-the-past",
        "a request is judged by what is applied, without what is outstanding",
        (f"{PREPARER}._look_up", NEWEST, "return self._nodes.get(path)"),
        (f"{PREPARER}._look_up_valid", "record = self._records.get(path)", "record = None"),
        machine="store",
    ),
    mutant(
        "outstanding-outlives-its-epoch",
        "a new leader judges by what it had prepared in an epoch in which it led before",
        (f"{PREPARER}._begin", "self._outstanding.clear()", "pass"),
        machine="store",
    ),
    mutant(
        "outstanding-forgotten-early",
        "when the first of two outstanding changes of a node is applied, the second is forgotten",
        (f"{OUTSTANDING}.applied", "if record is not None and record[0] <= zxid:", "if record is not None:"),
        machine="store",
    ),
    # -- nodes -----------------------------------------------------------------------------------------
    mutant(
        "version-not-compared",
        "a set is done whatever version it expects",
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
        "whether a node has children is asked of what is applied, without what is outstanding",
        (f"{PREPARER}._delete", "if node[CHILDREN]:", "if self._nodes.get(path, node)[11]:"),
        machine="store",
    ),
    mutant(
        "number-given-twice",
        "ZOOKEEPER-1046: the number of a sequential node is how many children there are, not how many there were",
        (f"{PREPARER}._create", 'path = f"{path}{cversion:010d}"', 'path = f"{path}{parent[11]:010d}"'),
        machine="store",
    ),
    mutant(
        "parent-not-touched",
        "the parent does not tell that a child was created",
        (f"{TREE}.create", "cversion, pzxid = parent_cversion, zxid", "cversion = parent_cversion"),
        machine="store",
    ),
    # -- sessions --------------------------------------------------------------------------------------
    mutant(
        "M37a",
        "ZOOKEEPER-5010: what a session asks behind its own end is still done, and its ephemeral node stays",
        (f"{PREPARER}._close_session", "self._owners.pop(session, None)", "pass"),
        machine="store",
    ),
    mutant(
        "M37b",
        "ZOOKEEPER-2985: ephemeral nodes that were outstanding when their session ended stay",
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
        "ZOOKEEPER-3145: what a session owned is found in the tree when it ends, and a restored tree does not know",
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
        "ZOOKEEPER-3144: a snapshot has not all of the sessions",
        (
            "zab.store.store_snapshot:StoreSnapshot.__init__",
            "self._first = (VERSION, zxid, sessions.secret, table)",
            "self._first = (VERSION, zxid, sessions.secret, table[:-1])",
        ),
        machine="store",
    ),
    mutant(
        "ephemerals-stay",
        "the nodes of a session that ends stay",
        (f"{APPLIER}._close_session", "for path in closed.body[0]:", "for path in ():"),
        (f"{APPLIER}._close_session", "self._tree.ephemerals.get(closed.session, ())", "()"),
        machine="store",
    ),
    mutant(
        "session-stays-in-the-table",
        "a session that was closed is still known",
        (f"{APPLIER}._close_session", "self._sessions.table.pop(closed.session, None)", "pass"),
        machine="store",
    ),
    mutant(
        "session-served-where-it-was",
        "a server that a session has left may still write for it",
        (f"{PREPARER}.prepare", "if self._owners.get(session) != server:", "if session not in self._owners:"),
        machine="store",
    ),
    mutant(
        "new-leader-knows-no-sessions",
        "silent sessions do not expire any more after a change of leader",
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
        "a session ends although its client is heard of in time",
        (
            "zab.store.expiry_queue:ExpiryQueue.touch",
            "end = ((now_ms + timeout_ms) // self._tick_ms + 1) * self._tick_ms",
            "end = now_ms + timeout_ms // 20",
        ),
        machine="store",
    ),
    mutant(
        "moved-and-sent-back",
        "a leader does not take it up that a session goes on elsewhere, and refuses what is asked for it there",
        (f"{PREPARER}._attach_session", "self._owners[current.session] = current.server", "pass"),
        machine="store",
    ),
    mutant(
        "others-signs-of-life-lost",
        "a leader does not count what other servers have heard of their clients",
        (f"{TRACKER}.reported", "if len(sessions) % 8 == 0:", "if False:"),
        machine="store",
    ),
    mutant(
        "signs-of-life-kept",
        "a server does not report its clients' signs of life to the leader",
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
        "what was sent to a leader that is gone is asked again before it is known what became of it",
        (
            f"{SUBMISSIONS}.reached",
            "if self._catch_up is None or self._may_send or applied < self._catch_up:",
            "if self._catch_up is None or self._may_send:",
        ),
        machine="store",
    ),
    mutant(
        "never-asked-again",
        "what was sent to a leader that is gone is never asked again",
        (
            f"{SUBMISSIONS}.reached",
            "self._unsent = deque(self._open)",
            "self._unsent = deque(each for each in self._unsent if each in self._open)",
        ),
        machine="store",
    ),
    mutant(
        "asked-again-after-a-snapshot",
        "what a snapshot may contain is asked again",
        (f"{SUBMISSIONS}.jumped", "if counter <= self._sent:", "if False:"),
        machine="store",
    ),
    mutant(
        "asked-again-in-disorder",
        "what is asked again is asked in another order",
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
        "a list that is outstanding is not in force yet for what is asked behind it",
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
        "a container is deleted by what is applied, though a child of it is outstanding",
        (f"{PREPARER}._delete_container", "node = self._look_up(path)", "node = self._nodes.get(path)"),
        machine="store",
    ),
    mutant(
        "check-without-leave",
        "a check in a multi tells of a node what its list does not let be read",
        (f"{PREPARER}._check", "self._authorize(node[ACL], acls.READ)", "pass"),
        machine="store",
    ),
    mutant(
        "carried-out-of-a-dead-link",
        "what came on a link that is gone is carried out all the same, and was asked again on the next one",
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
        "a sync that is under way when the leader goes is not asked of the next one, and never answered",
        (
            f"{BARRIERS}.on_barrier",
            "self.waiting += waiting  # a later turn asks the next leader",
            "pass",
        ),
        machine="store",
    ),
)
