"""A trained BERT outside of any file: what the converters hand each other."""

import dataclasses
import os
import reprlib

import numpy as np

from keras_bert_ref import files, text_files
from keras_bert_ref.casing import has_capitals
from keras_bert_ref.checkpoints import compatibility
from keras_bert_ref.config import BertConfig
from keras_bert_ref.modeling import BertModel
from keras_bert_ref.network import original_name

RECORD_FILE = "run.json"
TAGGING = "ner"  # the task of a model whose classes are of tokens


@dataclasses.dataclass
class Pretrained:
    """Config, weights and vocabulary of a BERT.

    Attributes:
        source: where it came from, for messages.
        config: BertConfig.
        tensors: float32 arrays under the original's variable names.
        vocabulary: the bytes of vocab.txt; None if there was none.
        do_lower_case: what the source says of its tokenizer; None: nothing.
        record: what is known of its training, by the names of run.json
            (training/run_record.py): task, labels and so on. {}: nothing.
        left_out: what the source had besides, a line of text each.
    """

    source: str
    config: BertConfig
    tensors: dict[str, np.ndarray]
    vocabulary: bytes | None = None
    do_lower_case: bool | None = None
    record: dict = dataclasses.field(default_factory=dict)
    left_out: list[str] = dataclasses.field(default_factory=list)

    @classmethod
    def of(cls, model) -> "Pretrained":
        """Takes the weights of a BertModel or of a model with a head."""
        if not model.built:
            model.build()
        tensors = {original_name(v): v.numpy() for v in model.weights}
        return cls(f"the model {model.name}", model.config, tensors)

    def leave_out(self, kind: str, names) -> None:
        """Notes things of one kind that were not taken along."""
        if names:
            self.left_out.append(f"{kind}: {', '.join(sorted(names))}")

    def build(self, model_class=BertModel, **kwargs):
        """Makes a model of this config and fills it.

        Args:
            model_class: BertModel or a model with a head.
            **kwargs: further arguments of the class, such as num_labels.
        """
        model = model_class(self.config, **kwargs)
        self.fill(model)
        return model

    def fill(self, model) -> list[str]:
        """Assigns the weights to a model of the same config.

        Returns:
            The names of the model's weights that are not here: of the pooler
            or a head. They keep their values.
        """
        if not model.built:
            model.build()
        variables = {original_name(v): v for v in model.weights}
        missing = self.check({n: v.shape for n, v in variables.items()})
        for name in variables.keys() - set(missing):
            variables[name].assign(self.tensors[name])
        return missing

    def check(self, shapes: dict[str, tuple[int, ...]]) -> list[str]:
        """Compares with the shapes that somebody wants.

        Returns:
            The names of what is not here, none of it part of the encoder.

        Raises:
            ValueError: a weight of the encoder is not here, a shape is
                another, embeddings are factorised, or only one side has a
                BiLSTM below its head.
        """
        here = {name: value.shape for name, value in self.tensors.items()}
        compatibility.check_embedding_size(self.source, here, self.config)
        missing = [name for name in shapes if name not in here]
        compatibility.check_encoder(self.source, missing, sorted(here))
        compatibility.check_bilstm(self.source, shapes, here)
        for name in shapes.keys() - set(missing):
            compatibility.check_shape(
                self.source, name, shapes[name], here[name]
            )
        return missing

    def check_finite(self) -> None:
        """Raises where a weight is not a number: not every format has
        checksums, and a training may have gone wrong."""
        for name, value in self.tensors.items():
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                raise ValueError(
                    f"The weights {name} of {self.source} are not all finite; "
                    "copy or download the model again, or take an earlier "
                    "checkpoint of its training."
                )

    def lower_cases(self) -> bool:
        """Whether text is lower-cased before it is cut into words.

        If the source did not say, the vocabulary does: that of a cased model
        has capital letters.
        """
        if self.do_lower_case is not None:
            return self.do_lower_case
        lines = self.vocabulary.decode("utf-8").split("\n")
        return not has_capitals(line.strip() for line in lines)


def read_vocabulary(folder: str, file: str) -> bytes | None:
    """The vocabulary of a folder, if there is one; it must have words."""
    if not files.exists(folder, file):
        return None
    content = files.read(folder, file)
    path = os.path.join(folder, file)
    if not text_files.decode(content, path, first_line=1).strip():
        raise ValueError(
            f"A vocabulary needs one token a line, but {path} is empty; copy "
            "the file again, or remove it."
        )
    return content


def check_lower_case(value: object, path: str) -> bool | None:
    """What a file says of lower-casing, if anything."""
    if value is not None and not isinstance(value, bool):
        raise ValueError(
            "Whether text is lower-cased must be true or false, but "
            f"{path} has {reprlib.repr(value)}; correct it."
        )
    return value
