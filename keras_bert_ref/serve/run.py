"""Opens a model and serves it until SIGTERM or Ctrl-C."""

import math
import socket

from absl import logging

from keras_bert_ref import heads
from keras_bert_ref.commands import Options
from keras_bert_ref.text.interfaces import answer_rows, find_inputs
from keras_bert_ref.text.loading import open_model
from keras_bert_ref.text.text_model import TextModel

KEEP_ALIVE = 5  # seconds a connection may idle
GRACE = 10  # seconds for the last answers to be read


def main(options: Options, _words=()) -> None:
    check_packages()
    import uvicorn

    from keras_bert_ref.serve.app import make_app
    from keras_bert_ref.serve.connections import make_protocol

    listener = bind(options.host, options.port)
    text_model = open_model(
        options.model,
        vocab_file=options.vocab_file,
        do_lower_case=options.do_lower_case,
        labels=options.labels,
        max_seq_length=options.max_seq_length,
    )
    inputs = find_inputs(text_model, options.model, options.pairs)

    def answer(rows: list[dict], check=None) -> list[dict]:
        text_model.on_batch = check
        return answer_rows(text_model, rows, options.top_k)

    # The first question takes longest: TensorFlow compiles.
    sample = answer([sample_row(text_model, inputs)])[0]
    app = make_app(answer, inputs, sample, options)
    config = uvicorn.Config(
        app,
        http=make_protocol(options.body_timeout),
        log_level="warning",
        access_log=False,
        ws="none",
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=math.ceil(
            options.body_timeout + options.request_timeout + GRACE
        ),
    )
    host = f"[{options.host}]" if ":" in options.host else options.host
    port = listener.getsockname()[1]
    logging.info("Serving %s at http://%s:%d/.", options.name, host, port)
    # It ends on SIGTERM, once all it has accepted is answered.
    uvicorn.Server(config).run([listener])


def bind(host: str, port: int) -> socket.socket:
    """Takes the address, before anything that takes long; whoever connects is
    refused until the server listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(
            f"Nobody can listen at {host}, port {port} ({error}); end the "
            "program that does, or choose another --host or --port."
        ) from error
    return listener


def sample_row(text_model: TextModel, inputs: tuple[str, ...]) -> dict:
    """Texts that any model of its kind has an answer to."""
    vocab = text_model.tokenizer.vocab
    text = next((word for word in vocab if word.isalnum()), "a")
    if isinstance(text_model.model, heads.BertPretraining):
        text = f"{text} [MASK]"
    return dict.fromkeys(inputs, text)


def check_packages() -> None:
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"The server needs fastapi and uvicorn ({error}); install the "
            "extra: pip install 'keras_bert_ref[serve]'."
        ) from error
