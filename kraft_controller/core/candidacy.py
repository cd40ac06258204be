"""One broker's candidacy for controller (elect, resign and the ControllerChange handlers of Apache Kafka).

All brokers watch `/controller`. If it does not exist, each broker tries to create it, and the broker that succeeds is
the controller for a term, with the next controller epoch. `Candidacy` decides what the broker does next. Its driver
runs the election procedures in `wire.controller_election`, reports their results, and acts on `phase`.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen

from kraft_controller.core.names import BrokerId, ControllerEpoch, Version


@frozen
class Elected:
    """This broker is the controller. Its fenced writes check that `/controller_epoch` still has this `version`."""

    epoch: ControllerEpoch
    version: Version


@frozen
class Follows:
    """Another broker is the controller."""

    controller: BrokerId


@frozen
class ElectionBlocked:
    """The election is impossible, because `/controller` or `/controller_epoch` cannot be parsed. An operator must
    repair the node."""

    why: str


ElectionResult = Elected | Follows | ElectionBlocked


@frozen
class CandidacyPace:
    pause_s: float = 0.25
    """The pause after the first failed term or impossible election. It doubles after each further one."""
    pause_s_max: float = 10.0
    """The longest pause."""


class CandidacyPhase(Enum):
    STANDING = "standing"
    """The broker stands for election: the election procedure runs."""
    FOLLOWING = "following"
    """Another broker is the controller, and its node is watched."""
    LEADING = "leading"
    """This broker is the controller."""
    PAUSED = "paused"
    """A term failed, or the election is impossible. The broker becomes a candidate again after `pause_s`."""


class Candidacy:
    """The phases of a candidacy during one session."""

    def __init__(self, me: BrokerId, pace: CandidacyPace) -> None:
        self._me = me
        self._pace = pace
        self.phase = CandidacyPhase.STANDING
        self.elected: Elected | None = None
        """The current term; set only in the phase LEADING."""
        self.controller: BrokerId | None = None
        """The current controller; None if this broker does not know it."""
        self._pause_s = pace.pause_s
        """The length of the next pause."""
        self.pause_s = 0.0
        """The length of the current pause, in the phase PAUSED."""
        self._missed_change = False
        """True if `/controller` changed during the election procedure, whose result may be outdated then."""
        self._verified = False
        """True if the node of the current term was read with a watch."""

    # -- the election ------------------------------------------------------------------------------------

    def election_ended(self, result: ElectionResult) -> None:
        assert self.phase is CandidacyPhase.STANDING
        missed, self._missed_change = self._missed_change, False
        match result:
            case Elected():
                self.phase, self.elected, self.controller = CandidacyPhase.LEADING, result, self._me
                self._verified = False
            case Follows(controller):
                self.controller = controller
                self.phase = CandidacyPhase.STANDING if missed else CandidacyPhase.FOLLOWING
            case ElectionBlocked():
                self._pause()

    def controller_changed(self) -> None:
        """Handle a change of `/controller`, reported by the watch.

        In a term, a change before the node is verified is ignored, since it may be the creation of this broker's own
        node. A later change ends the term.
        """
        if self.phase is CandidacyPhase.STANDING:
            self._missed_change = True
        elif self.phase is CandidacyPhase.FOLLOWING:
            self.phase = CandidacyPhase.STANDING
        elif self.phase is CandidacyPhase.LEADING and self._verified:
            self.term_ended(failed=False)

    def verified(self, owned: bool) -> None:
        """Handle the first read of `/controller` with a watch after the election. End the term if the node does not
        belong to this broker."""
        if self.phase is CandidacyPhase.LEADING:
            self._verified = True
            if not owned:
                self.term_ended(failed=False)

    # -- the end of a term ---------------------------------------------------------------------------------

    def term_ended(self, *, failed: bool, lasted_s: float = 0.0) -> None:
        """End the term. A failed term is followed by a pause, so that repeated failures do not load the store.

        The pause is reset after a term that did not fail, or that lasted longer than the longest pause.
        """
        assert self.phase is CandidacyPhase.LEADING
        self.elected = None
        if not failed or lasted_s > self._pace.pause_s_max:
            self._pause_s = self._pace.pause_s
        if failed:
            self._pause()
        else:
            self.phase, self.controller = CandidacyPhase.STANDING, None

    def _pause(self) -> None:
        self.phase, self.controller = CandidacyPhase.PAUSED, None
        self.pause_s = self._pause_s
        self._pause_s = min(2 * self._pause_s, self._pace.pause_s_max)

    def pause_ended(self) -> None:
        if self.phase is CandidacyPhase.PAUSED:
            self.phase = CandidacyPhase.STANDING
