"""Mistakes of drivers, of the client port and of the client, which no core can make: for the world of real drivers."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from harness.mutants.edit import Mutant, mutant

TRACKER: Final = "zab.service.session_tracker:SessionTracker"
COORDINATION: Final = "zab.runtime.store_server"
CONTROLLER: Final = "kraft_controller.runtime"
ANSWERED: Final = "__import__('sys').modules['kraft_controller.core.commands'].Answer(numbered.number, 0, {})"
"""A successful answer to the command in flight."""


def _of_drivers(name: str, bug: str, *edits: tuple[str, str, str], machine: str = "store") -> Mutant:
    return evolve(mutant(name, bug, *edits), world="stack", machine=machine)


def _of_controllers(name: str, bug: str, *edits: tuple[str, str, str]) -> Mutant:
    return evolve(_of_drivers(name, bug, *edits, machine="controller"), voters=(3,))


MUTANTS: Final[tuple[Mutant, ...]] = (
    _of_drivers(
        "saved-when-handed-over",
        "what was handed to the writing thread counts as durable at once",
        (
            "zab.runtime.driver:Driver.send_and_save",
            "if ready.save and self._writer.put(ready.save):",
            "if ready.save and (self._writer.put(ready.save) or True):",
        ),
        machine="list",
    ),
    _of_drivers(
        "log-cut-short",
        "the first batch of a log that is sent to a learner is left out",
        (
            "zab.runtime.learner_sync:LearnerSync._log_frames",
            "for batch in batches:",
            "for batch in list(batches)[1:]:",
        ),
        machine="list",
    ),
    _of_drivers(
        "submissions-forgotten",
        "the results of some submissions are dropped, and their callers wait for ever",
        (
            "zab.service.forwarding.pending_submissions:PendingSubmissions.applied",
            "if closed is None:",
            "if closed is None or counter % 7 == 0:",
        ),
    ),
    _of_drivers(
        "event-behind-the-reply",
        "events leave behind the replies of the same turn, and those show their changes",
        (
            "zab.service.connection.client_connection:ClientConnection.notify",
            "self.send(change.frame)",
            "vars(self).setdefault('late', []).append(change.frame); self._shell.output_ready()",
        ),
        (
            f"{COORDINATION}.connection_shell:ConnectionShell.flush",
            "self.connection.settle()",
            "[self._buffer.put(each) for each in vars(self.connection).pop('late', [])]; self.connection.settle()",
        ),
    ),
    _of_drivers(
        "watches-not-told-again",
        "a client that is back does not tell its new server what it watches",
        (
            "zab.client.session_setup:SessionSetup.frames",
            "for frame in self._watch_requests(last_zxid):",
            "for frame in ():",
        ),
    ),
    _of_drivers(
        "stopped-server-keeps-connections",
        "a server that has ended leaves its connections open",
        (
            f"{COORDINATION}.connection_shell:ConnectionShell.run",
            "await self._close()",
            "await trio.lowlevel.checkpoint()",
        ),
    ),
    # -- controllers -----------------------------------------------------------------------------------
    _of_controllers(
        "link-outlives-a-life",
        "a broker that is back keeps the link of its life before, and what is meant for this life is dropped",
        (
            "kraft_controller.core.command_channel:CommandChannel.update_brokers",
            "if broker is None or broker.epoch != queue.broker.epoch:",
            "if broker is None:",
        ),
    ),
    _of_controllers(
        "links-known-late",
        "what is decided when a broker comes is said before there is a link to it",
        (
            "kraft_controller.core.broker_request_batch:BrokerRequestBatch.send",
            """
            sink.update_brokers(self._context.brokers)
            for broker, command in self.take():
                sink.send(broker, command)
            """,
            """
            for broker, command in self.take():
                sink.send(broker, command)
            sink.update_brokers(self._context.brokers)
            """,
        ),
    ),
    _of_controllers(
        "unanswered-is-answered",
        "KAFKA-3916: a command whose answer does not come counts as heard",
        (
            f"{CONTROLLER}.command_connections:_Connection._attempt",
            "await trio.sleep(self._settings.backoff_s)",
            f"queue.replied({ANSWERED})",
        ),
    ),
    _of_controllers(
        "commands-wait-for-nobody",
        "commands leave before those in front of them are answered, and the lost ones are not said again",
        (
            f"{CONTROLLER}.command_connections:_Connection._attempt",
            "body = await self._frames.receive()",
            f"body = encode({ANSWERED})",
        ),
    ),
    _of_controllers(
        "events-of-a-kind-once",
        "what has been dealt with once is taken for waiting still, and news of the same kind are not heard",
        ("kraft_controller.core.event_queue:EventQueue.take", "self._noted.discard(queued.event)", "pass"),
    ),
    _of_controllers(
        "lists-not-watched",
        "the lists of brokers and topics are read, and not watched",
        (
            f"{CONTROLLER}.store_session:StoreSession._send_one",
            "session.children(path, self._watch if watch else None)",
            "session.children(path)",
        ),
    ),
    _of_controllers(
        "fresh-broker-obeys",
        "a broker that does not know its epoch yet obeys what was meant for the process before it",
        (
            "kraft_controller.core.broker_epoch:BrokerEpochFence.accepts_from",
            "self._least if self.epoch == NO_EPOCH else self.epoch",
            "self.epoch",
        ),
    ),
    _of_controllers(
        "reign-at-any-version",
        "a controller that was deposed in the midst of an event writes on",
        (
            f"{CONTROLLER}.controller:Controller._lead",
            "ZnodeStore(Fence(elected.version))",
            "ZnodeStore(Fence(type(elected.version)(-1)))",
        ),
    ),
    _of_drivers(
        "deposed-ends-sessions",
        "a leader that is none any more goes on ending sessions by its own old clock",
        (f"{TRACKER}.rest", "self._expiry = None", "pass"),
    ),
    _of_drivers(
        "ended-by-the-last-leader",
        "what a leader had ended that is none any more is ended by the next one, though it was heard of there",
        (
            "zab.store.request_preparer:RequestPreparer._close_session",
            "if fields and fields[0] != self._epoch:",
            "if False:",
        ),
    ),
    _of_drivers(
        "ends-what-it-slept-through",
        "a leader whose process was suspended expires the sessions whose signs of life it missed meanwhile",
        (f"{TRACKER}.check", "if slept:", "if False:"),
    ),
    _of_drivers(
        "old-end-takes-the-new",
        "the end of a connection takes the next one of its session along, which has come before it was heard",
        (
            "zab.service.client_sessions:ClientSessions.detach",
            "if self.attached.get(client.session) is client:",
            "if client.session in self.attached:",
        ),
    ),
)
