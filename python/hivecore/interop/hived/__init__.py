"""HiveD's configuration, pods and extender protocol, for users of HiveD."""

from hivecore.interop.hived.configuration.config import HivedConfig
from hivecore.interop.hived.jobs import job_of_hived_pods
from hivecore.interop.hived.pod_decision import PodDecision
from hivecore.interop.hived.scheduler import HivedScheduler
from hivecore.interop.hived.serving.extender import Extender
from hivecore.interop.kubernetes.pods import RequestError
from hivecore.interop.kubernetes.problems import ConfigError

__all__ = [
    "ConfigError",
    "Extender",
    "HivedConfig",
    "HivedScheduler",
    "PodDecision",
    "RequestError",
    "job_of_hived_pods",
]
