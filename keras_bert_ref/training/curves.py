"""Metrics over steps, in training and in evaluation; curves.png."""

import io
import os
from collections.abc import Mapping, Sequence

from keras_bert_ref import files
from keras_bert_ref.training import evaluations, progress

CURVES_FILE = "curves.png"
TRAINING, EVALUATION = "training", "evaluation"

Points = list[tuple[int, float]]


def read_curves(
    output_dir: str, names: Sequence[str]
) -> dict[str, dict[str, Points]]:
    """For each metric that there is, its lines.

    Args:
        names: of metrics; results of evaluations go by the same names, with
            or without `eval_` before them.
    """
    trained = progress.read_metrics(output_dir)
    evaluated = evaluations.read_evals(output_dir)
    curves = {}
    for name in dict.fromkeys(x.removeprefix("eval_") for x in names):
        lines = {
            TRAINING: _points(trained, name),
            EVALUATION: _points(evaluated, f"eval_{name}", name),
        }
        lines = {kind: points for kind, points in lines.items() if points}
        if lines:
            curves[name] = lines
    return curves


def _points(lines: Sequence[Mapping], *names: str) -> Points:
    """The first of some names that a line has, over steps."""
    found = []
    for line in lines:
        values = [line[name] for name in names if line.get(name) is not None]
        if values:
            found.append((line["step"], values[0]))
    return found


def draw_curves(output_dir: str, names: Sequence[str]) -> str | None:
    """Draws metrics over steps into curves.png, one panel each."""
    curves = read_curves(output_dir, names)
    if not any(p[1:] for lines in curves.values() for p in lines.values()):
        return None
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(
        1, len(curves), figsize=(4 * len(curves), 3), squeeze=False
    )
    for panel, (name, lines) in zip(panels[0], curves.items(), strict=True):
        for kind, points in lines.items():
            style = "o-" if kind == EVALUATION else "-"
            panel.plot(*zip(*points, strict=True), style, ms=3, label=kind)
        panel.set_title(name.replace("_", " "))
        panel.set_xlabel("step")
        panel.grid(alpha=0.3)
        if EVALUATION in lines:
            panel.legend()
    figure.tight_layout()
    path = os.path.join(output_dir, CURVES_FILE)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=120)
    pyplot.close(figure)
    files.replace(path, image.getvalue())
    return path
