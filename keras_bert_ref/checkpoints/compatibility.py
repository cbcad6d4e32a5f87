"""Whether the weights of a checkpoint fit a model, and if not, why.

Every check raises a ValueError that names the cause.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from keras_bert_ref.config import BertConfig

# What the encoder cannot do without. Pooler and heads may be missing: many
# published checkpoints lack them, and fine-tuning starts its head anew.
ENCODER_PREFIXES = (
    "bert/embeddings/",
    "bert/encoder/",
    "bert_rtl/embeddings/",
    "bert_rtl/encoder/",
)

# Between encoder and head, see bilstm.py; and what a head has after it.
BILSTM_PREFIX = "bilstm/"
HEADS = ("output_weights", "cls/squad/output_weights")


def check_embedding_size(
    source: str,
    shapes: Mapping[str, Sequence[int]],
    config: BertConfig | None = None,
) -> None:
    """Raises if embeddings have another size than the layers above them.

    Args:
        source: where the weights come from.
        shapes: of its weights, by their names.
        config: of the model. An embedding_size in it counts too.
    """
    sizes = []  # of embeddings and of hidden layers
    if getattr(config, "embedding_size", None) is not None:
        sizes.append((config.embedding_size, config.hidden_size))
    # A file may hold several models; the first part of a name tells which.
    tables = _sizes(shapes, "embeddings/word_embeddings", axis=1)
    queries = _sizes(shapes, "self/query/kernel", axis=0)
    sizes += [(tables[m], queries[m]) for m in tables if m in queries]
    for embedding_size, hidden_size in sizes:
        if embedding_size != hidden_size:
            raise ValueError(
                f"{source} has factorised embeddings, as ALBERT and ELECTRA "
                f"have: embedding_size={embedding_size}, "
                f"hidden_size={hidden_size}. BERT has one size for both, so "
                "this is another model and not supported; use a checkpoint "
                "of BERT."
            )


def check_encoder(
    source: str, missing: Iterable[str], names: Sequence[str]
) -> None:
    """Raises if a weight of the encoder is missing.

    Args:
        source: where the weights come from.
        missing: what the model has and the source lacks.
        names: what the source has.
    """
    lacking = [name for name in missing if name.startswith(ENCODER_PREFIXES)]
    if lacking:
        raise ValueError(
            f"{source} lacks {len(lacking)} weights of the encoder, among "
            f"them {lacking[0]}. Either the config has more layers than the "
            "checkpoint, or the checkpoint is not a BERT; it has "
            f"{', '.join(names[:3])}, ..."
        )


def check_bilstm(
    source: str, ours: Collection[str], theirs: Mapping[str, Sequence[int]]
) -> None:
    """Raises if a head was trained on a BiLSTM and is used without, or the
    other way round: the shapes may fit all the same.

    Args:
        source: where the weights come from.
        ours: names of the model's weights.
        theirs: shapes of the source's weights, by their names.
    """
    if not any(name in ours and name in theirs for name in HEADS):
        return
    units = [
        shape[0]
        for name, shape in theirs.items()
        if name.startswith(BILSTM_PREFIX) and name.endswith("recurrent_kernel")
    ]
    is_ours = any(name.startswith(BILSTM_PREFIX) for name in ours)
    if is_ours == bool(units):
        return
    if units:
        raise ValueError(
            f"The head in {source} was trained on a BiLSTM, which the model "
            f"does not have; set --bilstm_units={units[0]}."
        )
    raise ValueError(
        f"The head in {source} was trained without a BiLSTM, but the model "
        "has one; leave --bilstm_units out, or start from a pre-trained "
        "checkpoint."
    )


def check_direction(source: str, ours: str, theirs: str) -> None:
    """Raises if a model reads in another direction than the source does."""
    if ours != theirs:
        raise ValueError(
            f"{source} was trained with directionality={theirs}, but the "
            f"config of the model has {ours}: its numbers would mean nothing. "
            "Use the bert_config.json that came with the checkpoint."
        )


def check_shape(
    source: str, name: str, ours: Sequence[int], theirs: Sequence[int]
) -> None:
    """Raises if a weight has another shape in the model than in the source."""
    ours, theirs = list(ours), list(theirs)
    if ours == theirs:
        return
    has_a_row_per_token = (
        "word_embeddings" in name or name == "cls/predictions/output_bias"
    )
    if has_a_row_per_token and ours[0] != theirs[0]:
        cause = (
            f"the config's vocab_size is {ours[0]}, the checkpoint's "
            f"vocabulary has {theirs[0]} entries: use the bert_config.json "
            "and vocab.txt that came with the checkpoint"
        )
    elif name.startswith("bert/"):
        cause = (
            "the config is another model's: use the bert_config.json that "
            "came with the checkpoint"
        )
    else:
        cause = (
            "the checkpoint's head was made for another task or another "
            "number of labels: start from a pre-trained checkpoint, or build "
            "the model for the same labels"
        )
    raise ValueError(
        f"{name} has the shape {ours} in the model and {theirs} in {source}. "
        f"Most likely {cause}."
    )


def _sizes(shapes: Mapping[str, Sequence[int]], ending: str, axis: int) -> dict:
    """The size of an axis of the weights with such a name, by model."""
    return {
        name.split("/")[0]: shape[axis]
        for name, shape in shapes.items()
        if name.endswith(f"/{ending}")
    }
