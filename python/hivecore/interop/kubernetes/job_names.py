"""Names of jobs for what Kubernetes calls "namespace/name", as it writes them where it can."""

__all__ = ["job_name", "object_name"]


def job_name(name: str) -> str:
    """The name of a job for a gang or pod of any name; two never have the same.

    >>> job_name("default/train"), job_name("a//b"), job_name("a%b")
    ('default/train', 'a%2F%2Fb', 'a%25b')
    """
    written = name.replace("%", "%25")
    return written if all(written.split("/")) else written.replace("/", "%2F")


def object_name(job: str) -> str:
    """The name of which `job_name` made that of a job.

    >>> object_name("default/train"), object_name("a%2F%2Fb")
    ('default/train', 'a//b')
    """
    return job.replace("%2F", "/").replace("%25", "%")
