"""The server's addresses, as a FastAPI application."""

import asyncio
import importlib.resources
import time

from absl import logging
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from keras_bert_ref.commands import Options
from keras_bert_ref.serve import rest
from keras_bert_ref.serve.batching import Batcher, Overloaded
from keras_bert_ref.serve.metrics import Metrics

PAGE = importlib.resources.files("keras_bert_ref.serve") / "page.html"
# The page is one file, and talks to this server only.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'"
)


class Refused(Exception):
    """A request gets no answer.

    Args:
        status: int. Of HTTP.
        message: what is wrong, and what to do.
    """

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


def make_app(
    answer, inputs: tuple[str, ...], sample: dict, options: Options
) -> FastAPI:
    """Makes the application.

    Args:
        answer: see Batcher.
        inputs: names of the texts that the model takes.
        sample: an answer, for the metadata.
        options: the command's flags.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    batcher = Batcher(answer, options.max_batch_size, options.max_waiting)
    metrics = Metrics()
    page = PAGE.read_text(encoding="utf-8")
    page = page.replace("MODEL_NAME", options.name)
    page = page.replace("INPUT_NAMES", " ".join(inputs))

    def check_model(name: str, version: str = "1") -> None:
        if name != options.name or version != "1":
            raise Refused(
                404,
                f"There is no model {name} of version {version}; this server "
                f"has {options.name}, version 1.",
            )

    @app.get("/v1/models/{name}")
    @app.get("/v1/models/{name}/versions/{version}")
    async def status(name: str, version: str = "1"):
        check_model(name, version)
        return rest.describe_status()

    @app.get("/v1/models/{name}/metadata")
    @app.get("/v1/models/{name}/versions/{version}/metadata")
    async def metadata(name: str, version: str = "1"):
        check_model(name, version)
        return rest.describe_model(name, inputs, sample)

    @app.post("/v1/models/{name}:predict")
    @app.post("/v1/models/{name}/versions/{version}:predict")
    async def predict(request: Request, name: str, version: str = "1"):
        start = time.perf_counter()
        code = 500
        try:
            check_model(name, version)
            body = await read_body(request, options, batcher)
            response = JSONResponse(await answer_body(body))
            code = 200
            return response
        except Refused as refused:
            code = refused.status
            raise
        finally:
            metrics.add(code, time.perf_counter() - start)

    async def answer_body(body: bytes) -> dict:
        try:
            query = rest.parse(body, inputs, options.max_texts)
            answers = await asyncio.wait_for(
                batcher.ask(query.rows), options.request_timeout
            )
        except rest.TooMany as error:
            raise Refused(413, str(error)) from None
        except ValueError as error:
            raise Refused(400, str(error)) from None
        except Overloaded as error:
            raise Refused(503, str(error)) from None
        except asyncio.TimeoutError:
            raise Refused(
                504,
                f"There was no answer within {options.request_timeout:g} "
                "seconds; send fewer texts, or try again later.",
            ) from None
        return rest.format_answers(answers, query.by_columns)

    @app.get("/healthz")
    async def health():
        return {"status": "ok"}

    @app.get("/metrics")
    @app.get("/monitoring/prometheus/metrics")
    async def show_metrics():
        text = metrics.write(batcher.rows, batcher.batches)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    @app.get("/")
    async def show_page():
        headers = {"Content-Security-Policy": POLICY}
        return HTMLResponse(page, headers=headers)

    @app.exception_handler(Refused)
    async def refuse(_, refused: Refused):
        headers = {}
        if refused.status in (408, 413, 503):  # the rest of it is not read
            headers["Connection"] = "close"
        return _error(refused.status, str(refused), headers)

    @app.exception_handler(HTTPException)
    async def not_found(request: Request, error: HTTPException):
        where = f"{request.method} {request.url.path}"
        return _error(error.status_code, f"{error.detail}: {where}")

    @app.exception_handler(Exception)
    async def failed(_, error: Exception):
        logging.error("A request failed: %r", error)
        return _error(500, "The server failed; its log says how.")

    return app


async def read_body(
    request: Request, options: Options, batcher: Batcher
) -> bytes:
    """The body, if there is room for it, and it is small enough and comes in
    time."""
    try:
        batcher.check_room()
    except Overloaded as error:
        raise Refused(503, str(error)) from None
    limit = options.max_body_bytes
    too_large = Refused(
        413, f"A request may have {limit} bytes; send fewer or shorter texts."
    )
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise too_large

    async def read() -> bytes:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                raise too_large
        return body

    try:
        return await asyncio.wait_for(read(), options.body_timeout)
    except asyncio.TimeoutError:
        raise Refused(
            408,
            f"The request did not arrive within {options.body_timeout:g} "
            "seconds; send it faster.",
        ) from None
    except ClientDisconnect:
        raise Refused(400, "The client left before it had asked.") from None


def _error(status: int, message: str, headers=None) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers)
