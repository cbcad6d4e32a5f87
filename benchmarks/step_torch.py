"""Hugging Face's BERT on PyTorch, and its export for ONNX Runtime.

As a program it writes the optimised ONNX file that step_contenders.py runs.
"""

import json
import pathlib
import sys

# What all contenders have.
VOCABULARY = 30522
DROPOUT = 0.1
LEARNING_RATE = 2e-5
WEIGHT_DECAY = 0.01


def make_config(job: dict, **kwargs):
    import transformers

    layers, hidden, num_heads = job["shape"]
    return transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=num_heads,
        intermediate_size=4 * hidden,
        hidden_act="gelu" if job["is_erf"] else "gelu_new",
        hidden_dropout_prob=DROPOUT,
        attention_probs_dropout_prob=DROPOUT,
        num_labels=2,
        **kwargs,
    )


def make_pretraining(config):
    """Both tasks; words are predicted at the masked positions alone.

    BertForPreTraining itself predicts a word at every position.
    """
    import torch
    import transformers
    from torch.nn.functional import cross_entropy

    class Pretraining(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.BertForPreTraining(config)

        def forward(self, positions, words, labels, **inputs):
            outputs = self.model.bert(**inputs)
            rows = torch.arange(len(positions))[:, None]
            masked = outputs.last_hidden_state[rows, positions]
            logits, is_next = self.model.cls(masked, outputs.pooler_output)
            return cross_entropy(
                logits.flatten(0, 1), words.flatten()
            ) + cross_entropy(is_next, labels)

    return Pretraining()


def make_step(job: dict, make_batches, is_compiled: bool):
    """Imports PyTorch; returns a function that makes the step."""
    import torch
    import transformers

    names = {
        "input_ids": "input_ids",
        "attention_mask": "input_mask",
        "token_type_ids": "segment_ids",
        "labels": "label_ids",
    }
    if job["mode"] == "pretrain":
        names |= {"positions": "masked_lm_positions", "words": "masked_lm_ids"}
    model_class = transformers.BertForSequenceClassification

    def make():
        is_pretraining = job["mode"] == "pretrain"
        config = make_config(job)
        make_model = make_pretraining if is_pretraining else model_class
        model = make_model(config)
        # Lengths that change are one graph, not a graph each.
        widths = {max(lengths) for lengths in job["lengths"]}
        is_dynamic = True if len(widths) > 1 and not job["pad_to"] else None
        call = model
        if is_compiled:
            call = torch.compile(model, dynamic=is_dynamic)
        batches = [
            {
                theirs: torch.tensor(batch[ours], dtype=torch.long)
                for theirs, ours in names.items()
            }
            for batch in make_batches(job)
        ]

        def infer(i):
            with torch.inference_mode():
                return call(**batches[i % len(batches)]).logits.numpy()

        if job["mode"] == "infer":
            for batch in batches:
                del batch["labels"]
            model.eval()
            return infer

        optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=LEARNING_RATE,
            weight_decay=WEIGHT_DECAY,
            fused=True,
        )

        def train(i):
            loss = call(**batches[i % len(batches)])
            loss = loss if is_pretraining else loss.loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            return loss.item()

        model.train()
        return train

    return make


def export(job: dict, path: pathlib.Path) -> None:
    """Writes the float32 model as ONNX Runtime's optimizer leaves it."""
    import torch
    import transformers
    from onnxruntime.transformers import optimizer

    config = make_config(job, attn_implementation="eager")
    model = transformers.BertForSequenceClassification(config).eval()
    shape = (2, 16)
    inputs = {
        name: torch.ones(shape, dtype=torch.long)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    }
    plain = path.with_name("plain.onnx")
    axes = {0: "batch", 1: "length"}
    torch.onnx.export(
        model,
        (),
        plain,
        kwargs=inputs,
        input_names=list(inputs),
        output_names=["logits"],
        dynamic_axes=dict.fromkeys(inputs, axes),
        dynamo=False,
    )
    _, hidden, num_heads = job["shape"]
    optimised = optimizer.optimize_model(
        str(plain), model_type="bert", num_heads=num_heads, hidden_size=hidden
    )
    optimised.save_model_to_file(str(path))
    print(optimised.get_fused_operator_statistics())


if __name__ == "__main__":
    export(json.loads(sys.argv[1]), pathlib.Path(sys.argv[2]))
