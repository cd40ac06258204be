"""Requests and responses of Kafka's protocol: a class for each struct, with Kafka's names, and an `Api` for each pair.

`replica.wire.messages` encodes and decodes them.
"""

from __future__ import annotations

from typing import Any, Final

from replica.wire.api import ApiKey
from replica.wire.fields import Api
from replica.wire.schemas import (
    cluster_schemas,
    data_schemas,
    group_schemas,
    quota_schemas,
    reassignment_schemas,
    security_schemas,
    topic_schemas,
    transaction_schemas,
)

APIS: Final[dict[ApiKey, Api[Any, Any]]] = {
    api.key: api
    for module in (
        data_schemas,
        cluster_schemas,
        group_schemas,
        topic_schemas,
        reassignment_schemas,
        quota_schemas,
        transaction_schemas,
        security_schemas,
    )
    for api in module.APIS
}
