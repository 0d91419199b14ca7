"""Names of jobs, in which "/" is not allowed, for what Kubernetes calls "namespace/name"."""

__all__ = ["job_name", "object_name"]

_WRITTEN = str.maketrans({"%": "%25", ":": "%3A", "/": ":"})


def job_name(name: str) -> str:
    """The name of a job for this one, which has a slash perhaps; two never have the same.

    >>> job_name("default/train"), job_name("a:b")
    ('default:train', 'a%3Ab')
    """
    return name.translate(_WRITTEN)


def object_name(job: str) -> str:
    """The name of which `job_name` made that of a job.

    >>> object_name("default:train"), object_name("a%3Ab")
    ('default/train', 'a:b')
    """
    return job.replace(":", "/").replace("%3A", ":").replace("%25", "%")
