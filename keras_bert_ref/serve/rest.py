"""TensorFlow Serving's REST format: JSON -> rows of texts, and answers -> JSON.

By rows, `{"instances": [...]}` gives `{"predictions": [...]}`; by columns,
`{"inputs": {...}}` gives `{"outputs": {...}}`. Where there is one input or
output only, its name may be left out, and is.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import NamedTuple

from keras_bert_ref import files

SIGNATURE = "serving_default"
KEYS = {"instances", "inputs", "signature_name"}
FORM = '{"instances": [...]} or {"inputs": {...}}'


class TooMany(ValueError):
    """A request has more texts than may be asked about at once."""


class Query(NamedTuple):
    """What a request asks.

    Attributes:
        rows: a dictionary of texts for each answer that is wanted.
        by_columns: bool. Whether answers are given by columns.
    """

    rows: list[dict]
    by_columns: bool


def parse(body: bytes, inputs: Sequence[str], max_texts: int) -> Query:
    """Reads a request.

    Args:
        inputs: names of the texts that the model takes.
        max_texts: int. So many rows a request may have.

    Raises:
        ValueError: it is not what the format allows.
    """
    query = files.parse_json(body, "The request", f"send {FORM}")
    if not isinstance(query, dict):
        raise ValueError(f"A request must be an object: {FORM}.")
    unknown = sorted(query.keys() - KEYS)
    if unknown or ("instances" in query) == ("inputs" in query):
        found = ", ".join(sorted(query)) or "none"
        raise ValueError(
            f"A request has one of the keys instances and inputs, and "
            f"signature_name perhaps; got {found}. Send {FORM}."
        )
    signature = query.get("signature_name", SIGNATURE)
    if signature not in (SIGNATURE, ""):
        raise ValueError(
            f"There is no signature {signature!r}; the server has {SIGNATURE}."
        )
    by_columns = "inputs" in query
    if by_columns:
        rows = _read_columns(query["inputs"], inputs)
    else:
        rows = _read_instances(query["instances"], inputs)
    if len(rows) > max_texts:
        raise TooMany(
            f"A request may have {max_texts} texts or pairs, got {len(rows)}; "
            "send several."
        )
    return Query(rows, by_columns)


def _read_instances(instances, inputs: Sequence[str]) -> list[dict]:
    if not isinstance(instances, list) or not instances:
        raise ValueError("instances must be a list of one or more.")
    return [_read_row(row, inputs) for row in instances]


def _read_row(row, inputs: Sequence[str]) -> dict:
    is_named = isinstance(row, dict) and row.keys() != {"b64"}
    if not is_named and len(inputs) == 1:
        row = {inputs[0]: row}
    _check_names(row, inputs, "An instance")
    return {name: _read_text(row[name], name) for name in inputs}


def _read_columns(columns, inputs: Sequence[str]) -> list[dict]:
    if isinstance(columns, list) and len(inputs) == 1:
        columns = {inputs[0]: columns}
    _check_names(columns, inputs, "inputs")
    for name in inputs:
        if not isinstance(columns[name], list) or not columns[name]:
            raise ValueError(f"{name} must be a list of one or more texts.")
    counts = [len(columns[name]) for name in inputs]
    if len(set(counts)) > 1:
        raise ValueError(
            f"{' and '.join(inputs)} must hold as many texts, got "
            f"{' and '.join(map(str, counts))}."
        )
    return [
        {n: _read_text(t, n) for n, t in zip(inputs, texts, strict=True)}
        for texts in zip(*(columns[name] for name in inputs), strict=True)
    ]


def _check_names(values, inputs: Sequence[str], what: str) -> None:
    if not isinstance(values, dict) or set(values) != set(inputs):
        found = type(values).__name__
        if isinstance(values, dict):
            found = ", ".join(sorted(values)) or "no keys"
        raise ValueError(
            f"{what} must be an object with {' and '.join(inputs)}, got "
            f"{found}."
        )


def _read_text(text, name: str) -> str | bytes:
    if isinstance(text, dict) and text.keys() == {"b64"}:
        try:
            return base64.b64decode(text["b64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise ValueError(f"The b64 of {name} is not base64.") from None
    if not isinstance(text, str):
        raise ValueError(f"{name} must be a string, got {type(text).__name__}.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(
            f"{name} holds half of a surrogate pair, which is no character."
        ) from None
    return text


def format_answers(answers: list[dict], by_columns: bool) -> dict:
    """Lays answers out as they were asked for."""
    names = list(answers[0])
    if not by_columns:
        rows = answers if len(names) > 1 else [a[names[0]] for a in answers]
        return {"predictions": rows}
    columns = {name: [a[name] for a in answers] for name in names}
    return {"outputs": columns if len(names) > 1 else columns[names[0]]}


def describe_status() -> dict:
    status = {"error_code": "OK", "error_message": ""}
    version = {"version": "1", "state": "AVAILABLE", "status": status}
    return {"model_version_status": [version]}


def describe_model(name: str, inputs: Sequence[str], sample: dict) -> dict:
    """The metadata of a model.

    Args:
        sample: an answer, which shows names and types of outputs.
    """
    signature = {
        "inputs": {n: _describe_tensor(n, "") for n in inputs},
        "outputs": {n: _describe_tensor(n, x) for n, x in sample.items()},
        "method_name": "tensorflow/serving/predict",
    }
    spec = {"name": name, "signature_name": "", "version": "1"}
    return {
        "model_spec": spec,
        "metadata": {
            "signature_def": {"signature_def": {SIGNATURE: signature}}
        },
    }


def _describe_tensor(name: str, value) -> dict:
    rank = 1
    while isinstance(value, list) and value:
        value, rank = value[0], rank + 1
    return {
        "dtype": "DT_STRING" if isinstance(value, str) else "DT_FLOAT",
        "tensor_shape": {
            "dim": [{"size": "-1", "name": ""}] * rank,
            "unknown_rank": False,
        },
        "name": f"{SIGNATURE}_{name}:0",
    }
