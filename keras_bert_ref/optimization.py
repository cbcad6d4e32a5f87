"""The original's optimizer: Adam with weight decay and a warm-up schedule."""

import math
import re

import keras
import tensorflow as tf

from keras_bert_ref.network import original_name

# Variables whose original name matches one of these do not decay.
NO_DECAY = ("LayerNorm", "layer_norm", "bias")
CLIP_NORM = 1.0
# Of float16; some forty steps in a row without a usable gradient lead there.
MIN_LOSS_SCALE = 2.0**-24


@keras.saving.register_keras_serializable("keras_bert_ref")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A straight line from the initial rate at step 0 to zero at the last.

    During the warm-up another line, rising from zero, takes its place; so the
    first step has rate 0, and where the warm-up ends the rate drops a little,
    to the falling line.

    Args:
        init_lr: float. The rate that the warm-up rises to.
        num_train_steps: int. Where the rate is zero again.
        num_warmup_steps: int. Steps of the rising line.
        power: float. The falling line, as a share of init_lr, is raised to
            it: 1 in the original, 0.5 in NVIDIA's runs with LAMB.
    """

    def __init__(
        self,
        init_lr: float,
        num_train_steps: int,
        num_warmup_steps: int | None = 0,
        power: float = 1.0,
    ):
        if not 0 < init_lr < float("inf"):
            raise ValueError(
                f"A learning rate is finite and above 0, but init_lr={init_lr}."
            )
        if num_train_steps < 1:
            raise ValueError(
                f"num_train_steps={num_train_steps}: a schedule needs at "
                "least one step to train."
            )
        self.init_lr = init_lr
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps or 0
        self.power = power

    def __call__(self, step):
        step = tf.cast(step, tf.float32)
        share_done = tf.minimum(step / self.num_train_steps, 1.0)
        share_left = 1.0 - share_done
        if self.power != 1.0:
            share_left **= self.power
        falling = self.init_lr * share_left
        if not self.num_warmup_steps:
            return falling
        rising = self.init_lr * (step / self.num_warmup_steps)
        return tf.where(step < self.num_warmup_steps, rising, falling)

    def get_config(self):
        return {
            "init_lr": self.init_lr,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
            "power": self.power,
        }


@keras.saving.register_keras_serializable("keras_bert_ref")
class AdamWeightDecay(keras.optimizers.Optimizer):
    """Adam whose weight decay is added to the update itself.

    With `compile` and `fit`, or wherever `apply` (`apply_gradients`) is
    called, gradients are summed over the replicas, then clipped to a global
    norm, then applied. A loop that does the first two itself calls `update`.

    Args:
        learning_rate: float or a schedule such as WarmupLinearDecay.
        weight_decay_rate: float. The share of a weight that is added to its
            update.
        exclude_from_weight_decay: regular expressions; a variable whose
            original name matches one anywhere does not decay.
        clip_norm: float or None. Global norm that `apply` clips to.
        bias_correction: bool. Divide both averages by the share of gradients
            in them, which is small in the first steps: they start from zero.
            The original does not.
    """

    def __init__(
        self,
        learning_rate=1e-4,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        exclude_from_weight_decay=NO_DECAY,
        clip_norm: float | None = CLIP_NORM,
        bias_correction: bool = False,
        name: str = "adam_weight_decay",
    ):
        super().__init__(learning_rate=learning_rate, name=name)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.exclude_from_weight_decay = tuple(exclude_from_weight_decay)
        self.clip_norm = clip_norm
        self.bias_correction = bias_correction

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self.adam_m = self.add_optimizer_variables(variables, "adam_m")
        self.adam_v = self.add_optimizer_variables(variables, "adam_v")
        # One pass over memory instead of a dozen, which writes in place. What
        # tf.function has traced must not outlive the variables, so it is not
        # shared.
        self._compiled = tf.function(adam_update, jit_compile=True)

    def apply(self, grads, trainable_variables=None):
        if trainable_variables is None:
            trainable_variables = self._trainable_variables
        grads = sum_over_replicas(grads)
        if self.clip_norm is not None:
            grads, _ = clip_gradients(grads, self.clip_norm)
        self.update(grads, trainable_variables)

    def update(self, grads, variables, is_valid=None) -> None:
        """Makes one step with gradients that are summed and clipped.

        A variable without a gradient (None) stays as it is; where `is_valid`
        is given and false, all of them do, and the step counts all the same.
        """
        if not self.built:
            self.build(list(variables))
        tf.__internal__.distribute.interim.maybe_merge_call(
            self._update_on_every_device,
            tf.distribute.get_strategy(),
            grads,
            variables,
            tf.cast(self.learning_rate, tf.float32),
            self._gradient_shares(),
            is_valid,
        )
        self.iterations.assign_add(1)

    def _gradient_shares(self):
        """How much of each average is gradients, after this step: 1 - beta^t;
        None without bias correction."""
        if not self.bias_correction:
            return None
        t = tf.cast(self.iterations + 1, tf.float32)
        # expm1 keeps the digits that 1 - 0.999 loses.
        return [
            -tf.math.expm1(t * math.log(beta))
            for beta in (self.beta_1, self.beta_2)
        ]

    def _update_on_every_device(self, strategy, grads, variables, *numbers):
        for grad, variable in zip(grads, variables, strict=True):
            if grad is not None:
                strategy.extended.update(
                    variable.value,
                    self._make_update(variable),
                    args=(grad, *numbers),
                    group=False,
                )

    def _make_update(self, variable):
        """Returns what updates this variable on a device."""
        index = self._get_variable_index(variable)
        original = self._trainable_variables[index]
        slots = self.adam_m[index].value, self.adam_v[index].value
        constants = {
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "decay_rate": (
                self.weight_decay_rate if self.does_decay(original) else 0.0
            ),
            "find_ratio": self.find_ratio(original),
        }

        def update(weight, gradient, *numbers):
            gradient = tf.convert_to_tensor(gradient)  # sums rows of a look-up
            if isinstance(weight, tf.distribute.DistributedValues):
                # A TPU compiles the whole step.
                adam_update(weight, *slots, gradient, *numbers, **constants)
                return
            own = (find_on_device(slot, weight.device) for slot in slots)
            self._compiled(weight, *own, gradient, *numbers, **constants)

        return update

    def does_decay(self, variable) -> bool:
        """Whether weight decay touches this variable."""
        name = original_name(variable)
        return not any(
            re.search(pattern, name)
            for pattern in self.exclude_from_weight_decay
        )

    def find_ratio(self, variable):
        """Which function, if any, gives the ratio that scales the updates of
        this variable; see lamb.py. Adam has none."""
        return None

    def slots(self) -> dict:
        """Adam's two averages of each variable, under the original's names."""
        return {
            f"{original_name(variable)}/{kind}": slot
            for kind, slots in (
                ("adam_m", self.adam_m),
                ("adam_v", self.adam_v),
            )
            for variable, slot in zip(
                self._trainable_variables, slots, strict=True
            )
        }

    def get_config(self):
        base = super().get_config()
        return {
            "name": base["name"],
            "learning_rate": base["learning_rate"],
            "weight_decay_rate": self.weight_decay_rate,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "exclude_from_weight_decay": self.exclude_from_weight_decay,
            "clip_norm": self.clip_norm,
            "bias_correction": self.bias_correction,
        }


def find_on_device(variable: tf.Variable, device: str) -> tf.Variable:
    """The variable itself, or where it stands for one on each replica, the one
    on this device; tf.function would take another device's for the same."""
    strategy = tf.distribute.get_strategy()
    own = strategy.experimental_local_results(variable)
    return next(x for x in own if x.device == device)


