"""Scores of single models on SQuAD's dev sets, tables 2 and 3 of the paper."""

V1 = {
    "Base": {"exact match": 80.8, "F1": 88.5},
    "Large": {"exact match": 84.1, "F1": 90.9},
}
V2 = {"Large": {"exact match": 78.7, "F1": 81.9}}


def published_scores(is_v2: bool, metric: str) -> dict[str, float]:
    """Scores in percent by model."""
    scores = V2 if is_v2 else V1
    return {f"dev: {model}": values[metric] for model, values in scores.items()}
