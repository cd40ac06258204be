"""Changes of membership: which quorums decide them, and what they leave behind."""

from __future__ import annotations

from typing import Final

from harness.mutants.edit import Mutant, mutant

ENSEMBLE: Final = "zab.core.ensemble:Ensemble"
CONFIG_NODE: Final = "zab.service.config_node:ConfigNode"
HISTORY: Final = "zab.core.history:History"
LEADER: Final = "zab.core.leader.leader_broadcast:LeaderBroadcast"
COMMITS: Final = "zab.core.leader.commit_accounting:CommitAccounting"
LEARNER: Final = "zab.core.learner.learner_synchronization:LearnerSynchronization"
LEARNER_BROADCAST: Final = "zab.core.learner.learner_broadcast:LearnerBroadcast"
LOG_STATE: Final = "zab.core.log_state:LogState"
BOTH: Final = "return (self.ensemble,) if pending is None else (self.ensemble, pending)"

MUTANTS: Final[tuple[Mutant, ...]] = (
    mutant(
        "old-membership-commits-the-new",
        "a membership change needs a quorum of the old members only",
        (f"{COMMITS}.reached", "both = min(reached, pending.quorum_zxid(acked))", "both = reached"),
        (f"{LOG_STATE}.views", BOTH, "return (self.ensemble,)"),
    ),
    mutant(
        "new-membership-commits-itself",
        "a membership change needs a quorum of the new members only",
        (
            f"{COMMITS}.reached",
            "reached = log_state.ensemble.quorum_zxid(acked)",
            "reached = (log_state.pending or log_state.ensemble).quorum_zxid(acked)",
        ),
        (f"{LOG_STATE}.views", BOTH, "return (pending or self.ensemble,)"),
    ),
    mutant(
        "former-membership-not-asked",
        "a quorum of the new members alone commits proposals from before a membership change",
        (f"{COMMITS}.commit", "self.joint = active, last", "self.joint = None"),
    ),
    mutant(
        "removed-leader-stays",
        "a removed leader continues to lead",
        (f"{LEADER}._leave_if_removed", "if log_state.me in log_state.ensemble.voters:", "if True:"),
    ),
    mutant(
        "membership-forgotten",
        "a restarted server returns to the membership of its configuration file",
        (
            f"{LOG_STATE}.__init__",
            "self.ensemble = saved if saved is not None and saved.version > ensemble.version else ensemble",
            "self.ensemble = ensemble",
        ),
    ),
    mutant(
        "membership-hidden-by-a-snapshot",
        "a learner that receives a snapshot, which hides a membership change, uses the old membership until UPTODATE",
        (f"{LEARNER}._on_new_leader", "log_state.activate(message.ensemble)", "pass"),
    ),
    mutant(
        "decided-and-not-in-force",
        "a learner that receives a committed membership during its synchronization keeps the previous one",
        (f"{LOG_STATE}.note_decided", "self._activate_up_to(zxid)", "pass"),
    ),
    mutant(
        "cut-change-stays-pending",
        "a truncated membership change stays pending, and is activated by the transactions after it",
        (f"{HISTORY}.truncate", "self.configs = [config for config in self.configs if config.version <= zxid]", "pass"),
    ),
    mutant(
        "replaced-change-stays-pending",
        "a membership change that a snapshot replaces stays pending, and is activated by later transactions",
        (f"{HISTORY}.reset", "self.configs = []", "pass"),
    ),
    mutant(
        "let-in-by-the-first-it-hears",
        "a server that lost its promises counts again with the first membership that it receives",
        (
            f"{LEARNER_BROADCAST}._check_readmission",
            "if log_state.forgotten and log_state.ensemble.version > self._brought and not self._observer:",
            "if log_state.forgotten:",
        ),
    ),
    mutant(
        "let-in-by-what-it-was-sent",
        "a server that lost its promises counts again with a membership change from before its readmission",
        (
            f"{LEARNER}._on_new_leader",
            "self._brought = max(message.ensemble.version, log_state.history.last)",
            "self._brought = message.ensemble.version",
        ),
    ),
    mutant(
        "counted-by-what-it-was-sent",
        "a leader counts a server that lost its promises once any change is committed, even one sent to it before",
        (
            f"{LEADER}._commit",
            "if learner.step is _SYNCED and learner.synced_until < zxid and not learner.observer:",
            "if learner.step is _SYNCED:",
        ),
    ),
    mutant(
        "half-of-the-groups",
        "quorums of half of the groups are enough",
        (f"{ENSEMBLE}.is_quorum", "return won > counted // 2", "return won >= counted // 2"),
    ),
    mutant(
        "groups-not-asked",
        "with groups, a majority of all servers commits",
        (f"{ENSEMBLE}.quorum_zxid", "if not self.groups:", "if True:"),
    ),
    mutant(
        "weights-not-counted",
        "every server of a group counts as much as any other",
        (f"{ENSEMBLE}.weight", "return self.weights.get(sid, 1)", "return 1"),
    ),
    mutant(
        "no-quorum-of-the-new",
        "a membership is proposed although too few of its voters follow, so nothing commits any more",
        (f"{LEADER}.reconfigure", "if not ensemble.is_quorum([*synced, log_state.me]):", "if False:"),
    ),
    mutant(
        "any-version-is-replaced",
        "a conditional reconfiguration replaces the active membership, whatever its version is",
        ("zab.service.config_node:check_request", "if version not in (ANY_VERSION, ensemble.version):", "if False:"),
        (f"{CONFIG_NODE}.change", "if version not in (ANY_VERSION, ensemble.version):", "if False:"),
        machine="store",
    ),
    mutant(
        "promoted-and-still-observes",
        "an observer that became a participant continues to observe, and is not counted",
        ("zab.core.learner.learner:Learner._on_inform_and_activate", "self.phase.check_role()", "pass"),
    ),
)
