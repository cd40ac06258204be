"""Messages between the applications of leader and members, outside of the history. They may get lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from zab.core.messages import State
from zab.core.node import Node
from zab.service.forwarding.leadership import Leadership, LearnerLink, LearnerLinks
from zab.wire.peer import encode
from zab.wire.relay_messages import LeaderMessage, MemberMessage

MessageHandler: TypeAlias = Callable[[bytes], None]


def ignore_message(body: bytes) -> None:
    """Drop a message: the application does not use the side channel."""


class SideChannel:
    def __init__(
        self,
        node: Node,
        links: LearnerLinks,
        leadership: Callable[[], Leadership | None],
        on_leader_message: MessageHandler = ignore_message,
        on_member_message: MessageHandler = ignore_message,
        *,
        exists: bool = True,
    ) -> None:
        """`leadership` returns the leadership in force. `exists` is False if the protocol has no such messages.

        `on_leader_message` receives the members' messages while this server leads. `on_member_message` receives the
        messages of this server's leader.
        """
        self._node = node
        self._links = links
        self._leadership = leadership
        self._exists = exists
        self._on_leader_message = on_leader_message
        self._on_member_message = on_member_message

    def tell_leader(self, body: bytes) -> bool:
        """Send a message to the leader. Return False if there is no leader, or no way: then the message is lost."""
        leadership = self._leadership()
        if leadership is None or not self._exists:
            return False
        link = leadership.link
        if link is None:
            self._on_leader_message(body)
        else:
            link.send(encode(LeaderMessage(body)))
        return True

    def tell_members(self, body: bytes) -> bool:
        """Send a message to all synced learners. Return False, and send nothing, if this server does not lead."""
        leadership = self._leadership()
        if leadership is None or leadership.link is not None or not self._exists:
            return False
        frame = encode(MemberMessage(body))
        for sid in self._node.synced:
            link = self._links.accepted.get(sid)
            if link is not None:
                link.send(frame)
        return True

    def on_leader_message(self, message: LeaderMessage) -> None:
        if self._node.state is State.LEADING:
            self._on_leader_message(message.body)

    def on_member_message(self, link: LearnerLink, message: MemberMessage) -> None:
        leadership = self._leadership()
        if leadership is not None and leadership.link is link:
            self._on_member_message(message.body)
