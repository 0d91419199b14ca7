"""Whether what a scheduler tells to do keeps every rule, counted again in plain Python.

Nothing here decides anything: it reads what the parts and the scheduler say in public, and adds up
who has what. Stages and kernels are not asked whether something fits; of quotas alone, what they
may use now is taken as the tree says it, and of device claims the evaluator of selectors is used.
"""

from hivecore.verify.starts import verify_actions, verify_start

__all__ = ["verify_actions", "verify_start"]
