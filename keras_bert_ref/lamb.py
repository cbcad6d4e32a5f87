"""LAMB (You et al. 2020): Adam for large batches.

Adam's update r of a variable w is scaled by |w| / |r|, so that every variable
changes by the same share of its norm, whatever the size of its gradients. The
published versions differ in two ways:

                        bias_correction    ratio_for_all
    ALBERT              no                 no
    TensorFlow Addons   yes                no
    NVIDIA, TF2         yes                yes
"""

import keras
import tensorflow as tf

from keras_bert_ref.optimization import AdamWeightDecay


@keras.saving.register_keras_serializable("keras_bert_ref")
class Lamb(AdamWeightDecay):
    """Adam's update times the ratio of the norms of weight and update.

    Args:
        ratio_for_all: bool. Scale the updates of variables that do not decay
            as well.
        **kwargs: see AdamWeightDecay.
    """

    def __init__(
        self,
        learning_rate=1e-4,
        ratio_for_all: bool = False,
        name: str = "lamb",
        **kwargs,
    ):
        super().__init__(learning_rate, name=name, **kwargs)
        self.ratio_for_all = ratio_for_all

    def find_ratio(self, variable):
        if self.ratio_for_all or self.does_decay(variable):
            return trust_ratio
        return None

    def get_config(self):
        return {**super().get_config(), "ratio_for_all": self.ratio_for_all}


def trust_ratio(weight, update):
    """|weight| / |update|; 1 where one of them is 0."""
    weight_norm, update_norm = tf.norm(weight), tf.norm(update)
    has_both = (weight_norm > 0.0) & (update_norm > 0.0)
    # Where update_norm is 0 the quotient is not taken.
    return tf.where(
        has_both, tf.math.divide_no_nan(weight_norm, update_norm), 1.0
    )
