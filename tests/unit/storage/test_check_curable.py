"""A server that may have lost its history starts only if another server can heal it."""

from __future__ import annotations

import pytest

from zab.core.ensemble import Ensemble, Server
from zab.core.errors import DamagedError
from zab.core.ready import Recovered
from zab.core.zxid import NOTHING, Epoch, ServerId, Zxid, make
from zab.storage.recovery import REMEDY, check_curable

ONE, TWO = ServerId(1), ServerId(2)


def of(*sids: ServerId, version: Zxid = NOTHING) -> Ensemble:
    return Ensemble(tuple(Server(sid, f"h{sid}", 1, 2) for sid in sids), version)


def lost(*damage: str, saved: Ensemble | None = None) -> Recovered:
    return Recovered(Epoch(1), Epoch(1), voting=False, damage=damage, ensemble=saved)


def test_server_with_its_history_starts_alone() -> None:
    check_curable(Recovered(Epoch(1), Epoch(1)), of(ONE), ONE, "data")


def test_server_starts_if_another_voter_can_heal_it() -> None:
    check_curable(lost("log.1 is cut off"), of(ONE, TWO), ONE, "data")


def test_only_voter_with_a_damaged_history_is_refused_with_the_damage_and_the_remedy() -> None:
    with pytest.raises(DamagedError, match=r"^data: log.1 is cut off\. Server 1 is the only voter") as caught:
        check_curable(lost(f"log.1 is cut off; {REMEDY}"), of(ONE), ONE, "data")
    assert "zab log repair data NEW_DIRECTORY" in str(caught.value)


def test_only_voter_whose_directory_was_emptied_is_refused() -> None:
    with pytest.raises(DamagedError, match="it was empty and autocreate is False"):
        check_curable(lost(), of(ONE), ONE, "data")


def test_later_membership_on_the_disk_decides() -> None:
    check_curable(lost("damage", saved=of(ONE, TWO, version=make(1, 1))), of(ONE), ONE, "data")
    with pytest.raises(DamagedError):
        check_curable(lost("damage", saved=of(ONE, version=make(1, 1))), of(ONE, TWO), ONE, "data")
