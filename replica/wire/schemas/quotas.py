"""How much clients may produce and fetch."""

from __future__ import annotations

from typing import Final

from replica.wire.api import ApiKey
from replica.wire.fields import Api, boolean, f64, i8, i16, i32, message, structs, text

_ENTITY: Final = structs("entity", (text("entity_type"), text("entity_name", null=0)))

DESCRIBE_CLIENT_QUOTAS: Final = Api(
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    0,
    1,
    1,
    request=(
        structs("components", (text("entity_type"), i8("match_type"), text("match", null=0))),
        boolean("strict"),
    ),
    reply=(
        i32("throttle_time_ms"),
        i16("error_code"),
        message("error_message", null=0),
        structs("entries", (_ENTITY, structs("values", (text("key"), f64("value")))), null=0),
    ),
)

ALTER_CLIENT_QUOTAS: Final = Api(
    ApiKey.ALTER_CLIENT_QUOTAS,
    0,
    1,
    1,
    request=(
        structs("entries", (_ENTITY, structs("ops", (text("key"), f64("value"), boolean("remove"))))),
        boolean("validate_only"),
    ),
    reply=(
        i32("throttle_time_ms"),
        structs("entries", (i16("error_code"), message("error_message", null=0), _ENTITY)),
    ),
)

APIS: Final = (DESCRIBE_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS)
