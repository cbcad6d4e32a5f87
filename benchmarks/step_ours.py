"""Our own contenders: a training step and inference, on one device or more.

Each function imports what it needs and returns a function that makes the step.
"""

from step_torch import LEARNING_RATE, VOCABULARY


def make_model(job: dict, skip_padding: bool):
    from keras_bert_ref import heads
    from keras_bert_ref.config import BertConfig

    layers, hidden, num_heads = job["shape"]
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=num_heads,
        intermediate_size=4 * hidden,
        hidden_act="gelu_erf" if job["is_erf"] else "gelu",
        type_vocab_size=2,
    )
    if job["mode"] == "pretrain":
        model = heads.BertPretraining(config, skip_padding=skip_padding)
    else:
        model = heads.BertClassifier(
            config, num_labels=2, skip_padding=skip_padding
        )
    model.build()
    return model


def make_train_step(job: dict, model, jit_compile: bool):
    from keras_bert_ref import optimization
    from keras_bert_ref.pretraining.objective import PRETRAINING
    from keras_bert_ref.training import loop
    from keras_bert_ref.training.objective import CLASSIFICATION

    optimizer = optimization.create_optimizer(LEARNING_RATE, 100_000, 1000)
    optimizer.build(model.trainable_variables)
    is_pretraining = job["mode"] == "pretrain"
    objective = PRETRAINING if is_pretraining else CLASSIFICATION
    return loop.make_train_step(
        model, optimizer, objective, jit_compile=jit_compile
    )


def make_step(job: dict, make_batches, jit_compile: bool):
    import tensorflow as tf

    import keras_bert_ref.heads
    import keras_bert_ref.pretraining.objective
    import keras_bert_ref.training.loop  # noqa: F401

    def make():
        model = make_model(job, skip_padding=not jit_compile)
        batches = [
            {name: tf.constant(value) for name, value in batch.items()}
            for batch in make_batches(job)
        ]
        if job["mode"] == "infer":
            infer = tf.function(
                lambda batch: model(batch, training=False),
                jit_compile=jit_compile,
                reduce_retracing=True,
            )
            return lambda i: infer(batches[i % len(batches)]).numpy()
        step = tf.function(
            make_train_step(job, model, jit_compile), reduce_retracing=True
        )
        return lambda i: float(step(batches[i % len(batches)])["loss"])

    return make


def make_replicas(job: dict, make_batches):
    """The training loop on replicas, each a logical device of the CPU, that
    share a batch."""
    import tensorflow as tf

    from keras_bert_ref.training import distribution, loop

    strategy = distribution.choose_strategy(
        distribution.Devices(num_replicas=job["replicas"])
    )

    def make():
        with strategy.scope():
            model = make_model(job, skip_padding=True)
            step = make_train_step(job, model, jit_compile=False)
        (batch,) = make_batches(job)
        dataset = tf.data.Dataset.from_tensors(batch).repeat()
        steps = loop.take_steps(
            strategy,
            step,
            strategy.experimental_distribute_dataset(dataset),
            num_steps=10**9,
        )
        return lambda _: float(next(steps).metrics["loss"])

    return make
