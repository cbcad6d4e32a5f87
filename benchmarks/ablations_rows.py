"""What benchmarks/ablations.py compares: records, models, rows, tasks."""

LENGTH, PREDICTIONS, BATCH_SIZE, VOCAB_SIZE = 64, 10, 64, 4000
FREQUENCIES = "word frequencies"
SEEDS = 3

# Of records: the shares of [MASK] and of words that stay.
MASKING = {
    "80/10/10": (0.8, 0.1),
    "100/0/0": (1.0, 0.0),
    "0/0/100": (0.0, 0.0),
}
# Of models: what they are called, their records, direction and flags.
MODELS = {
    "mlm_nsp": ("MLM and NSP", "80/10/10", "bidi", ["--seed=1"]),
    "mlm_nsp_2": ("the same, another seed", "80/10/10", "bidi", ["--seed=2"]),
    "no_nsp": ("no NSP", "80/10/10", "bidi", ["--nonext_sentence_loss"]),
    "ltr": ("left to right, no NSP", "80/10/10", "ltr", []),
    **{
        name: (
            f"masked {masking}, rate 3e-4",
            masking,
            "bidi",
            ["--learning_rate=3e-4"],
        )
        for name, masking in (
            ("mask_80", "80/10/10"),
            ("mask_100", "100/0/0"),
            ("random_100", "0/0/100"),
        )
    },
}
# Of rows of the table: the model, the share of its steps, further flags.
ROWS = {name: (name, 1.0, []) for name in MODELS}
ROWS["random"] = (None, 1.0, [])
ROWS |= {
    f"{name}_bilstm": (*ROWS[name][:2], ["--bilstm_units=128"])
    for name in ("ltr", "no_nsp", "random")
}
FIGURE_5 = {
    f"{name}_at_{part}": (name, part / 3, [])
    for name in ("mlm_nsp", "ltr")
    for part in (1, 2)
}
TASKS = {"sst2": "eval_accuracy", "ner": "eval_f1"}