def adam_update(
    weight,
    m,
    v,
    gradient,
    learning_rate,
    shares,
    is_valid,
    beta_1: float,
    beta_2: float,
    epsilon: float,
    decay_rate: float,
    find_ratio=None,
) -> None:
    """One step of Adam: updates a weight and its two averages, m and v.

    Args:
        shares: what bias correction divides m and v by; None: nothing.
        is_valid: where it is given and false, all three stay as they are.
        find_ratio: weight, update -> what the update is multiplied by.
    """
    m_next = beta_1 * m + (1.0 - beta_1) * gradient
    v_next = beta_2 * v + (1.0 - beta_2) * gradient * gradient
    m_hat, v_hat = m_next, v_next
    if shares is not None:
        m_hat, v_hat = m_next / shares[0], v_next / shares[1]
    update = m_hat / (tf.sqrt(v_hat) + epsilon) + decay_rate * weight
    if find_ratio is not None:
        update *= find_ratio(weight, update)
    weight_next = weight - learning_rate * update
    for variable, value in ((m, m_next), (v, v_next), (weight, weight_next)):
        if is_valid is not None:
            value = tf.where(is_valid, value, variable)
        variable.assign(value)


def sum_over_replicas(grads):
    """All-reduces gradients; None where a variable has none stays None."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return grads
    present = [grad for grad in grads if grad is not None]
    summed = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, present))
    return [None if grad is None else next(summed) for grad in grads]


def clip_gradients(grads, clip_norm: float = CLIP_NORM):
    """Scales gradients so that their global norm is at most clip_norm.

    In fine-tuning the gradient of the word embeddings is a list of rows, one
    for each token; like the original, the norm counts every row by itself,
    before rows of the same word are summed.

    Returns:
        The gradients and their global norm.
    """
    return tf.clip_by_global_norm(grads, clip_norm)


def create_optimizer(
    init_lr: float, num_train_steps: int, num_warmup_steps: int | None
) -> AdamWeightDecay:
    """The optimizer of every run of the original."""
    return AdamWeightDecay(
        WarmupLinearDecay(init_lr, num_train_steps, num_warmup_steps)
    )


class LossScale:
    """Keeps float16 gradients above zero: doubles while all is well.

    The loss is multiplied by `value` and the gradients divided by it; a step
    whose gradients overflow all the same is left out and halves the value.
    """

    def __init__(self, initial: float = 2.0**15, growth_steps: int = 2000):
        self.growth_steps = growth_steps
        options = {
            "trainable": False,
            "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA,
        }
        self.value = tf.Variable(initial, dtype=tf.float32, **options)
        self.good_steps = tf.Variable(0, dtype=tf.int64, **options)

    def check(self) -> None:
        """Raises if steps are left out one after the other."""
        if self.value.numpy() < MIN_LOSS_SCALE:
            raise FloatingPointError(
                "Gradients in float16 overflow at every step, however small "
                "the loss is made. Go on from an earlier checkpoint with a "
                "lower --learning_rate or a longer warm-up, or with "
                "--dtype=bfloat16 or float32."
            )

    def update(self, is_finite) -> None:
        good_steps = (self.good_steps + 1) * tf.cast(is_finite, tf.int64)
        is_due = good_steps >= self.growth_steps
        grown = tf.where(is_due, self.value * 2.0, self.value)
        self.value.assign(tf.where(is_finite, grown, self.value / 2.0))
        self.good_steps.assign(good_steps * tf.cast(~is_due, tf.int64))
