"""A model small enough for any test."""

from keras_bert_ref.config import BertConfig

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def tiny(**changes) -> BertConfig:
    """One layer, with sizes that are all different."""
    sizes = {
        "vocab_size": 50,
        "hidden_size": 24,
        "num_hidden_layers": 1,
        "num_attention_heads": 3,
        "intermediate_size": 40,
        "max_position_embeddings": 16,
        "type_vocab_size": 2,
    }
    return BertConfig(**{**sizes, **changes})
