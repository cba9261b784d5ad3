"""What goes wrong, in OpenAI's shape: {"error": {"message", "type", "param", "code"}}.

    ApiError
     |- bad_request    400, with the parameter that is wrong
     |- unauthorized   401
     |- forbidden      403
     |- not_found      404
     |- too_many       429, with Retry-After
     '- unavailable    503, with Retry-After

`api_error` translates what the layers below raise; the middleware (app.py) is the only caller.
"""

import math

from aiohttp import web

from agent.backups import BackupError
from agent.keys import KeyRefusedError
from agent.passes import PublishingError, UpdateRunningError
from agent.prompt import ContextLengthError
from agent.publishing import UnknownModelError
from agent.replay import IdempotencyMismatchError
from agent.schedule import ScheduleError
from memory.completions import EngineUnavailable, InferenceError
from memory.tokens import ChatTemplateError
from updater.adapter import AdapterUnusable

RETRY_AFTER_S = 2

INTERNAL = "internal_error"
"""Code of what nobody expected."""

_KNOWN: tuple[tuple[type[Exception], int, str, str | None], ...] = (
    (UnknownModelError, 404, "model_not_found", "model"),
    (ChatTemplateError, 400, "invalid_messages", "messages"),
    (ContextLengthError, 400, "context_length_exceeded", "messages"),
    (IdempotencyMismatchError, 422, "idempotency_key_reused", "Idempotency-Key"),
    (UpdateRunningError, 409, "update_running", None),
    (PublishingError, 409, "publishing", None),
    (BackupError, 409, "backup_refused", "to"),
    (KeyRefusedError, 409, "key_refused", "id"),
    (ScheduleError, 400, "invalid_schedule", "set"),
    (AdapterUnusable, 409, "adapter_unusable", None),
    (EngineUnavailable, 503, "engine_unavailable", None),
    (InferenceError, 500, "engine_error", None),
)
"""What the layers below raise for the client to see: status, code, parameter. The first that fits."""

ErrorBody = dict[str, dict[str, str | None]]


class ApiError(Exception):
    """An answer other than 200, with all the client is told."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        retry_after_s: float = RETRY_AFTER_S,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.code = code
        self.param = param
        self.retry_after_s = retry_after_s

    @property
    def body(self) -> ErrorBody:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}

    @property
    def headers(self) -> dict[str, str]:
        """Retry hints, or how to authenticate."""
        if self.status in (429, 503):
            return {
                "Retry-After": str(math.ceil(self.retry_after_s)),
                "retry-after-ms": str(math.ceil(self.retry_after_s * 1000)),
            }
        return {"WWW-Authenticate": "Bearer"} if self.status == 401 else {}


def bad_request(message: str, *, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def not_found(message: str) -> ApiError:
    return ApiError(404, message, code="not_found")


def forbidden(message: str) -> ApiError:
    return ApiError(403, message, kind="permission_error", code="forbidden")


def too_many(message: str, *, code: str, retry_after_s: float) -> ApiError:
    return ApiError(429, message, kind="rate_limit_error", code=code, retry_after_s=retry_after_s)


def unavailable(message: str, *, code: str) -> ApiError:
    return ApiError(503, message, kind="server_error", code=code)


def api_error(error: Exception) -> ApiError:
    """What the client is told of an error; an unexpected one says nothing of its insides."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, web.HTTPException):
        return ApiError(error.status, error.reason, code=_slug(error.reason))
    for raised, status, code, param in _KNOWN:
        if isinstance(error, raised):
            kind = "invalid_request_error" if status < 500 else "server_error"
            return ApiError(status, str(error.args[0]), kind=kind, code=code, param=param)
    return ApiError(500, "The daemon failed to answer; its log says why.", kind="server_error", code=INTERNAL)


def _slug(reason: str) -> str:
    return reason.lower().replace(" ", "_")
