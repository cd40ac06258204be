"""Where a broker's operator looks: `/metrics`, `/health`."""

from __future__ import annotations

from functools import partial

from kraft_controller.runtime.operators import OperatorPort, of_candidate
from replica.runtime.broker import Broker
from replica.runtime.group_metrics import samples
from zab.runtime.admin.settings import AdminSettings


def operators_of(broker: Broker, settings: AdminSettings) -> OperatorPort:
    sources, look = of_candidate(lambda: broker.controller)
    return OperatorPort(settings, [*sources, partial(samples, broker.groups)], look, broker.config.id)
