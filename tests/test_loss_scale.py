"""Dynamic loss scaling: when the scale grows and when it shrinks."""

import tensorflow as tf

from keras_bert_ref.training import loss_scale


def test_loss_scale():
    scale = loss_scale.LossScale(initial=8.0, growth_steps=3)
    seen = []
    for is_finite in [True, True, False, True, True, True, True, False]:
        scale.update(tf.constant(is_finite))
        seen.append((float(scale.value), int(scale.good_steps)))
    assert seen == [
        (8.0, 1),
        (8.0, 2),
        (4.0, 0),
        (4.0, 1),
        (4.0, 2),
        (8.0, 0),
        (8.0, 1),
        (4.0, 0),
    ]


def test_loss_scale_starts_high():
    scale = loss_scale.LossScale()
    assert float(scale.value) == 2.0**15
    assert scale.growth_steps == 2000
