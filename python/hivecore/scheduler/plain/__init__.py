"""Jobs, actions and what parts are made of as plain data, for logs, files and HTTP, and back."""

from hivecore.scheduler.plain.jobs_and_actions import (
    action_of_plain,
    job_of_plain,
    plain_action,
    plain_job,
)
from hivecore.scheduler.plain.parts import (
    inventory_of_plain,
    plain_inventory,
    plain_node,
    plain_quota,
    plain_spec,
    quota_of_plain,
    spec_of_plain,
)

__all__ = [
    "action_of_plain",
    "inventory_of_plain",
    "job_of_plain",
    "plain_action",
    "plain_inventory",
    "plain_job",
    "plain_node",
    "plain_quota",
    "plain_spec",
    "quota_of_plain",
    "spec_of_plain",
]
