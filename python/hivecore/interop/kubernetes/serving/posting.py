"""A binder at an address of one's own: the object that binds a pod is posted to it."""

from typing import Any

from hivecore.interop.kubernetes.json_text import write_json

__all__ = ["PostingBinder"]

_SECONDS = 10.0


class PostingBinder:
    """Posts bindings as JSON; connections are kept.

    :param url: a status of 2xx says that the pod is bound, 404 that there is no such pod.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: Any = None

    async def __call__(self, binding: dict[str, Any]) -> None:
        """Have a pod bound.

        :raises LookupError: there is no such pod.
        :raises RuntimeError: it is not bound.
        """
        from aiohttp import ClientError, ClientSession, ClientTimeout

        if self._session is None:
            self._session = ClientSession(timeout=ClientTimeout(total=_SECONDS))
        headers = {"Content-Type": "application/json"}
        data = write_json(binding)
        try:
            async with self._session.post(self._url, data=data, headers=headers) as answer:
                text = (await answer.text(errors="replace"))[:200]
        except (OSError, TimeoutError, ClientError) as error:
            raise RuntimeError(f"the binder does not answer: {error}") from None
        said = f"{text or 'no message'} (status {answer.status})"
        if answer.status == 404:
            raise LookupError(said)
        if not 200 <= answer.status < 300:
            raise RuntimeError(said)

    async def close(self) -> None:
        """End its connections."""
        if self._session is not None:
            await self._session.close()
