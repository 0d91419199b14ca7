"""Checks in plain Python that a scheduler's actions obey every rule.

It decides nothing: it reads the public state of the scheduler and its parts, and adds up what each
job has. Stages and kernels are not asked whether something fits; only the runtimes of quotas and
the evaluator of device selectors are used.
"""

from hivecore.verify.starts import verify_actions, verify_start

__all__ = ["verify_actions", "verify_start"]
