"""Who may do what, and what is kept of passwords."""

from __future__ import annotations

from typing import Final

from replica.wire.api import ApiKey
from replica.wire.fields import Api, i8, i16, i32, message, octets, structs, text

LITERAL: Final = 3
"""The kind of pattern that there was before patterns had kinds."""

_FILTER: Final = (
    i8("resource_type_filter"),
    text("resource_name_filter", null=0),
    i8("pattern_type_filter", since=1, default=LITERAL),
    text("principal_filter", null=0),
    text("host_filter", null=0),
    i8("operation"),
    i8("permission_type"),
)

DESCRIBE_ACLS: Final = Api(
    ApiKey.DESCRIBE_ACLS,
    0,
    3,
    2,
    request=_FILTER,
    reply=(
        i32("throttle_time_ms"),
        i16("error_code"),
        message("error_message", null=0),
        structs(
            "resources",
            (
                i8("resource_type"),
                text("resource_name"),
                i8("pattern_type", since=1, default=LITERAL),
                structs("acls", (text("principal"), text("host"), i8("operation"), i8("permission_type"))),
            ),
        ),
    ),
)

CREATE_ACLS: Final = Api(
    ApiKey.CREATE_ACLS,
    0,
    3,
    2,
    request=(
        structs(
            "creations",
            (
                i8("resource_type"),
                text("resource_name"),
                i8("resource_pattern_type", since=1, default=LITERAL),
                text("principal"),
                text("host"),
                i8("operation"),
                i8("permission_type"),
            ),
        ),
    ),
    reply=(i32("throttle_time_ms"), structs("results", (i16("error_code"), message("error_message", null=0)))),
)

DELETE_ACLS: Final = Api(
    ApiKey.DELETE_ACLS,
    0,
    3,
    2,
    request=(structs("filters", _FILTER),),
    reply=(
        i32("throttle_time_ms"),
        structs(
            "filter_results",
            (
                i16("error_code"),
                message("error_message", null=0),
                structs(
                    "matching_acls",
                    (
                        i16("error_code"),
                        message("error_message", null=0),
                        i8("resource_type"),
                        text("resource_name"),
                        i8("pattern_type", since=1, default=LITERAL),
                        text("principal"),
                        text("host"),
                        i8("operation"),
                        i8("permission_type"),
                    ),
                ),
            ),
        ),
    ),
)

DESCRIBE_USER_SCRAM_CREDENTIALS: Final = Api(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    0,
    0,
    0,
    request=(structs("users", (text("name"),), null=0),),
    reply=(
        i32("throttle_time_ms"),
        i16("error_code"),
        message("error_message", null=0),
        structs(
            "results",
            (
                text("user"),
                i16("error_code"),
                message("error_message", null=0),
                structs("credential_infos", (i8("mechanism"), i32("iterations"))),
            ),
        ),
    ),
)

ALTER_USER_SCRAM_CREDENTIALS: Final = Api(
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    0,
    0,
    0,
    request=(
        structs("deletions", (text("name"), i8("mechanism"))),
        structs(
            "upsertions",
            (text("name"), i8("mechanism"), i32("iterations"), octets("salt"), octets("salted_password")),
        ),
    ),
    reply=(
        i32("throttle_time_ms"),
        structs("results", (text("user"), i16("error_code"), message("error_message", null=0))),
    ),
)

APIS: Final = (
    DESCRIBE_ACLS,
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    ALTER_USER_SCRAM_CREDENTIALS,
)
