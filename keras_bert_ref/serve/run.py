"""Opens a model and serves it until SIGTERM or Ctrl-C."""

import functools

from absl import logging

from keras_bert_ref import heads
from keras_bert_ref.commands import Options
from keras_bert_ref.text.interfaces import answer_rows, find_inputs
from keras_bert_ref.text.loading import open_model
from keras_bert_ref.text.text_model import TextModel

KEEP_ALIVE = 5  # seconds a connection may idle


def main(options: Options, _words=()) -> None:
    check_packages()
    import uvicorn

    from keras_bert_ref.serve.app import make_app

    text_model = open_model(
        options.model,
        vocab_file=options.vocab_file,
        do_lower_case=options.do_lower_case,
        labels=options.labels,
        max_seq_length=options.max_seq_length,
    )
    inputs = find_inputs(text_model, options.model, options.pairs)
    answer = functools.partial(answer_rows, text_model, top_k=options.top_k)
    # The first question takes longest: TensorFlow compiles.
    sample = answer([sample_row(text_model, inputs)])[0]
    app = make_app(answer, inputs, sample, options)
    config = uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE,
    )
    logging.info(
        "Serving %s at http://%s:%d/.", options.name, options.host, options.port
    )
    # It ends on SIGTERM, once all it has accepted is answered.
    uvicorn.Server(config).run()


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
