"""Pre-trains a BERT: masked words and next sentences (section 3.1)."""

import os

from absl import flags

from keras_bert_ref import flags as shared_flags
from keras_bert_ref import heads, precision
from keras_bert_ref.data import batches
from keras_bert_ref.data.pretraining import examples, text_files
from keras_bert_ref.training import (
    distribution,
    loop,
    pretraining,
    progress,
    state,
)
from keras_bert_ref.training import run as training_run

FLAGS = flags.FLAGS

flags.DEFINE_string("bert_config_file", None, "The architecture, as JSON.")
flags.DEFINE_string(
    "input_file",
    None,
    "TFRecords of create_pretraining_data.py: comma-separated names or "
    "patterns; further names may follow the flags.",
)
flags.DEFINE_string("output_dir", None, "Where checkpoints and results go.")
flags.DEFINE_integer("max_seq_length", 128, "Tokens in a record.")
flags.DEFINE_integer(
    "max_predictions_per_seq", 20, "Masked words in a record, at most."
)
flags.DEFINE_bool("do_eval", False, "Evaluate.")
flags.DEFINE_integer("eval_batch_size", 8, "Examples in an evaluation batch.")
flags.DEFINE_integer("num_train_steps", 100000, "Steps to train.")
flags.DEFINE_integer("num_warmup_steps", 10000, "Steps to warm up.")
flags.DEFINE_integer("max_eval_steps", 100, "Batches to evaluate.")
shared_flags.define_training_flags()
shared_flags.define_engine_flags()
flags.mark_flags_as_required(["bert_config_file", "input_file", "output_dir"])

CURVES = ["loss", "masked_lm_accuracy", "next_sentence_accuracy"]
EVAL_KEYS = (
    "loss",
    "masked_lm_accuracy",
    "masked_lm_loss",
    "next_sentence_accuracy",
    "next_sentence_loss",
)


def main(argv):
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise ValueError("Nothing to do: set --do_train, --do_eval or both.")
    config = shared_flags.read_config()
    policy = precision.choose_policy(FLAGS.dtype, FLAGS.use_tpu)
    strategy = shared_flags.set_up()
    records = batches.find_records(
        text_files.find_files(",".join([FLAGS.input_file, *argv[1:]])),
        examples.make_schema(
            FLAGS.max_seq_length, FLAGS.max_predictions_per_seq
        ),
        config.vocab_size,
    )
    if distribution.is_chief(strategy):
        state.keep_config(FLAGS.output_dir, config)
    with strategy.scope():
        model = heads.BertPretraining(
            config, dtype=policy, skip_padding=shared_flags.skips_padding()
        )
        model.build()
        if FLAGS.do_train:
            shared_flags.train(
                strategy,
                model,
                pretraining.TASK,
                records,
                FLAGS.num_train_steps,
                FLAGS.num_warmup_steps,
                CURVES,
            )
        if FLAGS.do_eval:
            run_eval(strategy, model, records)


def run_eval(strategy, model, records):
    step = training_run.restore_for_eval(
        model, FLAGS.output_dir, FLAGS.init_checkpoint
    )
    dataset = batches.distribute(
        strategy, records, FLAGS.eval_batch_size, FLAGS.max_eval_steps
    )
    with batches.readable_errors(records):
        results = loop.evaluate(strategy, model, pretraining.TASK, dataset)
    results = {"global_step": step, **{k: results[k] for k in EVAL_KEYS}}
    if distribution.is_chief(strategy):
        progress.write_results(
            os.path.join(FLAGS.output_dir, "eval_results.txt"), results
        )


def run():
    shared_flags.run(main)


if __name__ == "__main__":
    run()
