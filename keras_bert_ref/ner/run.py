"""The body of run_ner.py; docs/NER.md tells how to use it."""

import os

from absl import logging

from keras_bert_ref import flags, heads, modeling
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.commands import Options
from keras_bert_ref.ner import (
    feature_tagger,
    files,
    metrics,
    predictions,
    rows,
    splits,
    vectors,
)
from keras_bert_ref.ner.objective import TAGGING
from keras_bert_ref.training import (
    distribution,
    fine_tuning,
    report,
    run_record,
    setup,
    trials,
)


def main(options: Options, _words=()) -> None:
    planned = trials.plan_from_options(options, features=options.features)
    policy = setup.choose_policy(options)
    config = setup.read_config(options)
    depth = config.num_hidden_layers
    layers = rows.layers_of_all(options.features, depth)
    tokenizer = setup.read_tokenizer(options, config)
    model_dir = planned[0].options.output_dir
    labels, data = prepare(options, tokenizer, model_dir)
    strategy = setup.choose_devices(options)
    folder = os.path.join(setup.worker_dir(options), vectors.FOLDER)
    if layers:
        is_chief = distribution.is_chief(strategy)
        data = prepare_features(options, config, folder, data, layers, is_chief)

    def build(options: Options):
        if options.features:
            model = feature_tagger.FeatureTagger(
                config,
                num_labels=len(labels),
                num_layers=len(rows.layers_of(options.features, depth)),
                is_weighted=rows.is_weighted(options.features),
                units=options.lstm_units,
                skip_padding=setup.skips_padding(options),
            )
        else:
            model = heads.BertTagger(
                config,
                num_labels=len(labels),
                dtype=policy,
                skip_padding=setup.skips_padding(options),
                bilstm_units=options.bilstm_units,
            )
        model.build()
        return model

    def find(options: Options, name: str) -> splits.PreparedSplit:
        """A split; for features, with those that a trial wants."""
        if not options.features:
            return data[name]
        return vectors.add_vectors(
            data[name], folder, name, options.features, depth
        )

    tuning = fine_tuning.FineTuning(
        task="ner",
        labels=labels,
        ranking=predictions.make_ranking(labels, bool(layers)),
        objective=TAGGING,
        build=build,
        train_records=lambda options: find(options, "train").records,
        evaluate=lambda *arguments: evaluate(*arguments, labels, find),
        predict=lambda *arguments: predict(*arguments, labels, find),
        starts_from_checkpoint=not layers,
    )
    fine_tuning.run(tuning, options, planned, strategy, config)


def prepare_features(
    options: Options, config, folder, data, layers, is_chief: bool
) -> dict:
    """Runs the encoder where that has not been done; returns the splits as
    words instead of pieces."""
    prefix = tf1.find_prefix(options.init_checkpoint)
    digests = vectors.digests_of_encoder(prefix, config)
    vectors.check_trained(options.output_dir, digests)

    def load_encoder() -> modeling.BertModel:
        encoder = modeling.BertModel(config)
        tf1.load(encoder, prefix)
        return encoder

    vectors.prepare(
        folder,
        digests,
        data,
        layers,
        load_encoder,
        batch_size=options.predict_batch_size,
        length_multiple=setup.length_multiple(options),
        skip_padding=setup.skips_padding(options),
    )
    if is_chief:
        vectors.keep_encoder(options.output_dir, digests)
    return {
        name: vectors.word_split(
            split, os.path.join(folder, f"{name}.tf_record")
        )
        for name, split in data.items()
    }


def prepare(options: Options, tokenizer, model_dir: str):
    """The labels, and all splits that are needed.

    Args:
        model_dir: where a model may have been trained before.
    """
    actions = flags.chosen_actions(options)
    names = {"train": "train", "eval": "dev", "predict": "test"}
    wanted = [names[action] for action in actions]
    if options.do_eval and options.eval_on_test and "test" not in wanted:
        wanted.append("test")
    found = splits.read_files(options, wanted)
    labels = splits.find_labels(
        found.get("train"), run_record.read(model_dir), model_dir
    )
    found = {
        name: files.check_labels(file, labels, splits.is_scored(options, name))
        for name, file in found.items()
    }
    data = {
        name: splits.prepare(
            options, name, file, labels, tokenizer, setup.records_dir(options)
        )
        for name, file in found.items()
    }
    return labels, data


def compute_logits(model, options: Options, split, batch_size: int):
    return predictions.predict(
        model,
        split.records,
        split.windows,
        batch_size=batch_size,
        length_multiple=setup.length_multiple(options),
        jit_compile=options.jit_compile,
    )


def evaluate(model, options: Options, labels, find):
    """Scores on dev, and on test if asked to; writes dev_predictions.txt.
    Returns examples of dev besides."""
    parts = {"dev": "eval_"}
    if options.eval_on_test:
        parts["test"] = "test_"
    results, examples = {}, []
    for name, prefix in parts.items():
        split = find(options, name)
        logits = compute_logits(model, options, split, options.eval_batch_size)
        scores = predictions.score(logits, split.data, labels, split.label_ids)
        results |= {prefix + key: value for key, value in scores.items()}
        chosen = write(options.output_dir, name, split, logits, labels)
        if name == "dev":
            shown = predictions.read_examples(split.data, chosen)
            examples = report.pick(shown)
    return results, examples


def predict(model, options: Options, output_dir: str, labels, find) -> None:
    """Writes test_predictions.txt; shows scores if the file has tags."""
    split = find(options, "test")
    logits = compute_logits(model, options, split, options.predict_batch_size)
    predicted = write(output_dir, "test", split, logits, labels)
    if split.data.has_tags:
        scores = metrics.score(split.data.tags, predicted)
        logging.info("%s:\n%s", split.data.path, metrics.format_scores(scores))


def write(output_dir: str, name: str, split, logits, labels) -> list:
    path = os.path.join(output_dir, f"{name}_predictions.txt")
    predicted = predictions.choose(logits, split.data, labels)
    files.write_predictions(path, split.data, predicted)
    logging.info("Predictions for %d words, in %s.", split.data.num_words, path)
    return predicted
