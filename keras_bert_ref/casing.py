"""Whether vocabulary, casing and checkpoint belong together."""

from collections.abc import Iterable, Mapping

from absl import logging

from keras_bert_ref.tokenization import validate_case_matches_checkpoint


def has_capitals(vocabulary: Iterable[str]) -> bool:
    """Whether a vocabulary is of cased text.

    It is if a word, or a piece of one, changes when lower-cased. Tokens that
    are not letters alone do not count: [CLS] and <S> stand in the
    vocabularies of lower-cased text, too.
    """
    return any(
        token != token.lower() and token.removeprefix("##").isalpha()
        for token in vocabulary
    )


def check_casing(
    do_lower_case: bool,
    init_checkpoint: str | None,
    vocabulary: Mapping[str, int],
) -> None:
    """Raises if a released model's name contradicts the casing; warns if the
    vocabulary seems to.

    Args:
        do_lower_case: bool. What the tokenizer is told.
        init_checkpoint: path of a checkpoint or of its folder, or None.
        vocabulary: from token to id.
    """
    validate_case_matches_checkpoint(do_lower_case, init_checkpoint)
    is_cased = has_capitals(vocabulary)
    if is_cased and do_lower_case:
        logging.warning(
            "--do_lower_case=True, but the vocabulary has words with capital "
            "letters, which no text will match; is the model a cased one?"
        )
    if not is_cased and not do_lower_case:
        logging.warning(
            "--do_lower_case=False, but no word of the vocabulary has capital "
            "letters, so words that do will be [UNK]; is the model uncased?"
        )


def check_vocabulary_size(
    vocabulary: Mapping[str, int], vocab_size: int
) -> None:
    """Raises if a model has more or fewer words than its vocabulary."""
    size = 1 + max(vocabulary.values())
    if size != vocab_size:
        raise ValueError(
            f"The vocabulary has {size} entries, but the model's vocab_size "
            f"is {vocab_size}: --vocab_file and --bert_config_file must be of "
            "the same model."
        )
