"""Published F1 on CoNLL-2003 (Devlin et al. 2019, table 7), in percent."""

CONLL_TYPES = ("LOC", "MISC", "ORG", "PER")
# On dev and on test.
FINE_TUNED = {"Large": (96.6, 92.8), "Base": (96.4, 92.4)}
# On dev, with Base.
FEATURES = {
    "embeddings": 91.0,
    "second_to_last": 95.6,
    "last": 94.9,
    "weighted_last_four": 95.9,
    "concat_last_four": 96.1,
    "weighted_all": 95.5,
}


def published_scores(metric: str) -> dict[str, float]:
    """Scores by set and model, of `f1` on dev or `test f1`."""
    place, name = {"f1": (0, "dev"), "test f1": (1, "test")}[metric]
    return {f"{name}: {k}": v[place] for k, v in FINE_TUNED.items()}


def published_features(metric: str) -> dict[str, float]:
    """Likewise, of features."""
    if metric != "f1":
        return {}
    return {f"dev: Base, {k}": v for k, v in FEATURES.items()}
