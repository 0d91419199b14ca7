"""How a job stands, for whoever shows or checks it."""

from hivecore._record import Record
from hivecore.decisions import Refusal
from hivecore.scheduler.actions import PlacedPod

__all__ = ["JobStatus"]


class JobStatus(Record, frozen=True):
    """How a job stands.

    :param state: "pending", "reserved" (others are to stop for it), "running", or "lent"
        (it runs on idle cells).
    :param pods: what it holds; of one that has stopped for another one until that one starts. Of
        one that is reserved: where it is to start.
    :param since: when it started, in seconds; ``None``: it does not run.
    :param victims: while it is reserved: who has to stop for it.
    :param for_job: for whom it has to stop; "": it does not have to.
    :param has_stopped: whether it has.
    :param shares: who is on the same GPUs, first the one that holds them, itself among them; none:
        it is alone.
    :param is_ending: it is gone for good when what it holds is given back.
    :param refusal: why it waits, as the last `Wait` said; ``None``: none was said since it came or
        stopped.
    """

    state: str
    pods: tuple[PlacedPod, ...] = ()
    since: float | None = None
    victims: tuple[str, ...] = ()
    for_job: str = ""
    has_stopped: bool = False
    is_ending: bool = False
    shares: tuple[str, ...] = ()
    refusal: Refusal | None = None
